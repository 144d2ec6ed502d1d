"""SIGKILL before and after every call of a recorded operation, to the store and to the provider."""

from __future__ import annotations

import functools
import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support import killed_process
from tests.support.dev_service import send
from tests.support.kill_stories import KEY, carried_out, left, moments, places, rests, told
from tests.support.tripwire import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.kill_stories import Stops, Story
    from tests.support.killed_process import World

pytestmark = pytest.mark.proof

RESERVE, COMMIT, CHARGE, STEP = (
    "PutItem",
    "TransactWriteItems",
    "POST /v1/payment_intents",
    "UpdateItem",
)
UNDISTURBED = {
    "keyed": (RESERVE, COMMIT, CHARGE, STEP, COMMIT),
    # The step's result goes into an item of its own, the message into the bucket.
    "keyed-large": (RESERVE, COMMIT, CHARGE, RESERVE, STEP, "PUT /responses/outbox", COMMIT),
    "unkeyed": (RESERVE, COMMIT, STEP, CHARGE, STEP, COMMIT),
}
KEYED = ["keyed", "keyed-large"]


@pytest.fixture(scope="module", params=["sdk", "direct"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A store, a provider, and processes to be killed, which use either transport."""
    with killed_process.world(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(world: World) -> Callable[[str], Story]:
    """The run of a handler that every other is held against: its calls, and what it comes to."""

    @functools.cache
    def recorded(handler: str) -> Story:
        return carried_out(world, handler, {})

    return recorded


@pytest.fixture(scope="module")
def killed_once(
    world: World, undisturbed: Callable[[str], Story]
) -> Callable[[str], dict[Stop, Story]]:
    """The stories of a handler whose first process is killed, by the moment of that."""

    @functools.cache
    def killed(handler: str) -> dict[Stop, Story]:
        calls = undisturbed(handler).runs[0].calls
        return {stop: carried_out(world, handler, {0: stop}) for stop in moments(calls)}

    return killed


def check(handler: str, story: Story, stops: Stops, truth: Story) -> None:
    """The answer, the item, the message and the charge are those of the undisturbed run."""
    with told(stops):
        assert story.came_to == truth.came_to
        if handler in KEYED:
            # One retry after the last kill is enough, and nobody is asked.
            assert len(story.runs) == max(stops) + 2
            assert story.asked == 0
            assert story.keys <= story.keys_of("charge")
        else:
            assert story.keys == set()
            assert story.charge_calls == 1


@pytest.mark.parametrize("handler", UNDISTURBED)
def test_an_undisturbed_run_does_everything_once(
    undisturbed: Callable[[str], Story], handler: str
) -> None:
    """What the killed runs are held against: one item with both its writes, one message, one
    charge, an answer that names it, and no key or the one downstream key for the provider.
    """
    story = undisturbed(handler)

    assert [run.calls for run in story.runs] == [UNDISTURBED[handler]]
    assert story.keys == (story.keys_of("charge") if handler in KEYED else set())
    came_to = story.came_to
    assert came_to["record"] == ["COMPLETED", ["charge", "created"]]
    item = {"pk": "id of operation", "status": "paid", "writes": 2, "charge": "id of charge"}
    assert came_to["business"] == [item]
    assert came_to["message"][:2] == ["payment.made", "id of operation"]
    assert came_to["message"][2]["payment"] == "id of operation"
    assert came_to["charges"] == [["charge", "succeeded", "id of charge"]]
    status, body = came_to["answer"]
    assert (status, body["payment"]) == (201, "id of operation")
    assert body["charge"]["id"] == "id of charge"


@pytest.mark.requirement("E6")
@pytest.mark.requirement("C2")
@pytest.mark.case(57)
@pytest.mark.parametrize("handler", UNDISTURBED)
def test_killed_before_and_after_every_call_an_operation_takes_effect_once(
    undisturbed: Callable[[str], Story],
    killed_once: Callable[[str], dict[Stop, Story]],
    handler: str,
) -> None:
    """Killed at any call, completion, item and message are there together or not at all, and a
    retry ends with the true answer: one item, one message, one charge. With a key for the provider
    that takes one retry; without one, a resolver is asked exactly where the charge is in doubt.

    Red when a retry applies a commit again or runs a step in doubt; or when the message is written
    by itself.
    """
    killed_at, asked_at = set(), set()
    for stop, story in killed_once(handler).items():
        check(handler, story, {0: stop}, undisturbed(handler))
        killed_at.add(story.runs[0].last_moment)
        if story.asked:
            asked_at.add((stop.when, stop.number))

    # Each call of the undisturbed run was reached and cut off on both sides.
    assert killed_at == {
        (when, number, call)
        for number, call in enumerate(UNDISTURBED[handler], 1)
        for when in ("before", "after")
    }
    # From the mark that has landed to the result that has not.
    in_doubt = {("after", 3), ("before", 4), ("after", 4), ("before", 5)}
    assert asked_at == (in_doubt if handler == "unkeyed" else set())


@pytest.mark.requirement("E6")
@pytest.mark.case(11)
@pytest.mark.case(57)
@pytest.mark.parametrize("handler", UNDISTURBED)
def test_killed_again_while_it_takes_over_or_settles_it_still_takes_effect_once(
    world: World,
    undisturbed: Callable[[str], Story],
    killed_once: Callable[[str], dict[Stop, Story]],
    handler: str,
) -> None:
    """On every way on after a first kill (take over, mark unknown, settle, resume, replay), killed
    before and after each call that no other way has yet been killed at, the operation takes effect
    once; whatever attempt calls the provider, it shows the same downstream key.

    Red when a second takeover, or a second settlement, is judged otherwise than the first, or the
    attempt or its owner enters the downstream key.
    """
    truth = undisturbed(handler)
    seen: set[object] = set()
    for first, story in killed_once(handler).items():
        way = story.runs[1:]
        if [run.calls for run in way] == [run.calls for run in truth.runs]:
            # Nothing had been sent: that is no way on, but the first run.
            continue
        for (number, call_number), rest in zip(places(way), rests(way), strict=True):
            if rest in seen:
                continue
            seen.add(rest)
            for when in ("before", "after"):
                stops = {0: first, number + 1: Stop(when, call_number, signal.SIGKILL)}
                again = carried_out(world, handler, stops)
                check(handler, again, stops, truth)
                call = way[number].calls[call_number - 1]
                assert again.runs[number + 1].last_moment == (when, call_number, call)


@pytest.mark.requirement("C2")
@pytest.mark.case(42)
@pytest.mark.parametrize("handler", UNDISTURBED)
def test_a_write_that_is_sent_twice_because_its_answer_was_lost_is_applied_once(
    world: World, undisturbed: Callable[[str], Story], handler: str
) -> None:
    """For each write: the store applies it and drops its answer, so it is sent once more; nothing
    doubles, though this store ignores the transaction's client token, and the caller gets the true
    answer at once.

    Red when a commit relies on its token: the repeat is taken for another's, or applied again.
    """
    truth = undisturbed(handler)
    calls = UNDISTURBED[handler]
    for number, call in enumerate(calls, 1):
        if call == CHARGE:
            continue
        world.forget()
        stop = Stop("before", number, signal.SIGSTOP)
        with told({0: stop}):
            stopped = world.invoke(handler, KEY, stop)
            assert (stopped.ended, stopped.last_moment) == ("stopped", ("before", number, call))
            lose_an_answer(world)
            resumed = world.resume(stopped)
            assert stopped.calls + resumed.calls == calls[:number] + calls[number - 1 :]
            assert left(world, resumed.answer) == truth.came_to


def lose_an_answer(world: World) -> None:
    """The next write is applied, and its answer lost."""
    faults = json.dumps({"lose_answers": 1}).encode()
    assert send(world.store_url, "POST", "/_faults", body=faults).status == 200


def test_the_story_tells_where_it_was_killed(world: World) -> None:
    """A kill that misses its call fails the test, and says which it was."""
    stop = Stop("after", 99, signal.SIGKILL)
    with pytest.raises(AssertionError) as failed:
        carried_out(world, "keyed", {0: stop})
    assert failed.value.__notes__ == ["stopped: process 0 after call 99"]
