"""How often a reconciler looks, and what is wrong with what it is told of that."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from oncekey.errors import ConfigurationError
from oncekey.reconciler import Reconciler, ReconcilerSettings, Report
from oncekey.reconciler.settings import reconciler_settings_from
from oncekey.store.sqs import SqsQueue
from oncekey.testing.memory import MemoryStore
from tests.support.events import load

HOUR_MS = 3_600_000
VARIABLES = {
    "ONCEKEY_RECONCILE_FIRST_DELAY_MS": "first_delay_ms",
    "ONCEKEY_RECONCILE_LONGEST_DELAY_MS": "longest_delay_ms",
    "ONCEKEY_RECONCILE_MAX_ATTEMPTS": "max_attempts",
    "ONCEKEY_RESOLVER_TIMEOUT_MS": "resolver_timeout_ms",
    "ONCEKEY_OUTBOX_GRACE_MS": "outbox_grace_ms",
    "ONCEKEY_ESCALATE_AGAIN_MS": "escalate_again_ms",
}
BOUNDS = {
    "first_delay_ms": (1, 24 * HOUR_MS),
    "longest_delay_ms": (1, 30 * 24 * HOUR_MS),
    "max_attempts": (1, 1_000),
    "resolver_timeout_ms": (1, 900_000),
    "outbox_grace_ms": (0, 24 * HOUR_MS),
    "escalate_again_ms": (24 * HOUR_MS, 90 * 24 * HOUR_MS),
}


def faults_of(environment: dict[str, str]) -> list[str]:
    """What is wrong with these settings."""
    with pytest.raises(ConfigurationError) as caught:
        reconciler_settings_from(environment)
    return caught.value.faults


def test_the_delay_doubles_up_to_the_longest() -> None:
    """Each turn is twice as far from the last one, until none is further than the longest delay."""
    turns = ReconcilerSettings(first_delay_ms=1_000, longest_delay_ms=10_000)

    delays = [turns.delay_ms(number, 1.0) for number in range(1, 8)]
    assert delays == [1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000]
    assert turns.delay_ms(10_000, 1.0) == 10_000


@pytest.mark.parametrize("attempts", [1, 2, 5, 60])
def test_chance_takes_a_delay_to_between_half_and_all_of_it(attempts: int) -> None:
    """What became unknown in one moment is not asked about in one moment: chance spreads a turn
    over the second half of its delay, and never beyond.
    """
    turns = ReconcilerSettings(first_delay_ms=1_000, longest_delay_ms=60_000)
    longest = turns.delay_ms(attempts, 1.0)
    drawn = [turns.delay_ms(attempts, number / 10) for number in range(11)]

    assert drawn[0] == longest // 2
    assert drawn == sorted(set(drawn))
    assert drawn[-1] == longest


def test_a_person_is_told_within_half_a_day() -> None:
    """With the defaults, the turns before an escalation take five to ten hours, by chance."""
    turns = ReconcilerSettings()
    least_ms, most_ms = (
        sum(turns.delay_ms(number, chance) for number in range(1, turns.max_attempts + 1))
        for chance in (0.0, 1.0)
    )

    assert (least_ms // HOUR_MS, most_ms // HOUR_MS) == (5, 10)


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_are_as_the_message_says(name: str) -> None:
    """The least and the most are possible; one beyond is refused, and the message has the range."""
    least, most = BOUNDS[name]

    assert {getattr(ReconcilerSettings(**{name: value}), name) for value in (least, most)} == {
        least,
        most,
    }
    for value in (least - 1, most + 1):
        assert faults_of({of_field(name): str(value)}) == [
            f"{name} is {value}: {least} to {most} is possible"
        ]


@pytest.mark.parametrize("value", [60e3, True, None, "60000"])
@pytest.mark.parametrize("name", BOUNDS)
def test_a_setting_is_a_whole_number(name: str, value: Any) -> None:
    """Anything else is refused when the settings are made.

    Red when every visit fails on it.
    """
    with pytest.raises(ConfigurationError, match=f"{name} is {value!r}: int is needed"):
        ReconcilerSettings(**{name: value})


def of_field(name: str) -> str:
    """The variable that sets it."""
    (variable,) = (each for each, field in VARIABLES.items() if field == name)
    return variable


def test_every_setting_has_a_variable() -> None:
    """Each setting comes from the environment under one documented name."""
    assert {field.name for field in fields(ReconcilerSettings)} == set(VARIABLES.values())
    for offset, (variable, name) in enumerate(VARIABLES.items()):
        number = max(1, BOUNDS[name][0]) + offset
        settings = reconciler_settings_from({variable: f" {number} "})
        assert getattr(settings, name) == number


def test_nothing_given_means_the_documented_defaults() -> None:
    """An empty environment gives the defaults of the reference."""
    minute_ms, day_ms = 60_000, 24 * HOUR_MS
    documented = {
        "first_delay_ms": minute_ms,
        "longest_delay_ms": 3 * HOUR_MS,
        "max_attempts": 10,
        "resolver_timeout_ms": 10_000,
        "outbox_grace_ms": minute_ms,
        "escalate_again_ms": 7 * day_ms,
    }

    settings = reconciler_settings_from({})

    assert {name: getattr(settings, name) for name in documented} == documented
    assert settings == ReconcilerSettings()


def test_a_run_returns_its_report() -> None:
    """The package has the names that a caller of `run` needs."""
    reconciler = Reconciler(store=MemoryStore(), turns=ReconcilerSettings())

    assert reconciler.run(0) == Report()


def test_all_faults_are_told_at_once() -> None:
    """What is no number and what is out of range stand in one message, each by its name."""
    environment = {
        "ONCEKEY_RECONCILE_FIRST_DELAY_MS": "a minute",
        "ONCEKEY_RESOLVER_TIMEOUT_MS": "",
        "ONCEKEY_RECONCILE_MAX_ATTEMPTS": "0",
    }

    assert faults_of(environment) == [
        "ONCEKEY_RECONCILE_FIRST_DELAY_MS is 'a minute': a whole number is needed",
        "ONCEKEY_RESOLVER_TIMEOUT_MS is '': a whole number is needed",
        "max_attempts is 0: 1 to 1000 is possible",
    ]


def test_one_number_wrong_is_enough() -> None:
    """Nothing falls back to a default where what is given is no number."""
    assert faults_of({"ONCEKEY_OUTBOX_GRACE_MS": "1.5"}) == [
        "ONCEKEY_OUTBOX_GRACE_MS is '1.5': a whole number is needed"
    ]


def test_a_reconciler_is_refused_without_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are in no index are found by nobody, and a reconciler that runs says so.

    Red when it reports that nothing is due.
    """
    monkeypatch.setenv("ONCEKEY_DUE_SHARDS", "0")

    with pytest.raises(ConfigurationError, match="ONCEKEY_DUE_SHARDS is 0"):
        Reconciler(store=MemoryStore()).run(0)


@pytest.mark.parametrize(
    ("name", "kind"), [("sqs_payment_requested", "SQS"), ("dynamodb_stream_outbox", "DynamoDB")]
)
def test_a_reconciler_that_gets_messages_does_not_report_success(name: str, kind: str) -> None:
    """Its event source is a schedule. A queue deletes what a function without failures was given.

    Red when messages are gone that nobody has read.
    """
    with pytest.raises(ConfigurationError, match=f"its event is a batch of {kind}"):
        Reconciler(store=MemoryStore())(load(name), None)


def test_a_fifo_queue_is_refused_for_escalations(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would refuse each message to a person, for its missing group, whoever names the queue.

    Red when that is noticed at the first escalation.
    """
    url = "https://sqs.eu-central-1.amazonaws.com/123456789012/escalations.fifo"
    refusal = pytest.raises(ConfigurationError, match="the escalation queue is a FIFO queue")
    with refusal:
        Reconciler(store=MemoryStore(), escalations=SqsQueue(url))
    monkeypatch.setenv("ONCEKEY_ESCALATION_QUEUE_URL", url)
    with refusal:
        Reconciler(store=MemoryStore()).run(0)
