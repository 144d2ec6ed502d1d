"""`oncekey dev` with functions that the clock calls, as real processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.dev_service import is_alive, running, send, watched
from tests.support.sample_event_desk import Desk

CLOCK = "tests.support.sample_event_service:CLOCK"


def test_by_hand() -> None:
    """A scheduled function is called by hand: it is told how its run ended, however that was.

    What `oncekey dev` says at its start, it says as a command that does so. Only what is called
    often has a process before that.
    """
    with Desk() as desk, running(CLOCK, env=desk.environment) as dev, ThreadPoolExecutor() as hand:
        warm = [one["function"] for one in dev.processes() if one["role"] == "function"]
        assert warm == ["often"]
        assert dev.schedules() == {"often": "every 60 s", "daily": "daily at 3:00 UTC"}
        assert (
            f"daily daily at 3:00 UTC, or now: curl -X POST {dev.url}/_dev/schedules/daily\n"
            in (dev.log())
        )
        run = hand.submit(dev.call_now, "daily")
        visit = desk.visit()
        assert (visit.function, visit.event["detail-type"]) == ("daily", "Scheduled Event")
        visit.answer({"settled": 3})
        assert run.result() == {"function": "daily", "outcome": "result", "said": {"settled": 3}}

        run = hand.submit(dev.call_now, "daily")
        desk.visit().fail()
        ended = run.result()
        assert (ended["outcome"], ended["said"]["errorType"]) == ("function-error", "ValueError")

        run = hand.submit(dev.call_now, "daily")
        visit = desk.visit()
        assert dev.kill_busy("daily") == visit.pid
        assert run.result() == {"function": "daily", "outcome": "died", "said": None}

        for method, path in (
            ("POST", "/_dev/schedules/never"),
            ("POST", "/_dev/schedules/"),
            ("GET", "/_dev/schedules/daily"),
            ("POST", "/_dev/schedules"),
        ):
            assert send(dev.url, method, path).status == 404
        refused = "no function 'nobody' has a schedule: GET /_dev/schedules shows those there are"
        with pytest.raises(RuntimeError, match=refused):
            dev.call_now("nobody")


def test_by_the_clock() -> None:
    """The clock calls a function again after its process was killed, and beside a run that goes on;
    the service ends in the middle of it and leaves nothing behind.
    """
    with Desk() as desk, running(CLOCK, env=desk.environment, schedule_s=0.05, sandboxes=2) as dev:
        visit = desk.visit()
        assert visit.function == "often"
        with watched([visit.pid]) as wait:
            visit.leave()
            wait()
        first, second = desk.visit(), desk.visit()
        assert len({visit.pid, first.pid, second.pid}) == 3
        pids = dev.pids()
        with watched(pids) as wait:
            assert dev.stop() == 0
            wait()
        assert not any(is_alive(pid) for pid in pids)
        assert "[schedule -> often] attempt 1 of 1 failed: died\n" in dev.log()
        assert "Traceback" not in dev.log()
