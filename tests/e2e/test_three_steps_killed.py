"""A handler of three steps whose process is killed, or stopped and overtaken, at every call."""

from __future__ import annotations

import itertools
import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support import killed_process
from tests.support.kill_stories import KEY, answered, carried_out, moments, told
from tests.support.killed_functions import STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.forked_processes import Run
    from tests.support.killed_process import World
    from tests.support.tripwire import Stop

pytestmark = pytest.mark.proof

RESERVE, COMMIT, CHARGE, STEP = (
    "PutItem",
    "TransactWriteItems",
    "POST /v1/payment_intents",
    "UpdateItem",
)
KEYED = (RESERVE, *(CHARGE, STEP) * 3, COMMIT)
UNKEYED = (RESERVE, *(STEP, CHARGE, STEP) * 3, COMMIT)
CALLS = {
    "keyed-steps": KEYED,
    "keyed-steps-async": KEYED,
    "unkeyed-steps-async": UNKEYED,
}


@pytest.fixture(scope="module", params=["sdk", "direct"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A store, a provider, and processes to be killed, which use either transport."""
    with killed_process.world(request.param) as made:
        yield made


def sent(calls: tuple[str, ...], stop: Stop) -> tuple[str, ...]:
    """The calls that had been sent when the process stopped."""
    return calls[: stop.number if stop.when == "after" else stop.number - 1]


def finished(done: tuple[str, ...]) -> int:
    """How many steps had their result on record: each is the write that follows its charge."""
    return sum(pair == (CHARGE, STEP) for pair in itertools.pairwise(done))


@pytest.mark.requirement("E1")
@pytest.mark.requirement("E6")
@pytest.mark.parametrize(
    "handler",
    [
        "keyed-steps",
        "keyed-steps-async",
        "unkeyed-steps-async",
    ],
)
def test_killed_between_and_inside_steps_no_finished_step_runs_again(
    world: World, handler: str
) -> None:
    """Killed before or after any call, the operation resumes at the first step without a result:
    the provider gets each finished step's call once, and ends with one charge for each step.

    Red when a retry begins at the first step, or a step's result is not on record when it returns.
    """
    calls = CALLS[handler]
    truth = carried_out(world, handler, {})
    assert [(run.calls, run.ran) for run in truth.runs] == [(calls, STEPS)]
    assert [step for step, *_ in truth.came_to["charges"]] == sorted(STEPS)
    for stop in moments(calls):
        story = carried_out(world, handler, {0: stop})
        with told({0: stop}):
            assert story.came_to == truth.came_to
            done = sent(calls, stop)
            charges, results = done.count(CHARGE), finished(done)
            if calls is KEYED:
                # What may have been charged is charged again, under the same key.
                assert story.runs[-1].ran == STEPS[results:]
                assert story.charge_calls == len(STEPS) + charges - results
                assert story.keys == story.keys_of(*STEPS)
                assert story.asked == 0
            else:
                assert story.runs[-1].ran == STEPS[charges:]
                assert story.charge_calls == len(STEPS)
                # A step that is marked has a second write to come.
                assert story.asked == done.count(STEP) % 2


@pytest.mark.requirement("E1")
@pytest.mark.parametrize("handler", ["keyed-steps", "unkeyed-steps-async"])
def test_an_owner_that_wakes_after_a_takeover_changes_nothing_and_begins_no_step(
    world: World, handler: str
) -> None:
    """Stopped at any call while another process takes over, after a settlement where that is
    needed, and completes: an owner that goes on afterwards sends no charge, leaves store and
    provider as they are, and answers with the other's answer or a refusal to send again.

    Red when a commit is not fenced by its owner, or a step begins after the lease's end.
    """
    for stop in moments(CALLS[handler], signal.SIGSTOP):
        with told({0: stop}):
            if is_about_to_charge_without_a_key(CALLS[handler], stop):
                continue
            stale = overtaken(world, handler, stop, holds_clock=False)
            assert CHARGE not in stale.calls
            assert stale.ran == ()


def is_about_to_charge_without_a_key(calls: tuple[str, ...], stop: Stop) -> bool:
    """Whether the step is marked, and its call is on its way to the provider.

    Nobody can call that back, and the provider could not tell it from the charge of the next
    attempt: it is why calls should carry a key.
    """
    upcoming = calls[len(sent(calls, stop)) :]
    return calls is UNKEYED and upcoming[:1] == (CHARGE,)


@pytest.mark.requirement("E1")
@pytest.mark.case(11)
@pytest.mark.parametrize("handler", ["keyed-steps-async"])
def test_an_owner_that_does_not_see_its_lease_end_is_stopped_by_the_record(
    world: World, handler: str
) -> None:
    """The same where time stands still in the stale owner: the step that it is at may run, under
    the key that the provider knows; its result is refused, and no step follows.

    Red when only the owner's own clock keeps it from going on.
    """
    for stop in moments(KEYED, signal.SIGSTOP):
        with told({0: stop}):
            stale = overtaken(world, handler, stop, holds_clock=True)
            assert len(stale.ran) <= 1
            # A second charge would be on the list of the provider: it knew the key.
            assert stale.calls.count(CHARGE) == len(stale.keys) == len(stale.ran)


def overtaken(world: World, handler: str, stop: Stop, *, holds_clock: bool) -> Run:
    """What a process does that was stopped and goes on after another has done its work."""
    world.forget()
    stopped = world.invoke(handler, KEY, stop, holds_clock=holds_clock)
    assert (stopped.ended, *stopped.last_moment[:2]) == ("stopped", stop.when, stop.number)
    world.later()
    other = answered(world, handler, {})[-1]
    assert world.provider.counts()["charges"] == len(STEPS)
    everything = world.everything()

    stale = world.resume(stopped)

    assert world.everything() == everything
    body, others = (json.loads(run.answer["body"]) for run in (stale, other))
    # The operation is complete: whoever is told to come back is not told that nothing happened.
    assert (body == others) if stale.code is None else body["retryable"]
    assert stale.code != "not-executed"
    return stale
