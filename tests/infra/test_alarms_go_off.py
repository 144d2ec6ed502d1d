"""Each alarm goes off when what it is about happens, and its section of the runbook exists."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import pytest
from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Template

from functions.ledger.handler import emit_metrics
from functions.ledger.models import Outcome, Window
from infra.oncekey_cdk import IdempotencyTable, IdempotentFunction, Observability, Reconciler
from oncekey import StillUnknown
from oncekey.errors import StoreError
from oncekey.ledger import LedgerTotals
from oncekey.outbox.relay import OutboxRelay
from oncekey.outbox.sweep import OutboxSweep
from oncekey.record.transitions import Reserve
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.alarm_states import Metrics, is_on
from tests.support.documents import ROOT, anchors
from tests.support.events import with_body, with_key
from tests.support.memory_outbox import MemoryOutbox, stream_of, waiting
from tests.support.protected import Protected
from tests.support.reconciled import Unrecorded, knows, reconciles
from tests.support.sample_constructs import new_stack
from tests.support.steps import POST
from tests.support.strict_sqs import StrictSqs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.templates import Synthesised

KIND = "AWS::CloudWatch::Alarm"
FUNCTION = "AWS::Lambda::Function"
RUNBOOK = "layer/docs/guides/runbook.md"
FIVE_MINUTES_MS = 300_000
MINUTE_S, FIVE_MINUTES_S, QUARTER_S, DAY_S = 60, 300, 900, 24 * 3600
NOW_S = 1_700_000_000


class Away(MemoryStore):
    """A store that cannot reserve."""

    def write(self, transition: Any) -> Any:
        """Write, or fail."""
        if isinstance(transition, Reserve):
            raise StoreError("ThrottlingException", transient=True)
        return super().write(transition)


class Slow(MemoryStore):
    """A store whose writes take a second each."""

    clock: ManualClock

    def write(self, transition: Any) -> Any:
        """Write, late."""
        self.clock.advance(1_000)
        return super().write(transition)


def _three_times(happens: Callable[[int], object], clock: ManualClock) -> int:
    for number in range(3):
        if number:
            clock.advance(FIVE_MINUTES_MS)
        happens(number)
    return clock.now_ms()


def healthy() -> int:
    """A request that is answered, and its retry."""
    service = Protected()
    service.send(POST)
    service.send(POST)
    return service.clock.now_ms()


def store_is_away() -> int:
    """A request that cannot be reserved."""
    service = Protected(store=Away())
    service.send(POST)
    return service.clock.now_ms()


def killed() -> int:
    """Four requests whose processes were killed, and their retries after the lease."""
    service = Unrecorded()
    events = [with_key(POST, f"the-key-of-a-request-{number}") for number in range(4)]
    for event in events:
        service.event = event
        service.dies(service.charge)
    service.lets_the_lease_run_out()
    for event in events:
        service.send(event)
    return service.clock.now_ms()


def other_requests() -> int:
    """Ten other requests with the key of the first one."""
    service = Protected()
    service.send(POST)
    for amount in range(10):
        service.send(with_body(POST, f'{{"amount": {amount}}}'))
    return service.clock.now_ms()


def replays() -> int:
    """A hundred retries of one request that was answered."""
    service = Protected()
    for _ in range(101):
        service.send(POST)
    return service.clock.now_ms()


def slow_store() -> int:
    """Three new requests within a quarter of an hour, on a slow store."""
    store = Slow()
    service = Protected(store=store)
    store.clock = service.clock
    return _three_times(
        lambda number: service.send(with_key(POST, f"the-key-of-a-request-{number}")),
        service.clock,
    )


def slow_handler() -> int:
    """Three requests whose handlers take nine of their ten seconds."""
    service = Protected(timeout_ms=10_000)

    def handler(_event: object, _op: object) -> dict[str, Any]:
        service.clock.advance(9_000)
        return {"statusCode": 201}

    service.then = handler
    return _three_times(
        lambda number: service.send(with_key(POST, f"the-key-of-a-request-{number}")),
        service.clock,
    )


def queue_refuses() -> int:
    """A message that the queue never accepts."""
    sqs, clock = StrictSqs(), ManualClock()
    sqs.refuses = lambda _body: "InvalidMessageContents"
    table = MemoryOutbox(waiting(1))
    OutboxRelay(table=table, queue=sqs.queue, clock=clock)(stream_of([waiting(1)]), None)
    return clock.now_ms()


def stays_unknown(operations: int = 1, wait_ms: int = 120_000) -> int:
    """Operations that are unknown, and a run of the reconciler whose resolver does not know."""
    service = Unrecorded()
    for number in range(operations):
        service.fails(f"the-key-of-a-request-{number}")
    service.clock.advance(wait_ms)
    knows(StillUnknown())
    reconciles(service, waits=False)
    return service.clock.now_ms()


def nobody_can_be_told() -> int:
    """A new unknown operation each minute, while the queue of escalations is away."""
    service = Unrecorded()
    service.escalations.is_down = True
    for minute in range(20):
        service.fails(f"the-key-of-a-request-{minute}")
        service.clock.advance(60_000)
        with contextlib.suppress(StoreError):
            reconciles(service, waits=False, max_attempts=1, escalations=service.escalations)
    return service.clock.now_ms()


def sweeps(*, age_ms: int) -> int:
    """Three runs of the reconciler, each of which finds a message of this age."""
    service = Unrecorded()

    def run(number: int) -> None:
        table = MemoryOutbox(waiting(number, created_at_ms=service.clock.now_ms() - age_ms))
        relay = OutboxRelay(table=table, queue=StrictSqs().queue, clock=service.clock)
        reconciles(service, waits=False, outbox=OutboxSweep(table=table, relay=relay))

    return _three_times(run, service.clock)


# An alarm on metrics of the layer → what sets it off.
OF_THE_LAYER: dict[str, Callable[[], int]] = {
    "AlarmsStoreErrors": store_is_away,
    "AlarmsLeaseExpired": killed,
    "AlarmsKeyReused": other_requests,
    "AlarmsReplayRate": replays,
    "AlarmsLayerLatency": slow_store,
    "AlarmsLeaseUsed": slow_handler,
    "AlarmsSetAside": queue_refuses,
    "AlarmsReconcilerUnknownAge": lambda: stays_unknown(wait_ms=2 * 3_600_000),
    "AlarmsReconcilerUnknownBacklog": lambda: stays_unknown(operations=11),
    "AlarmsReconcilerVisitsFailed": nobody_can_be_told,
    "AlarmsReconcilerOutboxStalled": lambda: sweeps(age_ms=180_000),
    "AlarmsReconcilerOutboxAge": lambda: sweeps(age_ms=1_000_000),
}
# An alarm on AWS's own metrics → its period, what it reports when things are bad, in the order of
# the periods, and when they are not. With several metrics, their names are given.
OF_AWS: dict[str, tuple[int, list[Any], list[Any]]] = {
    "AlarmsPaymentsErrors": (FIVE_MINUTES_S, [1], [0]),
    "AlarmsCanaryErrors": (FIVE_MINUTES_S, [1], [0]),
    "AlarmsPaymentsThrottles": (MINUTE_S, [1, 1, 1], [1, 0, 1]),
    "AlarmsPaymentsDuration": (MINUTE_S, [19_000, 18_000, 17_000], [19_000, 19_000, 900]),
    "AlarmsLedgerAbsent": (DAY_S, [0, 0, 0], [1, 1, 1]),
    "AlarmsOutboxRelayBehind": (MINUTE_S, [400_000] * 3, [200] * 3),
    "AlarmsPaymentsWaiting": (MINUTE_S, [1_900] * 3, [20] * 3),
    "AlarmsPaymentsDeadLettersDepth": (MINUTE_S, [1], [0]),
    "AlarmsEscalatedDepth": (MINUTE_S, [1], [0]),
    "AlarmsIdempotencyTableThrottles": (MINUTE_S, [5, 5, 5], [5, 0, 0]),
    "AlarmsIdempotencyTableIndexThrottles": (MINUTE_S, [5, 5, 5], [5, 0, 0]),
    "AlarmsIdempotencyTableNotPruned": (
        DAY_S,
        [{"ConsumedWriteCapacityUnits": 90_000}] * 7,
        [{"ConsumedWriteCapacityUnits": 90_000, "TimeToLiveDeletedItemCount": 20_000}] * 7,
    ),
    "AlarmsHttpApiFailures": (FIVE_MINUTES_S, [1], [0]),
    "AlarmsHttpApiClientErrors": (
        QUARTER_S,
        [{"4xx": [30], "Count": [1] * 60}],
        [{"4xx": [30], "Count": [1] * 40}],
    ),
    "AlarmsHttpApiTooManyRequests": (FIVE_MINUTES_S, [4, 4, 4], [4, 0, 0]),
}
LEDGER = {
    "Different": LedgerTotals(equal=9, different=1),
    "OnlyOurs": LedgerTotals(equal=9, only_ours=1),
    "OnlyTheirs": LedgerTotals(equal=9, only_theirs=1),
    "Incomplete": None,
}


@pytest.fixture(scope="module")
def alarms(second: Synthesised) -> dict[str, dict[str, Any]]:
    """The alarms of the reference service, by logical id without its hash."""
    found = second.service.find_resources(KIND)
    return {key[:-8]: dict(resource)["Properties"] for key, resource in found.items()}


@pytest.fixture
def deployed(second: Synthesised, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metrics of this process go where the deployed functions send theirs."""
    function = next(iter(second.service.find_resources(FUNCTION).values()))
    for name, value in dict(function)["Properties"]["Environment"]["Variables"].items():
        if name.startswith("ONCEKEY_METRICS_"):
            monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize("name", OF_THE_LAYER)
