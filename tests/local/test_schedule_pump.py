"""The clock calls functions as EventBridge does, with a function that the test plays."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from oncekey_local import arguments
from oncekey_local.description import Function, Queue, ScheduleTrigger, Service
from oncekey_local.functions.runtime_api import OutcomeKind
from tests.support.replacing import replace
from tests.support.sample_event_store import FAST, Events, play

TICKING = replace(FAST, schedule_s=0.01)
BAD_ENDS = (
    OutcomeKind.FUNCTION_ERROR,
    OutcomeKind.TIMED_OUT,
    OutcomeKind.DIED,
    OutcomeKind.NOT_STARTED,
)


def service(**schedule: Any) -> Service:
    """A function and its schedule, and a queue for what has failed."""
    trigger = ScheduleTrigger(**(schedule or {"every_minutes": 5}))
    function = Function(name="clock", handler="played.by.the_test", timeout_s=1, schedule=trigger)
    return Service(name="timed", functions=(function,), tables=(), queues=(Queue(name="lost"),))


def test_calls_come_again_and_again() -> None:
    """Each call has an event of its own, from the rule of the function."""

    async def story(events: Events) -> None:
        seen = []
        for _ in range(3):
            call = await events.function.call()
            seen.append(call.event)
            call.answer()
        assert len({event["id"] for event in seen}) == 3
        [arn] = seen[0]["resources"]
        assert (
            arn == f"arn:aws:events:us-east-1:123456789012:rule/{events.service.name}-local-clock"
        )
        assert all(event["detail-type"] == "Scheduled Event" for event in seen)

    play(story, service(), TICKING)


def test_runs_may_overlap(capsys: pytest.CaptureFixture[str]) -> None:
    """A call does not wait for the run before, and is not made when no sandbox is free for it.

    However long a run takes, nothing waits behind it.
    """

    async def story(events: Events) -> None:
        first, second = await events.function.call(), await events.function.call()
        await events.until_said(capsys, "[schedule -> clock] not called: 2 runs go on")
        assert events.function.waiting == 0
        first.answer()
        third = await events.function.call()
        await events.until_said(capsys, "not called: 2 runs go on")
        assert events.function.waiting == 0
        assert len({one.event["id"] for one in (first, second, third)}) == 3

    play(story, service(), TICKING, sandboxes=2)


def test_a_failed_run_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """However a run ends, the next call is made, and the failed one is not made again."""

    async def story(events: Events) -> None:
        ids = []
        for kind in BAD_ENDS:
            call = await events.function.call()
            ids.append(call.event["id"])
            call.end(kind)
        (await events.function.call()).answer()
        assert len(set(ids)) == len(BAD_ENDS)
        assert [one["visible"] for one in (await events.sources.queues()).values()] == [0]
        said = capsys.readouterr().err
        for kind in BAD_ENDS:
            assert f"[schedule -> clock] attempt 1 of 1 failed: {kind}\n" in said

    play(story, service(), TICKING, sandboxes=1)


def test_a_run_is_tried_as_often_as_described() -> None:
    """A run that fails is tried again with its own event; then the described queue is told."""

    async def story(events: Events) -> None:
        attempts = [await events.function.call()]
        attempts[0].end(OutcomeKind.TIMED_OUT)
        attempts.append(await events.function.call())
        attempts[1].end(OutcomeKind.DIED)
        [message] = await events.receive("lost")
        told = json.loads(message["Body"])
        assert attempts[0].event == attempts[1].event == told["requestPayload"]
        assert told["requestContext"]["approximateInvokeCount"] == 2
        attempts.append(await events.function.call())
        attempts[2].end(OutcomeKind.FUNCTION_ERROR)
        attempts.append(await events.function.call())
        attempts[3].answer()
        assert attempts[2].event == attempts[3].event != attempts[0].event
        await events.until("lost", visible=0, in_flight=1)

    play(story, service(every_minutes=5, max_attempts=2, on_failure="lost"), TICKING, sandboxes=1)


def test_the_queue_is_told_when_the_store_is_back(capsys: pytest.CaptureFixture[str]) -> None:
    """An outage of the store stops no schedule, and what has failed meanwhile is told after it."""

    async def story(events: Events) -> None:
        await events.faults(down=True)
        failed = await events.function.call()
        failed.end(OutcomeKind.DIED)
        await events.until_said(capsys, "[schedule -> clock] waits for the store: ")
        (await events.function.call()).answer()
        await events.faults(down=False)
        [message] = await events.receive("lost")
        assert json.loads(message["Body"])["requestPayload"] == failed.event

    play(story, service(every_minutes=1, on_failure="lost"), TICKING)


def test_a_function_is_called_by_hand() -> None:
    """A call by hand is made at once, whatever the hour, and its outcome is told; it is the only
    attempt.
    """

    async def story(events: Events) -> None:
        assert events.sources.schedules() == {"clock": "daily at 3:00 UTC"}
        for kind in (OutcomeKind.RESULT, *BAD_ENDS):
            run = asyncio.create_task(events.sources.call_now("clock"))
            (await events.function.call()).end(kind)
            assert (await run).kind is kind
        assert events.function.waiting == 0
        with pytest.raises(KeyError):
            await events.sources.call_now("nobody")

    # Not even a service that is told to hurry calls a daily function at another hour.
    play(story, service(daily_at_hour_utc=3, max_attempts=3), TICKING)


def test_a_schedule_ends_in_the_middle_of_a_run() -> None:
    """The pump ends at once when it is stopped, whatever runs."""

    async def story(events: Events) -> None:
        await events.function.call()
        await events.sources.stop()
        assert all(pump.cancelled() for pump in events.sources.pumps)
        events.sources.pumps.clear()

    play(story, service(), TICKING)


@pytest.mark.parametrize(
    ("schedule_s", "told"), [(None, "every 300 s"), (0.01, "every 0.01 s"), (2.0, "every 2 s")]
)
def test_the_developer_sets_the_pace(schedule_s: float | None, told: str) -> None:
    """A schedule has the description's period, unless the command line says another."""

    async def story(events: Events) -> None:
        assert events.sources.schedules() == {"clock": told}

    play(story, service(), replace(FAST, schedule_s=schedule_s))


@pytest.mark.parametrize("schedule", [{"every_minutes": 5}, {"daily_at_hour_utc": 3}])
def test_a_schedule_that_is_switched_off_calls_when_it_is_told_to(schedule: dict[str, int]) -> None:
    """Like a rule that somebody has disabled: nothing calls the function but a person."""

    async def story(events: Events) -> None:
        assert events.sources.schedules() == {"clock": "off"}
        run = asyncio.create_task(events.sources.call_now("clock"))
        (await events.function.call()).answer()
        assert (await run).kind is OutcomeKind.RESULT

    play(story, service(**schedule), replace(FAST, schedule_s=arguments.schedule("off")))
