"""SIGKILL before and after every call from the acceptance of a request to its answer."""

from __future__ import annotations

import functools
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support import async_kill_stories
from tests.support.async_kill_stories import Plot
from tests.support.kill_stories import moments, told
from tests.support.tripwire import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.async_kill_stories import JobStory, JobsWorld

pytestmark = pytest.mark.proof

CHARGE = "POST /v1/payment_intents"
ACCEPT = ("invoke", ("TransactWriteItems",))
RELAY = ("relay", ("SendMessageBatch", "BatchWriteItem"))
# Taken from the queue, read and begun; at the end acknowledged.
BEGUN = ("ReceiveMessage", "GetItem", "UpdateItem")
WORK = {
    "recorded": ("work", (*BEGUN, CHARGE, "UpdateItem", "TransactWriteItems", "DeleteMessage")),
    "unrecorded": ("work", (*BEGUN, CHARGE, "UpdateItem", "DeleteMessage")),
}
VOID = ("work", ("ReceiveMessage", "GetItem", "DeleteMessage"))
WORKER = 2
# From the begin that has landed to the end that has not.
UNDER_WAY = {
    "recorded": {"after 3", "before 4", "after 4", "before 5", "after 5", "before 6"},
    "unrecorded": {"after 3", "before 4", "after 4", "before 5"},
}


@pytest.fixture(scope="module")
def world() -> Iterator[JobsWorld]:
    """A store with a queue, a provider, and processes to be killed."""
    with async_kill_stories.jobs_world() as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(world: JobsWorld) -> Callable[[Plot], JobStory]:
    """The story that every other is held against."""
    return functools.cache(lambda plot: plot.play(world, {}))


def killed_in(
    world: JobsWorld, plot: Plot, truth: JobStory, number: int
) -> Iterator[tuple[Stop, JobStory]]:
    """The stories whose process of this number is killed, at each of its calls on both sides."""
    calls = truth.runs[number].calls
    killed_at = set()
    for stop in moments(calls):
        story = plot.play(world, {number: stop})
        killed_at.add(story.runs[number].last_moment)
        yield stop, story
    assert killed_at == {
        (when, place, call) for place, call in enumerate(calls, 1) for when in ("before", "after")
    }


def check_answered(story: JobStory, truth: JobStory, stops: dict[int, Stop]) -> None:
    """The answer, the item and the charge are the undisturbed run's, and no message is left."""
    with told(stops):
        assert story.came_to == truth.came_to
        assert story.queued == 0


def check_in_doubt(story: JobStory, stops: dict[int, Stop]) -> None:
    """The client is told that the outcome is unknown, and the message stays in the queue."""
    with told(stops):
        status, body = story.came_to["answer"]
        assert (status, body["type"].rpartition(":")[2]) == (409, "outcome-unknown")
        assert story.came_to["record"][0] == "UNKNOWN"
        assert story.queued == 1


def check_charged_once(story: JobStory, stops: dict[int, Stop]) -> None:
    """The provider is asked once, or under the one downstream key."""
    with told(stops):
        assert story.keys <= {story.downstream_key}
        assert story.keys or story.charge_calls <= 1


@pytest.mark.parametrize("handler", WORK)
def test_an_undisturbed_request_is_accepted_sent_carried_out_and_answered(
    undisturbed: Callable[[Plot], JobStory], handler: str
) -> None:
    """What the killed runs are held against: these calls, one message, one charge, one answer, and
    one item where effects are recorded.
    """
    story = undisturbed(Plot(handler, "client"))

    assert story.calls == [ACCEPT, RELAY, WORK[handler], ACCEPT]
    assert len(story.messages) == 1
    assert (story.queued, story.charge_calls) == (0, 1)
    item = {"pk": "id of operation", "charge": "id of charge", "writes": 1}
    is_recorded = handler == "recorded"
    assert story.came_to == {
        "record": ["COMPLETED", ["charge"] if is_recorded else []],
        "answer": [201, {"payment": "id of operation", "charge": "id of charge"}],
        "business": [item] if is_recorded else [],
        "charges": [["succeeded", "id of charge"]],
    }