def test_an_alarm_of_the_layer_goes_off(
    alarms: dict[str, dict[str, Any]], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an alarm on the layer's metrics is about sets it off, through the real decorators and
    functions, and a healthy request does not.

    Red when a metric, its dimensions or a threshold is not the one that is emitted.
    """
    for happens, expected in ((OF_THE_LAYER[name], True), (healthy, False)):
        metrics = Metrics()
        now_ms = happens()
        metrics.read(capsys.readouterr().out)

        assert is_on(alarms[name], metrics, now_s=now_ms // 1000) is expected


@pytest.mark.usefixtures("deployed")
def test_a_reconciler_that_does_not_run_is_absent(
    alarms: dict[str, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A quarter of an hour without a run that came to its end is an alarm. One run ends it."""
    metrics = Metrics()
    alarm = alarms["AlarmsReconcilerAbsent"]
    now_s = stays_unknown() // 1000
    assert is_on(alarm, metrics, now_s=now_s)

    metrics.read(capsys.readouterr().out)

    assert not is_on(alarm, metrics, now_s=now_s)


@pytest.mark.parametrize("every", [1, 5, 15, 60, 24 * 60, 3 * 24 * 60, 7 * 24 * 60])
def test_a_reconciler_that_runs_seldom_is_watched_too(every: int) -> None:
    """An alarm about several runs in a row goes off, however long the time between two runs is, and
    looks back a week at most, as CloudWatch asks.

    Red when a period between two runs has no data and so counts as a good one.
    """
    stack = new_stack()
    reconciler = Reconciler(
        stack,
        "Reconciler",
        table=IdempotencyTable(stack, "Records"),
        every=Duration.minutes(every),
    )
    Observability(stack, "Alarms", reconcilers=[reconciler])
    found = Template.from_stack(stack).find_resources(KIND)
    alarms = {key[:-8]: dict(resource)["Properties"] for key, resource in found.items()}
    every_s = every * MINUTE_S
    assert {name.removeprefix("AlarmsReconciler") for name in alarms} >= {
        *("Absent", "UnknownAge", "UnknownBacklog"),
        *("VisitsFailed", "OutboxStalled", "OutboxAge"),
    }

    for name, alarm in alarms.items():
        looks_back_s = alarm.get("Period", QUARTER_S) * alarm["EvaluationPeriods"]
        assert looks_back_s <= 7 * DAY_S, name
    metrics = Metrics()
    for number in range(-(-max(QUARTER_S, 3 * every_s) // every_s)):
        for emitted in ("VisitsFailed", "MessagesResent", "ReconcilerRuns"):
            metrics.put("oncekey", emitted, {"service": "Stack"}, NOW_S - number * every_s, 1)
    for about, expected in (("VisitsFailed", True), ("OutboxStalled", True), ("Absent", False)):
        assert is_on(alarms[f"AlarmsReconciler{about}"], metrics, now_s=NOW_S) is expected


def test_a_schedule_that_no_alarm_can_watch_is_refused() -> None:
    """An alarm looks back a week at most, so a longer time between two runs is refused."""
    stack = new_stack()
    function = IdempotentFunction(
        stack,
        "Yearly",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
        handler="index.handler",
    )

    with pytest.raises(ValueError, match="'Stack/Yearly' runs every 8 days, and an alarm looks"):
        Observability(stack, "Alarms").watch_schedule(function, every=Duration.days(8))


@pytest.mark.parametrize("name", OF_AWS)
def test_an_alarm_on_metrics_of_aws_goes_off(alarms: dict[str, dict[str, Any]], name: str) -> None:
    """What AWS reports in trouble sets the alarm off, and what it reports otherwise does not."""
    period, bad, good = OF_AWS[name]

    for values, expected in ((bad, True), (good, False)):
        metrics = Metrics()
        for number, value in enumerate(reversed(values)):
            for metric in _metrics_of(alarms[name]):
                points = value.get(metric["MetricName"], []) if isinstance(value, dict) else value
                dimensions = {one["Name"]: one["Value"] for one in metric.get("Dimensions", [])}
                for point in points if isinstance(points, list) else [points]:
                    metrics.put(
                        metric["Namespace"],
                        metric["MetricName"],
                        dimensions,
                        NOW_S - number * period,
                        point,
                    )

        assert is_on(alarms[name], metrics, now_s=NOW_S) is expected, values


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize("end", LEDGER)
def test_a_difference_of_the_ledgers_is_an_alarm(
    alarms: dict[str, dict[str, Any]], end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the ledger function finds sets off the alarm of its ledger, and agreement does not."""
    window = Window(start_s=0, end_s=1)
    for totals, expected in ((LEDGER[end], True), (LedgerTotals(equal=10), False)):
        metrics = Metrics()
        emit_metrics(Outcome(ledger="refunds", window=window, totals=totals))
        output = capsys.readouterr().out
        metrics.read(output)
        (emitted,) = re.findall(r'"Timestamp":\s*(\d+)', output)

        now_s = int(emitted) // 1000
        assert is_on(alarms[f"AlarmsLedgerRefunds{end}"], metrics, now_s=now_s) is expected


def test_each_kind_of_alarm_is_tried(alarms: dict[str, dict[str, Any]]) -> None:
    """The alarms that these tests set off have together all sections of the runbook that alarms
    name.
    """
    tried = {*OF_THE_LAYER, *OF_AWS, *(f"AlarmsLedgerRefunds{end}" for end in LEDGER)}
    tried.add("AlarmsReconcilerAbsent")

    assert {_section(alarms[name]) for name in tried} == {
        _section(alarm) for alarm in alarms.values()
    }


def test_the_runbook_has_a_section_for_each_alarm(alarms: dict[str, dict[str, Any]]) -> None:
    """Each alarm names its section of the runbook, and each section belongs to an alarm.

    The alarm `GivenUp` belongs to the construct `Outbox`, which the reference service does not use.
    """
    named = {_section(alarm) for alarm in alarms.values()} | {"givenup"}
    headings = re.findall(r"^### (\w+)$", (ROOT / RUNBOOK).read_text("utf-8"), re.MULTILINE)

    assert {heading.lower() for heading in headings} == named
    assert named <= anchors(RUNBOOK)
    assert all(len(alarm["AlarmDescription"]) <= 1024 for alarm in alarms.values())


def _section(alarm: dict[str, Any]) -> str:
    page, _, section = alarm["AlarmDescription"].rpartition(" ")[2].partition("#")
    assert page == RUNBOOK
    return str(section)


def _metrics_of(alarm: dict[str, Any]) -> list[dict[str, Any]]:
    if "Metrics" not in alarm:
        return [alarm]
    return [one["MetricStat"]["Metric"] for one in alarm["Metrics"] if "MetricStat" in one]
