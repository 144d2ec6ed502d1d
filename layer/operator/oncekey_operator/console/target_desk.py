"""The desk of one target: the operator's own reading and actions, as the console needs them."""

from __future__ import annotations

import threading
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from oncekey.errors import NotExecuted
from oncekey.settlement.late import settle
from oncekey.settlement.resolvers import Completed
from oncekey.settlement.settlement import Settlement
from oncekey.store.due_index import due_keys
from oncekey.store.dynamodb.codec import record_from_item
from oncekey_operator.actions.acting import acting_on
from oncekey_operator.audit import AuditTable
from oncekey_operator.console.desk import Listing
from oncekey_operator.console.life import Event, Source
from oncekey_operator.exits import CommandError, UsageError
from oncekey_operator.records import finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from oncekey.record.record import Record
    from oncekey_operator.audit import Line
    from oncekey_operator.console.desk import Wanted
    from oncekey_operator.targets import Target

# More than a person looks through; the filter finds the others.
_MOST_LISTED = 300
# A Scan reads a megabyte a page.
_MOST_PAGES = 10
_MOST_IN_A_BATCH = 100
_FOR_EVER_MS = 2**53

_NOT_SETTLED = {
    Settlement.TOO_EARLY: "A call of the dead attempt may still arrive. Try again later.",
    Settlement.RUNNING: "Its own run may still end it. Try again later.",
    Settlement.NOT_IN_DOUBT: "Nothing is in doubt: it has ended, or a coming run goes on with it.",
    Settlement.OVERTAKEN: "Somebody else has settled it in the meantime.",
}


class TargetDesk:
    """Reads and acts on a target. See `Desk`."""

    def __init__(self, target: Target) -> None:
        self._given = target
        self._making_clients = threading.Lock()

    @property
    def _target(self) -> Target:
        # Two threads must not make the clients at once: boto3's session is not safe for that.
        with self._making_clients:
            assert self._given.store is not None
        return self._given

    @property
    def place(self) -> str:
        """See `Desk.place`."""
        return str(self._given)

    def operations(self, wanted: Wanted) -> Listing:
        """See `Desk.operations`."""
        found: list[Record] = []
        for page in self._all() if wanted.settled else self._open():
            found += [record for record in page if _fits(record, wanted)]
            if len(found) > _MOST_LISTED:
                break
        found.sort(key=lambda record: record.created_at_ms, reverse=True)
        return Listing(records=found[:_MOST_LISTED], is_whole=len(found) <= _MOST_LISTED)

    def operation(self, reference: str) -> Record | None:
        """See `Desk.operation`."""
        return finding.by_reference(self._target.store, reference)

    def history(self, record: Record) -> Sequence[Event]:
        """See `Desk.history`: what the audit table has."""
        target = self._target
        if not target.audit_table:
            return ()
        lines = AuditTable(target.dynamodb, target.audit_table).of(record.pk)
        return [_event(line) for line in lines if line.operation_id == record.operation_id]

    def revealed(self, record: Record) -> Mapping[str, Any]:
        """See `Desk.revealed`."""
        return {"key": record.key, "principal": record.principal, "answer": repr(record.response)}

    def outbox(self) -> Sequence[Mapping[str, Any]]:
        """See `Desk.outbox`."""
        return []

    def queues(self) -> Sequence[Mapping[str, Any]]:
        """See `Desk.queues`."""
        return []

    def pauses(self) -> Sequence[Mapping[str, Any]]:
        """See `Desk.pauses`."""
        return [
            {
                "kind": one.scope.value,
                "name": one.name,
                "since": one.since_ms,
                "reason": one.reason,
                "by": one.by,
            }
            for one in self._target.store.pauses()
        ]

    def settle(self, reference: str, given: Mapping[str, Any]) -> str:
        """See `Desk.settle`."""
        record = self.operation(reference)
        if record is None:
            raise CommandError("this operation has expired, or was never there")
        found, why = _finding(given), _reason(given)
        acting = acting_on(self._target, why=why)
        intention = acting.audit.intend(
            "settle", pk=record.pk, operation_id=record.operation_id, before=record.status.value
        )
        step = str(given.get("step") or "")
        try:
            result = settle(reference, found, step=step, store=acting.store, clock=acting.clock)
        except (TypeError, ValueError) as error:
            intention.end("refused")
            raise UsageError(str(error)) from error
        intention.end(result.value)
        if result is not Settlement.SETTLED:
            raise CommandError(_NOT_SETTLED[result])
        return "It is settled."

    def act(self, action: str, given: Mapping[str, Any]) -> str:
        """See `Desk.act`."""
        raise UsageError(f"this console cannot {action} yet: {_reason(given)}")

    def _open(self) -> Iterator[list[Record]]:
        """The open records, from the index: a batch of them at a time."""
        store = self._target.store
        keys = due_keys(store, until_ms=_FOR_EVER_MS, shards=1)
        while batch := list(islice(keys, _MOST_IN_A_BATCH)):
            yield [record for pk in batch if (record := store.read(pk)) is not None]

    def _all(self) -> Iterator[list[Record]]:
        """All records, from the table: a page of them at a time."""
        target = self._target
        pages = target.dynamodb.get_paginator("scan").paginate(
            TableName=target.table,
            FilterExpression="attribute_exists(#status)",
            ExpressionAttributeNames={"#status": "status"},
        )
        for page in islice(pages, _MOST_PAGES):
            yield [record_from_item(item) for item in page["Items"]]


def _fits(record: Record, wanted: Wanted) -> bool:
    return (
        wanted.state in {"", record.status.value.lower()}
        and wanted.tenant in record.tenant
        and wanted.operation in record.operation
    )


def _event(line: Line) -> Event:
    return Event(
        at_ms=int(datetime.fromisoformat(line.at.partition("#")[0]).timestamp() * 1000),
        title=f"{line.action.capitalize()}: {line.outcome}",
        detail=f"{line.who}: {line.why}",
        source=Source.AUDIT,
    )


def _finding(given: Mapping[str, Any]) -> Completed | NotExecuted:
    match given.get("finding"):
        case "completed" if "answer" in given:
            return Completed(given["answer"])
        case "not-executed":
            return NotExecuted()
        case _:
            raise UsageError("finding is completed, with an answer, or not-executed")


def _reason(given: Mapping[str, Any]) -> str:
    reason = given.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise UsageError("say the reason: the audit table has it")
    return reason.strip()
