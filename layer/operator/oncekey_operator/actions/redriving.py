"""Moving messages on: those that were set aside, and dead letters; or discarding one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oncekey_operator.actions.messages import PAYLOAD_ELSEWHERE
from oncekey_operator.exits import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.store.dynamodb.outbox import OutboxTable
    from oncekey_operator.actions.acting import Acting
    from oncekey_operator.actions.removal import Storage
    from oncekey_operator.messages.outbox import OutboxItem
    from oncekey_operator.messages.queues import DeadLetter, DeadLetterQueue


class Redriven(NamedTuple):
    """How many dead letters were moved, and how many were left after the queue had refused one."""

    moved: int
    left: int


def requeue(acting: Acting, outbox: OutboxTable, item: OutboxItem) -> bool:
    """Put back a message that was set aside: the next sweep sends it.

    Returns False if it is no longer in the table.

    Raises:
        CommandError: the audit line was not written, and nothing was changed.
        StoreError: the table did not answer; the message may have been put back.
    """
    intention = acting.audit.intend(
        "redrive",
        pk=f"outbox#{item.id}",
        operation_id=item.operation_id,
        before=f"set aside: {item.reason}",
    )
    is_there = outbox.requeue(item.id)
    intention.end("done" if is_there else "gone", after="waiting" if is_there else "")
    return is_there


def move_back(
    acting: Acting, queue: DeadLetterQueue, most: int, moved: Callable[[int], None]
) -> Redriven:
    """Move up to `most` dead letters back to their queue. `moved` hears the number so far.

    If the queue refuses one, no more are moved. After a failure the rest is where it was; call it
    again.

    Raises:
        CommandError: the audit line was not written, and nothing was moved.
        ClientError: SQS refused a call; the audit table says how many were moved before.
    """
    name = queue.url.rpartition("/")[2]
    intention = acting.audit.intend(
        "redrive", pk=f"queue#{name}", before=f"about {queue.count()} dead letters"
    )
    done = left = 0
    outcome = "failed"
    try:
        for letters in queue.receive(most):
            count = queue.move_back(letters)
            done += count
            moved(done)
            if count < len(letters):
                # The queue refuses some of them, and would refuse them again.
                left = len(letters) - count
                queue.show_again(letters)
                break
        outcome = "refused in part" if left else "done"
    finally:
        intention.end(outcome, after=f"{done} moved")
    return Redriven(done, left)


def discard_set_aside(acting: Acting, storage: Storage, outbox: str, item: OutboxItem) -> bool:
    """Delete a message that is set aside. What it asks for is not done.

    Returns False if it is no longer set aside.

    Raises:
        CommandError: its payload is out of reach, or the audit line was not written. Nothing was
            deleted.
        ClientError: the table did not answer; the message may have been deleted.
    """
    if item.has_object and storage.s3 is None:
        raise CommandError(PAYLOAD_ELSEWHERE)
    intention = acting.audit.intend(
        "discard",
        pk=f"outbox#{item.id}",
        operation_id=item.operation_id,
        before=f"set aside: {item.reason}",
    )
    try:
        found = storage.dynamodb.delete_item(
            TableName=outbox,
            Key={"id": {"S": item.id}},
            ConditionExpression="attribute_exists(set_aside_at)",
            ReturnValues="ALL_OLD",
        )["Attributes"]
    except storage.dynamodb.exceptions.ConditionalCheckFailedException:
        intention.end("gone")
        return False
    if "payload_ref" in found and storage.s3 is not None:
        storage.s3.delete_object(Bucket=storage.bucket, Key=found["payload_ref"]["M"]["name"]["S"])
    intention.end("done", after="absent")
    return True


def discard_dead_letter(acting: Acting, queue: DeadLetterQueue, letter: DeadLetter) -> None:
    """Delete one dead letter. What it asks for is not done by it any more.

    Raises:
        CommandError: the audit line was not written, and nothing was deleted.
        ClientError: SQS did not delete it, or did not say so.
    """
    intention = acting.audit.intend(
        "discard",
        pk=f"queue#{queue.url.rpartition('/')[2]}",
        operation_id=letter.operation_id,
        before=f"dead letter {letter.message_id} ({letter.topic or 'no message of ours'})",
    )
    outcome = "failed"
    try:
        queue.discard(letter)
        outcome = "done"
    finally:
        intention.end(outcome, after="absent" if outcome == "done" else "")
