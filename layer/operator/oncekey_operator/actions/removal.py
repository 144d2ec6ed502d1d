"""Removing what is stored of an operation: `bust` lets its key run again, `erase` does not.

A removal is no transition: it ends this life of the record. It is one conditional write that names
the version that was read, so it never removes what somebody else has written since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey.engine.operation_pointer import pointer_place
from oncekey.record.record import Effects, Status
from oncekey.record.steps import NO_STEPS
from oncekey.record.stored_answer import ERASED, Place, StoredRef
from oncekey.store.dynamodb.codec import attribute_values
from oncekey.value import replace
from oncekey_operator.exits import CommandError
from oncekey_operator.output import iso

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.record.record import Record
    from oncekey_operator.actions.acting import Acting

# What a person may take upon themselves, and what it means.
DANGERS = {
    "completed": (
        "the operation took effect: with the same key it runs again, and takes effect a second time"
    ),
    "unknown": (
        "nobody knows whether the operation took effect: with the same key it runs again, and may"
        " take effect a second time"
    ),
    "half-done": (
        "an attempt has begun, and its effects are harmless to repeat only under this operation's"
        " id: with the same key they happen a second time, under a new one"
    ),
}
_RUNNING = "its attempt still runs: wait for the end of its lease"
_CHANGED = "somebody has written the record in the meantime: look at it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where records and large answers are removed."""

    dynamodb: Any
    table: str
    s3: Any = None
    bucket: str = ""

    def delete(self, record: Record) -> bool:
        """Delete `record`. False if it is not as it was read."""
        return self._conditional(
            self.dynamodb.delete_item, record, Key={"pk": {"S": record.pk}}, TableName=self.table
        )

    def put(self, record: Record, *, instead_of: Record) -> bool:
        """Write `record`. False if the other one is not as it was read."""
        return self._conditional(
            self.dynamodb.put_item,
            instead_of,
            Item=attribute_values(record),
            TableName=self.table,
        )

    def check_reaches(self, record: Record) -> None:
        """Return if all that is stored of `record` can be deleted from here.

        Raises:
            CommandError: its answer is in a bucket that is not named.
        """
        if self.s3 is None and any(at.place is Place.OBJECT for at in _blobs(record)):
            raise CommandError("its answer is in the response bucket: say --bucket NAME")

    def delete_blob(self, at: StoredRef) -> None:
        """Delete a companion, a pointer or an object. Nothing happens if it is not there."""
        if at.place is Place.ITEM:
            self.dynamodb.delete_item(TableName=self.table, Key={"pk": {"S": at.name}})
        else:
            self.s3.delete_object(Bucket=self.bucket, Key=at.name)

    def _conditional(self, call: Any, seen: Record, **parameters: Any) -> bool:
        try:
            call(
                **parameters,
                ConditionExpression="#owner = :owner AND #rev = :rev",
                ExpressionAttributeNames={"#owner": "owner", "#rev": "rev"},
                ExpressionAttributeValues={
                    ":owner": {"S": seen.owner},
                    ":rev": {"N": str(seen.rev)},
                },
            )
        except self.dynamodb.exceptions.ConditionalCheckFailedException:
            return False
        return True


def danger_of(record: Record, now_ms: int) -> str:
    """Which danger of `DANGERS` it is to forget `record`; empty if it is safe.

    Raises:
        CommandError: its attempt still runs.
    """
    if record.is_expired(now_ms):
        return ""
    if record.status is Status.IN_PROGRESS and not record.is_lease_over(now_ms):
        raise CommandError(_RUNNING)
    if record.status is Status.COMPLETED:
        return "completed"
    if record.status is Status.UNKNOWN:
        return "unknown"
    if record.status is Status.IN_PROGRESS and not record.may_run_again:
        return "unknown"
    return "half-done" if _may_have_acted(record) else ""


def _may_have_acted(record: Record) -> bool:
    """Whether an attempt of an operation that is not in doubt may have had an effect.

    Repeatable effects and idempotent steps leave no mark. The provider recognises their repeat by
    a key that is derived from the operation's id, which a new operation does not have.
    """
    if record.status is Status.PENDING:
        return record.was_begun
    return record.effects is not Effects.UNRECORDED


def bust(acting: Acting, storage: Storage, record: Record, *, even_if: str = "") -> None:
    """Forget `record`, so that its key runs as a new operation.

    A worker that gets the message of a forgotten job drops it.

    Raises:
        CommandError: its attempt runs, it was changed, or it is dangerous and `even_if` does not
            say so. Nothing was removed.
    """
    danger = danger_of(record, acting.clock.now_ms())
    if danger and even_if != danger:
        raise CommandError(f"{DANGERS[danger]}. If you want that, say --even-if {danger}")
    storage.check_reaches(record)
    intention = acting.audit.intend(
        f"bust{f', even if {danger}' if danger else ''}",
        pk=record.pk,
        operation_id=record.operation_id,
        before=record.status.value,
    )
    if not storage.delete(record):
        intention.end("refused: changed in the meantime")
        raise CommandError(_CHANGED)
    _delete_blobs(storage, record)
    intention.end("busted", after="absent")


def is_erasable(record: Record, now_ms: int) -> bool:
    """Whether its data may be erased: it is settled, and needs nothing of them any more."""
    if record.status is Status.FAILED_RETRYABLE:
        return record.is_expired(now_ms) or not _may_have_acted(record)
    return record.status is Status.COMPLETED


def erase(acting: Acting, storage: Storage, record: Record) -> str:
    """Erase the data of a settled operation, and say what is left of it.

    A completed one leaves a tombstone until it expires, so that its key does not run a second time:
    a retry is answered that the answer is not available. One that failed leaves nothing.

    Raises:
        CommandError: it is open, or was changed. Its record is as it was.
    """
    now_ms = acting.clock.now_ms()
    if not is_erasable(record, now_ms):
        state = record.status.value.lower().replace("_", "-")
        until = "settle it first"
        if record.expires_at_s is not None:
            until = f"they expire at {iso(record.expires_at_s * 1000)}"
        raise CommandError(f"it is {state}, and its data are needed to end it: {until}")
    storage.check_reaches(record)
    left = "nothing"
    intention = acting.audit.intend(
        "erase",
        pk=record.pk,
        operation_id=record.operation_id,
        before=record.status.value,
    )
    if record.status is Status.COMPLETED and not record.is_expired(now_ms):
        # The answers go first. If this is interrupted, the record still says where the others are.
        # No request changes a completed record before it expires.
        _delete_blobs(storage, record)
        is_done, left = storage.put(tombstone(record), instead_of=record), "tombstone"
    elif is_done := storage.delete(record):
        # Only now, because a retry may have begun it again, and would miss its pointer.
        _delete_blobs(storage, record)
    if not is_done:
        intention.end("refused: changed in the meantime")
        raise CommandError(_CHANGED)
    intention.end("erased", after=left)
    return left


def tombstone(record: Record) -> Record:
    """What is left of a completed record: its state, times, operation and hashes."""
    return replace(
        record,
        rev=record.rev + 1,
        tenant=ERASED.reason,
        principal="",
        key="",
        request=None,
        request_digest=None,
        steps=NO_STEPS,
        response=ERASED,
    )


def _delete_blobs(storage: Storage, record: Record) -> None:
    for at in _blobs(record):
        storage.delete_blob(at)


def _blobs(record: Record) -> Iterator[StoredRef]:
    answers = (record.response, *(step.result for step in record.steps.finished))
    yield from (each for each in answers if isinstance(each, StoredRef))
    yield pointer_place(record.operation_id)
