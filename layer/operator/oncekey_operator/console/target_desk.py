"""The desk of one target: the operator's own reading and actions, as the console needs them."""

from __future__ import annotations

import threading
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from oncekey.errors import NotExecuted
from oncekey.settlement.resolvers import Completed
from oncekey_operator.actions import settling
from oncekey_operator.actions.acting import acting_on
from oncekey_operator.audit import AuditTable
from oncekey_operator.console.desk import Listing
from oncekey_operator.console.life import Event, Source
from oncekey_operator.exits import CommandError, UsageError
from oncekey_operator.records import finding, listing
from oncekey_operator.records.views import answer_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from oncekey.record.record import Record
    from oncekey_operator.actions.acting import Acting
    from oncekey_operator.audit import Line
    from oncekey_operator.console.desk import Wanted
    from oncekey_operator.targets import Target

# More than a person looks through; the filter finds the others.
_MOST_LISTED = 300
# A scan that finds little would read on for ever, and the page asks again and again.
_MOST_SCANNED = 50_000


class TargetDesk:
    """Reads and acts on a target. See `Desk`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._making = threading.Lock()

    @property
    def place(self) -> str:
        """See `Desk.place`."""
        return str(self._target)

    def operations(self, wanted: Wanted) -> Listing:
        """See `Desk.operations`."""
        found: list[Record] = []
        try:
            for record in self._records(wanted):
                # A part of a name is enough for a filter that a person types into.
                if wanted.tenant in record.tenant and wanted.operation in record.operation:
                    found.append(record)
                if len(found) > _MOST_LISTED:
                    break
            is_whole = len(found) <= _MOST_LISTED
        except _ScannedEnoughError:
            is_whole = False
        found.sort(key=lambda record: record.created_at_ms, reverse=True)
        return Listing(records=found[:_MOST_LISTED], is_whole=is_whole)

    def operation(self, reference: str) -> Record | None:
        """See `Desk.operation`."""
        return finding.by_reference(self._connected().store, reference)

    def history(self, record: Record) -> Sequence[Event]:
        """See `Desk.history`: what the audit table has."""
        target = self._connected()
        if not target.audit_table:
            return ()
        lines = AuditTable(target.dynamodb, target.audit_table).of(record.pk)
        return [_event(line) for line in lines if line.operation_id == record.operation_id]

    def revealed(self, record: Record) -> Mapping[str, Any]:
        """See `Desk.revealed`."""
        what, answer = answer_of(record, self._connected().store)
        sent = {"key": record.key, "principal": record.principal, "answer": answer}
        return {name: value for name, value in sent.items() if value} | {"stored": what}

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
            for one in self._connected().store.pauses()
        ]

    def settle(self, reference: str, given: Mapping[str, Any]) -> str:
        """See `Desk.settle`."""
        record = self.operation(reference)
        if record is None:
            raise CommandError("this operation has expired, or was never there")
        found, step = _finding(given), str(given.get("step") or "")
        try:
            settled = settling.settle(self._acting(given), record, found, step=step)
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error
        if not settled.is_done:
            raise CommandError(f"It is not settled: {settled}.")
        return "It is settled."

    def act(self, action: str, given: Mapping[str, Any]) -> str:
        """See `Desk.act`."""
        raise UsageError(f"this console cannot {action}: {_reason(given)}")

    def _acting(self, given: Mapping[str, Any]) -> Acting:
        return acting_on(self._connected(), why=_reason(given))

    def _connected(self) -> Target:
        """The target. Its clients are made by one thread: boto3's session is not safe for two."""
        with self._making:
            assert self._target.store is not None
        return self._target

    @cached_property
    def _has_index(self) -> bool:
        target = self._connected()
        has_index, _ = listing.RecordsTable(target.dynamodb, target.table).described()
        return has_index

    def _records(self, wanted: Wanted) -> Iterator[Record]:
        target = self._connected()
        states = frozenset({wanted.state} if wanted.state else ())
        of_states = listing.Wanted(states=states)
        if not wanted.settled and self._has_index:
            return listing.open_records(target.store, of_states)
        table = listing.RecordsTable(target.dynamodb, target.table)
        return table.scanned(of_states, _stop_late)


class _ScannedEnoughError(Exception):
    """A scan has read as much as a page may cost."""


def _stop_late(read: int) -> None:
    if read > _MOST_SCANNED:
        raise _ScannedEnoughError


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
