"""The desk of one target: the operator's own reading and actions, as the console needs them."""

from __future__ import annotations

import threading
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from oncekey.errors import NotExecuted
from oncekey.outbox import OutboxTable
from oncekey.record.pause import EVERYTHING, PauseScope
from oncekey.settlement.resolvers import Completed
from oncekey_operator.actions import pausing, redriving, settling
from oncekey_operator.actions.acting import acting_on
from oncekey_operator.audit import AuditTable
from oncekey_operator.console.desk import Listing
from oncekey_operator.console.given import named, text, whole
from oncekey_operator.console.life import Event, Source
from oncekey_operator.exits import CommandError, UsageError
from oncekey_operator.messages.outbox import outbox_items
from oncekey_operator.messages.queues import dead_letters_of
from oncekey_operator.output import counted
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
# A message that fails again at once comes back while others are moved.
_MOST_MOVED = 1_000


class TargetDesk:
    """Reads and acts on a target. See `Desk`."""

    def __init__(self, target: Target, where: str = "") -> None:
        self._target = target
        self.where = where
        self._making = threading.RLock()

    @property
    def place(self) -> str:
        """See `Desk.place`."""
        return str(self._target)

    def operations(self, wanted: Wanted) -> Listing:
        """See `Desk.operations`."""
        if wanted.state and wanted.state not in listing.STATES:
            raise UsageError(f"there is no state {wanted.state!r}: {', '.join(listing.STATES)}")
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
        return Listing(
            records=found[:_MOST_LISTED], is_whole=is_whole, is_scanned=self._is_scanned(wanted)
        )

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
        sent = {"key": record.key or None, "principal": record.principal or None, "answer": answer}
        # An answer may be 0 or an empty text.
        found = {name: value for name, value in sent.items() if value is not None}
        return found | {"stored": what}

    def outbox(self) -> Sequence[Mapping[str, Any]]:
        """See `Desk.outbox`."""
        target = self._connected()
        if not target.outbox_table:
            return ()
        items = islice(outbox_items(target.dynamodb, target.outbox_table), _MOST_LISTED)
        return [
            {
                "id": item.id,
                "topic": item.topic,
                "operation": item.operation,
                "tenant": item.tenant,
                "created_at": item.created_at_ms,
                "set_aside_at": item.set_aside_at_ms,
                "reason": item.reason,
            }
            for item in sorted(items, key=lambda item: item.created_at_ms)
        ]

    def queues(self) -> Sequence[Mapping[str, Any]]:
        """See `Desk.queues`."""
        return [self._counted(name, url) for name, url in self._queue_urls().items()]

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
        if given.get("attempt") is None or whole(given, "attempt") != record.attempt:
            raise CommandError("another attempt has begun since this was shown: look at it again")
        found, step = _finding(given), text(given, "step")
        looked_at_ms = _looked_at_ms(given, found)
        try:
            if given.get("finding") == "end" and isinstance(found, Completed):
                settled = settling.end(self._acting(given), record, found)
            else:
                settled = settling.settle(
                    self._acting(given), record, found, step=step, found_at_ms=looked_at_ms
                )
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error
        if not settled.is_done:
            raise CommandError(f"It is not settled: {settled}.")
        return "It is settled."

    def act(self, action: str, given: Mapping[str, Any]) -> str:
        """See `Desk.act`."""
        acting = self._acting(given)
        match action:
            case "requeue":
                return self._requeue(acting, given)
            case "redrive":
                return self._redrive(acting, given)
            case "pause":
                scope, name = _paused(given)
                pausing.pause(acting, scope, name)
                return "New work is paused."
            case "resume":
                scope, name = _paused(given)
                if pausing.resume(acting, scope, name) is None:
                    raise CommandError("it was not paused")
                return "New work goes on."
            case _:
                raise UsageError(f"there is no action {action!r}")

    def _queue_urls(self) -> Mapping[str, str]:
        """The queues by their names."""
        urls = (self._target.queue_url, self._target.escalation_queue_url)
        return {url.rpartition("/")[2]: url for url in urls if url}

    def _counted(self, name: str, url: str) -> Mapping[str, Any]:
        sqs = self._sqs
        asked = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed"]
        asked.append("ApproximateNumberOfMessagesNotVisible")
        counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=asked)["Attributes"]
        visible, delayed, in_flight = (int(counts[one]) for one in asked)
        try:
            dead = dead_letters_of(sqs, url).count()
        except UsageError:
            dead = 0  # it has no dead-letter queue
        return {
            "name": name,
            "waiting": visible + delayed,
            "in_flight": in_flight,
            "dead_letters": dead,
        }

    def _requeue(self, acting: Acting, given: Mapping[str, Any]) -> str:
        target, message_id = self._target, named(given, "id")
        if not target.outbox_table:
            raise UsageError("this console was told of no outbox table: say --outbox-table NAME")
        items = outbox_items(target.dynamodb, target.outbox_table, set_aside_only=True)
        item = next((item for item in items if item.id == message_id), None)
        table = OutboxTable(target.outbox_table, client=target.dynamodb)
        if item is None or not redriving.requeue(acting, table, item):
            raise CommandError("this message is no longer set aside")
        return "It waits again: the next sweep sends it."

    def _redrive(self, acting: Acting, given: Mapping[str, Any]) -> str:
        queue = named(given, "queue")
        url = self._queue_urls().get(queue)
        if url is None:
            raise UsageError(f"there is no queue {queue!r}")
        # All that are there. SQS knows their number only about, so it is not asked.
        letters = dead_letters_of(self._sqs, url)
        moved, left = redriving.move_back(acting, letters, _MOST_MOVED, lambda _: None)
        more = " There may be more: redrive them again." if moved == _MOST_MOVED else ""
        if left:
            more = f" The queue has refused one: {left} are left, and others were not tried."
        return f"Delivered again: {counted(moved, 'dead letter')}.{more}"

    def _acting(self, given: Mapping[str, Any]) -> Acting:
        with self._making:
            return acting_on(self._target, why=_reason(given))

    def _connected(self) -> Target:
        """The target. Its clients are made by one thread: boto3's session is not safe for two."""
        with self._making:
            assert self._target.store is not None
        return self._target

    @cached_property
    def _sqs(self) -> Any:
        with self._making:
            return self._target.client("sqs")

    @cached_property
    def _has_index(self) -> bool:
        target = self._connected()
        has_index, _ = listing.table_of(target).described()
        return has_index

    def _records(self, wanted: Wanted) -> Iterator[Record]:
        target = self._connected()
        states = frozenset({wanted.state} if wanted.state else ())
        of_states = listing.Wanted(states=states)
        if self._is_scanned(wanted):
            return listing.table_of(target).scanned(of_states, _stop_late)
        return listing.open_records(target.store, of_states)

    def _is_scanned(self, wanted: Wanted) -> bool:
        is_open = not wanted.settled and wanted.state not in listing.NOT_IN_INDEX
        return not (is_open and self._has_index)


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
        case "completed" | "end" if "answer" in given:
            return Completed(given["answer"])
        case "not-executed":
            return NotExecuted()
        case _:
            raise UsageError("finding is completed or end, with an answer, or not-executed")


def _looked_at_ms(given: Mapping[str, Any], found: Completed | NotExecuted) -> int | None:
    """When the page asked its person. What a person has found out is no newer than that."""
    if isinstance(found, Completed):
        return None
    try:
        return whole(given, "looked_at")
    except ValueError as error:
        raise UsageError(
            "not-executed needs looked_at, when the page asked, in epoch milliseconds"
        ) from error


def _paused(given: Mapping[str, Any]) -> tuple[PauseScope, str]:
    kind = named(given, "kind")
    if kind not in set(PauseScope):
        raise UsageError("kind is operation, tenant or all")
    if kind == PauseScope.ALL:
        return PauseScope.ALL, EVERYTHING
    return PauseScope(kind), named(given, "name")


def _reason(given: Mapping[str, Any]) -> str:
    reason = text(given, "reason").strip()
    if not reason:
        raise UsageError("say the reason: the audit table has it")
    return reason