@pytest.mark.requirement("E6")
@pytest.mark.case(57)
@pytest.mark.parametrize(
    ("handler", "number"), [("recorded", 0), ("unrecorded", 0), ("unrecorded", 1), ("recorded", 3)]
)
def test_killed_while_it_is_accepted_sent_or_answered_a_request_is_carried_out_once(
    world: JobsWorld, undisturbed: Callable[[Plot], JobStory], handler: str, number: int
) -> None:
    """Killed at any call of the request, the relay or the retry, there is one message or none with
    its record, and the client's retry ends with the true answer to the one run.

    Red when the record is written without its message, or a retry sends another.
    """
    plot = Plot(handler, "client")
    truth = undisturbed(plot)
    for stop, story in killed_in(world, plot, truth, number):
        stops = {number: stop}
        check_answered(story, truth, stops)
        check_charged_once(story, stops)
        with told(stops):
            assert len(story.messages) == 1
            assert story.charge_calls == 1


@pytest.mark.requirement("E6")
@pytest.mark.case(57)
@pytest.mark.parametrize(
    ("handler", "first"),
    [
        ("recorded", "client"),
        ("recorded", "queue"),
        ("unrecorded", "client"),
        ("unrecorded", "queue"),
    ],
)
def test_killed_while_it_works_a_request_takes_effect_once(
    world: JobsWorld, undisturbed: Callable[[Plot], JobStory], handler: str, first: str
) -> None:
    """Killed at any call of the worker, whoever comes next, the client's retry or the redelivered
    message: what is recorded is resumed, by a second message only where the retry had to accept it
    again; what is not is in doubt exactly while it was under way, and never runs again.

    Red when a redelivery or a retry runs what is in doubt, a superseded message is carried out, or
    an attempt that died after its begin is accepted again without its message.
    """
    plot = Plot(handler, first)
    truth = undisturbed(plot)
    for stop, story in killed_in(world, plot, truth, WORKER):
        stops = {WORKER: stop}
        is_under_way = f"{stop.when} {stop.number}" in UNDER_WAY[handler]
        check_charged_once(story, stops)
        if is_under_way and handler == "unrecorded":
            check_in_doubt(story, stops)
        else:
            check_answered(story, truth, stops)
        is_accepted_again = is_under_way and handler == "recorded" and first == "client"
        with told(stops):
            assert len(story.messages) == 1 + is_accepted_again
            if is_accepted_again:
                # The old message is delivered first, and is void.
                assert story.calls[WORKER + 1 :][1:3] == [RELAY, VOID]


@pytest.mark.requirement("E6")
@pytest.mark.case(11)
@pytest.mark.parametrize("first", ["client", "queue"])
def test_killed_again_while_the_dead_run_is_followed_up_it_takes_effect_once(
    world: JobsWorld, undisturbed: Callable[[Plot], JobStory], first: str
) -> None:
    """After a worker that died once the charge was made, a retry that is killed at any call while
    it accepts the request again, or a worker while it takes it over, still ends with one of each.

    Red when the second acceptance is not whole with its message, or a second takeover is refused.
    """
    plot = Plot("recorded", first)
    truth = undisturbed(plot)
    charged = Stop("after", 4, signal.SIGKILL)
    after_one = plot.play(world, {WORKER: charged})
    follow_up = after_one.runs[WORKER + 1]
    # The end of the dead attempt and the new acceptance; or the takeover.
    accepted_again = ("TransactWriteItems", "UpdateItem", "TransactWriteItems")
    calls = accepted_again if first == "client" else BEGUN
    assert follow_up.calls[: len(calls)] == calls
    for stop in moments(calls):
        stops = {WORKER: charged, WORKER + 1: stop}
        story = plot.play(world, stops)
        check_answered(story, truth, stops)
        check_charged_once(story, stops)
        with told(stops):
            assert len(story.messages) == len(after_one.messages)


@pytest.mark.requirement("E6")
@pytest.mark.parametrize(("first", "number"), [("client", 1), ("queue", WORKER)])
def test_killed_while_it_is_found_too_late_a_request_never_runs(
    world: JobsWorld, undisturbed: Callable[[Plot], JobStory], first: str, number: int
) -> None:
    """Killed at any call of the retry or the worker that ends what nobody began in time, the client
    is told 408, nothing has run, and no message is left.

    Red when a worker begins what is overdue, or the message outlives the answer.
    """
    plot = Plot("unrecorded", first, is_late=True)
    truth = undisturbed(plot)
    assert truth.came_to["answer"][0] == 408
    for stop, story in killed_in(world, plot, truth, number):
        check_answered(story, truth, {number: stop})
        assert (story.charge_calls, len(story.messages)) == (0, 1)
