"""The typed description of schedules and reconcilers: what it refuses."""

from __future__ import annotations

import dataclasses

import pytest

from oncekey_local.description import (
    Function,
    Queue,
    ScheduleTrigger,
    Service,
    records_table,
)

PLAIN = dataclasses.replace(records_table("plain"), indexes=())
RECORDS = records_table("records")
QUEUES = (Queue(name="lost"), Queue(name="ordered", fifo=True))


def described(**changes: object) -> Service:
    """A service with one function, which is like this."""
    given: dict[str, object] = {"handler": "functions.clock.handler", "timeout_s": 60, **changes}
    function = Function(name="clock", **given)  # type: ignore[arg-type]
    return Service(name="tick", functions=(function,), tables=(PLAIN, RECORDS), queues=QUEUES)


def refusal(**changes: object) -> str:
    """What a service with such a function is refused with."""
    with pytest.raises(ValueError, match="service 'tick' is wrong") as caught:
        described(**changes)
    return str(caught.value)


@pytest.mark.parametrize(
    ("schedule", "max_age_s"),
    [
        (ScheduleTrigger(every_minutes=1), 60),
        (ScheduleTrigger(every_minutes=5, max_attempts=3, on_failure="lost"), 300),
        (ScheduleTrigger(every_minutes=1440), 21_600),
        (ScheduleTrigger(daily_at_hour_utc=0, max_attempts=2), 21_600),
        (ScheduleTrigger(daily_at_hour_utc=23, on_failure="lost-dead-letters"), 21_600),
    ],
)
def test_a_good_schedule_is_accepted(schedule: ScheduleTrigger, max_age_s: int) -> None:
    """A schedule is created as given, and gives a call up when the next is due, or after 6 h."""
    service = described(schedule=schedule)

    assert service.functions[0].schedule == schedule
    assert schedule.max_age_s == max_age_s


@pytest.mark.parametrize(
    ("schedule", "fault"),
    [
        ({}, "say one of every_minutes and daily_at_hour_utc"),
        ({"every_minutes": 1, "daily_at_hour_utc": 0}, "say one of every_minutes and"),
        ({"every_minutes": 0}, "every_minutes=0 must be 1 to 1440"),
        ({"every_minutes": 1441}, "every_minutes=1441 must be 1 to 1440"),
        ({"daily_at_hour_utc": -1}, "daily_at_hour_utc=-1 must be 0 to 23"),
        ({"daily_at_hour_utc": 24}, "daily_at_hour_utc=24 must be 0 to 23"),
        ({"daily_at_hour_utc": 3, "max_attempts": 0}, "max_attempts=0 must be 1 to 3"),
        ({"daily_at_hour_utc": 3, "max_attempts": 4}, "max_attempts=4 must be 1 to 3"),
        (
            {"every_minutes": 4, "max_attempts": 2},
            "max_attempts=2 every 4 minutes: the next run is there first; say 1, or every_",
        ),
        ({"every_minutes": 5, "on_failure": "ordered"}, "to no FIFO queue, such as 'ordered'"),
    ],
)
def test_limits_of_schedules(schedule: dict[str, object], fault: str) -> None:
    """What EventBridge or Lambda would refuse of a schedule, or not do, is refused here."""
    message = refusal(schedule=ScheduleTrigger(**schedule))  # type: ignore[arg-type]

    assert "function 'clock' and its schedule: " in message
    assert fault in message
    assert ";" not in message.replace("first; say 1", "")


def test_a_schedule_names_queues_of_the_service() -> None:
    """A queue that is to be told of failed runs exists."""
    schedule = ScheduleTrigger(every_minutes=1, on_failure="absent")

    assert "function 'clock' names queue 'absent'" in refusal(schedule=schedule)


def test_a_reconciler_finds_its_records_on_an_index() -> None:
    """A function reconciles a table of the service that has the index of what is due."""
    assert described(reconciles="records", scans=("plain",)).functions[0].reconciles == "records"
    assert "function 'clock' names table 'recrods'" in refusal(reconciles="recrods")
    assert "function 'clock' names table 'archive'" in refusal(scans=("archive",))
    assert "function 'clock' reconciles table 'plain', which has no index 'due'" in refusal(
        reconciles="plain"
    )


@pytest.mark.parametrize("told", ["16", "64", None])
def test_a_reconciler_is_told_the_shards_of_those_who_write_them(told: str | None) -> None:
    """A function that spreads the records of a table over other shards than its reconciler is told
    of is refused: nobody would ever find them.
    """
    variable = {} if told is None else {"ONCEKEY_DUE_SHARDS": told}
    writer = Function(
        name="api", handler="h.h", timeout_s=9, reserves_in="records", environment=variable
    )
    reader = Function(
        name="clock",
        handler="h.h",
        timeout_s=9,
        reconciles="records",
        environment={"ONCEKEY_DUE_SHARDS": "64"},
    )
    if told == "64":
        Service(name="tick", functions=(writer, reader), tables=(RECORDS,))
        return
    with pytest.raises(ValueError, match="different numbers of ONCEKEY_DUE_SHARDS"):
        Service(name="tick", functions=(writer, reader), tables=(RECORDS,))


@pytest.mark.parametrize("field", ["keeps_answers_in", "reads_answers_in"])
def test_a_bucket_that_a_function_may_use_is_one_of_the_service(field: str) -> None:
    """A bucket is refused that the service does not have, whatever it would be used for."""
    assert "function 'clock' names bucket 'respones'" in refusal(**{field: "respones"})
