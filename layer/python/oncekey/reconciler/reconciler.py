"""The reconciler: a Lambda function on a schedule that settles what nobody else has settled.

    from oncekey.reconciler import Reconciler

    from my_service.resolvers import what_became_of_a_payment

    handler = Reconciler(resolvers=[what_became_of_a_payment])

ONCEKEY_TABLE names the table. With an outbox, ONCEKEY_OUTBOX_TABLE and ONCEKEY_QUEUE_URL name its
table and its queue. ONCEKEY_ESCALATION_QUEUE_URL names the escalation queue.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from oncekey.engine.request import remaining_ms
from oncekey.errors import ConfigurationError, StoreError
from oncekey.flow.driver import drive
from oncekey.flow.retry import few_tries, read_pauses
from oncekey.http.job import job_of
from oncekey.misuse import event_kind
from oncekey.options import clock_faults, part_faults
from oncekey.outbox.sweep import OutboxSweep
from oncekey.reconciler.report import Report
from oncekey.reconciler.settings import reconciler_settings_from
from oncekey.reconciler.timed_out import TimedOut
from oncekey.reconciler.visits import Visits
from oncekey.settlement.resolvers import is_declared
from oncekey.store import defaults, in_use
from oncekey.store.due_index import due_keys
from oncekey.store.sqs import SqsQueue
from oncekey.telemetry import watching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from oncekey.clock import Clock
    from oncekey.flow.commands import Flow
    from oncekey.reconciler.settings import ReconcilerSettings
    from oncekey.record.pause import Pause
    from oncekey.settlement.resolvers import Finding, Question
    from oncekey.store.due_index import OpenRecords

# The time reserved for the writes after a resolver's answer, and for the end of the run. In a short
# invocation it is a quarter of the time, so that the run does some work.
_MARGIN_MS = 3_000
_MARGIN_FRACTION = 4
# The length of a run outside Lambda, which has no deadline.
_DEFAULT_BUDGET_MS = 50_000
# With less time than this, a resolver could hardly finish.
_LEAST_TIME_MS = 1_000


class Reconciler:
    """A Lambda handler that visits every due record, and sends messages left in the outbox.

    - Dead attempts and overdue requests are ended.
    - Resolvers are asked about unknown operations, with a back-off. After `max_attempts` turns the
      operation is escalated, and again each week until it is settled.
    - Half-done work with `on_abandoned="complete"` is handed to a worker.
    - An item that cannot be visited takes turns, too, and is escalated in the end.

    Every change is a conditional write, so any number of reconcilers, late owners, webhooks and
    clients may work at the same time. The cost of a run depends on the number of due records, and
    not on the size of the table. Each provider, queue or bucket can take only a limited share of a
    run's time.

    Args:
        resolvers: the resolvers to be asked. A resolver is found only if its module was imported,
            and naming it here ensures that.
        store: where the records are, by default in ONCEKEY_TABLE.
        escalations: the escalation queue, by default the one that ONCEKEY_ESCALATION_QUEUE_URL
            names. Without one, escalations are logged, each day.
        outbox: sends messages that stayed in the outbox too long, by default from
            ONCEKEY_OUTBOX_TABLE to ONCEKEY_QUEUE_URL, if both are set.
        handlers: the handlers with `mode="queued"`. If a request was not begun in time, its 408 has
            the wording of its handler. For other handlers, the preset in the record is used.
        clock: for tests.
        turns: how often to visit a record, by default from the environment.

    Raises:
        ConfigurationError: one of `resolvers` was not declared with `@resolver`, or another
            argument is wrong; the message names every fault.
    """

    def __init__(
        self,
        *,
        resolvers: Sequence[Callable[[Question], Finding]] = (),
        store: OpenRecords | None = None,
        escalations: SqsQueue | None = None,
        outbox: OutboxSweep | None = None,
        handlers: Sequence[Callable[[Any, Any], Any]] = (),
        clock: Clock | None = None,
        turns: ReconcilerSettings | None = None,
    ) -> None:
        # Escalations to the text of a URL, for example, would fail one after the other.
        faults = [
            *_function_faults(resolvers, handlers),
            *part_faults(
                {
                    "store=": (store, "due", "DynamoDBStore(table)"),
                    "escalations=": (escalations, "send", "SqsQueue(url)"),
                    "outbox=": (outbox, "run", "OutboxSweep(relay=OutboxRelay(...))"),
                    "turns=": (turns, "delay_ms", "ReconcilerSettings(...)"),
                }
            ),
            *_fifo_faults(escalations),
            *clock_faults(clock),
        ]
        if faults:
            raise ConfigurationError("Reconciler", faults)
        self._store = store
        self._escalations = escalations
        self._outbox = outbox
        self._timed_out = TimedOut(handlers)
        self._given_clock = clock
        self._turns = turns

    def __call__(self, event: object, context: object) -> dict[str, Any]:
        """Reconcile until shortly before the invocation's end, and return the numbers of `Report`.

        Raises:
            StoreError: the index or the outbox did not answer, all visits failed, or turns could
                not be written. Records that were not visited stay due.
            ConfigurationError: the environment is wrong, or the event is a batch of messages or
                records, which would count as handled; nothing was done.
        """
        kind = event_kind(event)
        if kind.startswith("a batch"):
            fault = f"its event is {kind}: its event source must be a schedule"
            raise ConfigurationError("Reconciler", [fault])
        left_ms = remaining_ms(context)
        budget_ms = _DEFAULT_BUDGET_MS if left_ms is None else _budget_ms(left_ms)
        report = self.run(self._clock.now_ms() + budget_ms)
        return asdict(report)

    def run(self, until_ms: int) -> Report:
        """Reconcile until `until_ms` (epoch milliseconds), and log the numbers.

        Raises:
            StoreError: as above. The numbers are logged before it is raised.
        """
        watching.look_again()
        settings, turns = defaults.settings({}), self._turns or reconciler_settings_from(os.environ)
        if not settings.due_shards:
            no_index = "ONCEKEY_DUE_SHARDS is 0: without the index `due`, no record is found"
            raise ConfigurationError("oncekey reconciler", [no_index])
        store = defaults.open_records(settings.store_timeout_ms, self._store)
        outbox = None if defaults.is_disabled() else self._outbox or OutboxSweep.from_environment()
        visits = Visits(
            store=store,
            clock=self._clock,
            settings=settings,
            turns=turns,
            escalations=self._escalations or _default_escalations(),
            timed_out=self._timed_out.ending,
            report=Report(),
            run_ms=until_ms - self._clock.now_ms(),
        )
        report = visits.report
        try:
            fault = None if outbox is None else self._sweep(outbox, visits, until_ms)
            if settings.pause_check_s:
                # After the sweep, which needs the table of records for nothing.
                visits = replace(visits, pauses=self._pauses(store))
            self._visit_all(visits, store, until_ms)
        finally:
            report.log()
            _count(visits, self._clock.now_ms())
        if fault is not None:
            raise fault
        _check(visits)
        return report

    def _pauses(self, store: OpenRecords) -> tuple[Pause, ...]:
        budget = few_tries(self._clock.now_ms(), store.call_timeout_ms)
        return drive(read_pauses(budget, self._clock), store=store, clock=self._clock)

    @property
    def _clock(self) -> Clock:
        return in_use.clock_or(self._given_clock)

    def _visit_all(self, visits: Visits, store: OpenRecords, until_ms: int) -> None:
        """Visit the due records: first those that need only the table, then the waiting ones.

        After half of the remaining time, the waiting records come first. So they get a turn even if
        more records are due than one run can read.
        """
        settings, report = visits.settings, visits.report
        # Each run begins with another shard, so that no shard is always last when time is short.
        first = int(self._clock.random_fraction() * settings.due_shards)
        now_ms = self._clock.now_ms()
        keys = due_keys(store, until_ms=now_ms - 1, shards=settings.due_shards, first=first)

        def is_time_left() -> bool:
            return self._clock.now_ms() + _LEAST_TIME_MS <= until_ms

        half_ms = now_ms + (until_ms - now_ms) // 2
        fault: StoreError | None = None
        for look_until_ms in (half_ms, until_ms):
            try:
                for pk in keys:
                    if not is_time_left():
                        report.is_complete = False
                        break
                    self._carry_out(visits.look(pk), store)
                    if visits.lanes.are_waiting and self._clock.now_ms() >= look_until_ms:
                        break
            except StoreError as error:
                fault = error
            self._carry_out(visits.work(until_ms, is_time_left), store)
        self._carry_out(visits.end(is_time_left), store)
        self._carry_out(visits.work(until_ms, is_time_left), store)
        report.is_complete &= not visits.lanes.are_waiting
        if fault is not None:
            raise fault

    def _carry_out(self, flow: Flow[None], store: OpenRecords) -> None:
        drive(flow, store=store, clock=self._clock)

    def _sweep(self, outbox: OutboxSweep, visits: Visits, until_ms: int) -> StoreError | None:
        """Sweep the outbox for at most a quarter of the time. Returns the failure, if any.

        So records do not wait for a full outbox, or for one that does not answer.
        """
        report, now_ms = visits.report, self._clock.now_ms()
        swept_until_ms = now_ms + (until_ms - now_ms) // 4
        try:
            swept = outbox.run(
                before_ms=now_ms - visits.turns.outbox_grace_ms,
                is_time_left=lambda: self._clock.now_ms() < swept_until_ms,
                escalations=visits.escalations,
            )
        except StoreError as error:
            return error
        report.resent += swept.resent
        report.failed += swept.failed
        report.set_aside += swept.set_aside
        report.is_complete &= swept.is_complete
        oldest_at_ms = now_ms if swept.oldest_at_ms is None else swept.oldest_at_ms
        watching.count("OutboxAge", value=(now_ms - oldest_at_ms) // 1000)
        return None


def _function_faults(resolvers: object, handlers: object) -> Iterator[str]:
    if not isinstance(resolvers, Collection) or isinstance(resolvers, str):
        yield "resolvers= is no list of functions: write resolvers=[what_became_of_a_payment]"
    else:
        for each in resolvers:
            if not is_declared(each):
                yield f"{getattr(each, '__name__', each)!r} is not declared with @resolver"
    if not isinstance(handlers, Collection) or isinstance(handlers, str):
        yield "handlers= is no list of functions: write handlers=[create_report]"
    else:
        for each in handlers:
            if job_of(each) is None:
                yield (
                    f"{getattr(each, '__name__', each)!r} is in handlers=, and is decorated with"
                    " neither @idempotent(mode='queued') nor on_abandoned='complete'"
                )


def _count(visits: Visits, now_ms: int) -> None:
    """Emit the metrics of a run."""
    report = visits.report
    oldest_at_ms = min(visits.unknown.values(), default=now_ms)
    for name, value in {
        "ReconcilerRuns": 1,
        "Visited": report.visited,
        "Settled": report.settled,
        "VisitsFailed": report.failed,
        "Escalated": report.escalated,
        "MessagesResent": report.resent,
        "UnknownRecords": len(visits.unknown),
        "OldestUnknownAge": (now_ms - oldest_at_ms) // 1000,
    }.items():
        watching.count(name, value=value)
    watching.flush(now_ms)


def _check(visits: Visits) -> None:
    """Return if the run did some of its work. Otherwise raise, so that somebody sees the failure.

    Raises:
        StoreError: turns could not be written, or all visits failed.
    """
    report = visits.report
    if visits.refused:
        raise StoreError(
            f"{len(visits.refused)} records cannot take a turn: {visits.refused[-1]}",
            transient=False,
        )
    if report.failed and not (visits.worked or report.resent or report.escalated):
        raise StoreError(
            f"nothing of what is due could be done, {report.failed} times: see the log",
            transient=False,
        )


def _budget_ms(left_ms: int) -> int:
    return left_ms - min(_MARGIN_MS, left_ms // _MARGIN_FRACTION)


def _default_escalations() -> SqsQueue | None:
    url = os.environ.get("ONCEKEY_ESCALATION_QUEUE_URL", "").strip()
    if not url:
        return None
    queue = SqsQueue(url)
    if faults := _fifo_faults(queue):
        raise ConfigurationError("ONCEKEY_ESCALATION_QUEUE_URL", faults)
    return queue


def _fifo_faults(queue: object) -> list[str]:
    if isinstance(queue, SqsQueue) and queue.is_fifo:
        return ["the escalation queue is a FIFO queue: make a standard one, which needs no groups"]
    return []
