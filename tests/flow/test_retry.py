"""Asking the store again: how long between tries, how often, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey.errors import StoreError
from oncekey.flow import retry
from oncekey.flow.commands import Pause, Read, Write
from oncekey.flow.retry import Budget, delay_ms
from oncekey.record.transitions import Complete, Ending
from oncekey.testing.memory import ManualClock

if TYPE_CHECKING:
    from oncekey.flow.commands import Flow

START_MS = 1_000_000
BUSY = StoreError("busy", transient=True)
DENIED = StoreError("denied", transient=False)
WRITE = Complete(
    pk="pk", owner="o", ending=Ending(response="{}", completed_at_ms=1, expires_at_s=1)
)


def budget(*, lasts_ms: int = 60_000, timeout_ms: int = 100, attempts: int | None = None) -> Budget:
    """A budget that begins at START_MS."""
    return Budget(until_ms=START_MS + lasts_ms, call_timeout_ms=timeout_ms, max_failures=attempts)


def driven(flow: Flow[Any], replies: list[Any], clock: ManualClock) -> tuple[Any, list[Any]]:
    """Run `flow` against `replies`; its result or its error, and the commands that it gave."""
    commands: list[Any] = []
    answers = iter(replies)
    try:
        command = flow.send(None)
        while True:
            commands.append(command)
            if isinstance(command, Pause):
                clock.pause(command.duration_ms)
                command = flow.send(None)
                continue
            answer = next(answers)
            command = flow.throw(answer) if isinstance(answer, StoreError) else flow.send(answer)
    except StopIteration as end:
        return end.value, commands
    except StoreError as error:
        return error, commands


def calls(commands: list[Any]) -> int:
    """How often the store was asked."""
    return sum(isinstance(command, Read | Write) for command in commands)


def test_delays_double_up_to_a_second() -> None:
    """With the most chance the pauses are 50, 100, 200, 400, 800 and then always 1,000 ms."""
    longest = [delay_ms(attempts, 1.0) for attempts in range(1, 9)]

    assert longest == [50, 100, 200, 400, 800, 1_000, 1_000, 1_000]
    assert delay_ms(10_000, 1.0) == 1_000


def test_chance_halves_a_delay_at_most() -> None:
    """With no chance a pause is half the longest, so that it is never nothing."""
    assert [delay_ms(attempts, 0.0) for attempts in range(1, 8)] == [
        25, 50, 100, 200, 400, 500, 500,
    ]  # fmt: skip
    assert [delay_ms(attempts, 0.5) for attempts in (1, 2, 6)] == [37, 75, 750]


def test_an_answer_at_once_costs_no_pause() -> None:
    """A call that succeeds is one command and nothing else."""
    clock = ManualClock(START_MS)

    result, commands = driven(retry.read("pk", budget(), clock), ["the record"], clock)

    assert (result, commands) == ("the record", [Read("pk")])


def test_a_transient_failure_is_tried_again_unchanged() -> None:
    """The same write is sent again after a growing pause, until it is answered."""
    clock = ManualClock(START_MS)
    flow = retry.write(WRITE, budget(), clock)

    result, commands = driven(flow, [BUSY, BUSY, "written"], clock)

    assert result == "written"
    assert commands == [Write(WRITE), Pause(37), Write(WRITE), Pause(75), Write(WRITE)]


def test_a_failure_that_stays_is_raised_at_once() -> None:
    """What only a new deployment can mend is not tried again."""
    clock = ManualClock(START_MS)

    result, commands = driven(retry.read("pk", budget(), clock), [DENIED], clock)

    assert result is DENIED
    assert calls(commands) == 1


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_no_more_tries_than_allowed(attempts: int) -> None:
    """After the last try its failure is raised, without a pause before it."""
    clock = ManualClock(START_MS)
    flow = retry.read("pk", budget(attempts=attempts), clock)

    result, commands = driven(flow, [BUSY] * 9, clock)

    assert result is BUSY
    assert calls(commands) == attempts
    assert not isinstance(commands[-1], Pause)


@pytest.mark.case(21)
def test_no_try_begins_that_could_outlast_the_budget() -> None:
    """A try that could still be under way at the end of the time is not begun.

    Red when `allows` forgets the pause or the time that a call may take.
    """
    clock = ManualClock(START_MS)
    flow = retry.read("pk", budget(lasts_ms=137, timeout_ms=100), clock)

    result, commands = driven(flow, [BUSY] * 9, clock)

    assert result is BUSY
    assert commands == [Read("pk"), Pause(37), Read("pk")]


def test_the_first_try_is_always_made() -> None:
    """Where there is no time at all, the store is asked once."""
    clock = ManualClock(START_MS)

    result, commands = driven(retry.read("pk", budget(lasts_ms=0), clock), ["found"], clock)

    assert (result, calls(commands)) == ("found", 1)


@pytest.mark.parametrize(
    ("failures", "next_at_ms", "allowed"),
    [
        (1, START_MS + 900, True),
        (1, START_MS + 901, False),
        (2, START_MS, True),
        (3, START_MS, False),
        (4, START_MS, False),
    ],
)
def test_a_budget_counts_failures_and_time(failures: int, next_at_ms: int, allowed: bool) -> None:
    """A try is allowed up to the count, and if it ends within the time at the latest."""
    limited = budget(lasts_ms=1_000, attempts=3)
    limited.failures = failures

    assert limited.allows(next_at_ms) is allowed


def test_a_budget_counts_the_failures_of_all_calls_together() -> None:
    """A reserve that needs a second write does not begin to count anew."""
    clock, shared = ManualClock(START_MS), budget(attempts=3)
    driven(retry.read("pk", shared, clock), [BUSY, BUSY, "found"], clock)

    result, commands = driven(retry.write(WRITE, shared, clock), [BUSY], clock)

    assert (result, calls(commands)) == (BUSY, 1)


def test_a_budget_without_a_count_goes_by_the_time() -> None:
    """After the work is done, recording it is tried for as long as there is time."""
    tired = budget()
    tired.failures = 1_000

    assert tired.allows(START_MS)
    assert not tired.allows(START_MS + 60_000)
