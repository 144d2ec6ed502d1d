"""SIGKILL before and after every call of API, relay and worker on a payment's way."""

from __future__ import annotations

import functools
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.golden_stories import carried_out
from tests.support.golden_world import API, RELAY, WORKER, golden_world
from tests.support.kill_stories import moments, places, told
from tests.support.tripwire import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.golden_stories import GoldenStory, Place, Stops
    from tests.support.golden_world import GoldenWorld

pytestmark = pytest.mark.proof

RESERVE, COMMIT, READ, STEP = "PutItem", "TransactWriteItems", "GetItem", "UpdateItem"
CHARGE = "POST /v1/payment_intents"
ACCEPT, RELAYED = (RESERVE, COMMIT), ("SendMessageBatch", "BatchWriteItem")
HIDE = "ChangeMessageVisibilityBatch"
WORK = (RESERVE, READ, CHARGE, STEP, READ, COMMIT)
# The processes of each function, in order, and what each calls. The API's last ones are asked for
# what is all done.
UNDISTURBED: dict[str, dict[str, list[tuple[str, ...]]]] = {
    "one payment": {API: [ACCEPT, (RESERVE,)], RELAY: [RELAYED], WORKER: [(HIDE, *WORK)]},
    "a declined payment": {API: [ACCEPT, (RESERVE,)], RELAY: [RELAYED], WORKER: [(HIDE, *WORK)]},
    # The relay gets both messages at once, and so does the worker.
    "two payments": {
        API: [ACCEPT, ACCEPT, (RESERVE,), (RESERVE,)],
        RELAY: [RELAYED],
        WORKER: [(HIDE, *WORK, *WORK)],
    },
}
FUNCTIONS = [API, RELAY, WORKER]
KILLED = [
    *(("one payment", function) for function in FUNCTIONS),
    # Before the worker nothing knows of it.
    ("a declined payment", WORKER),
    # Each request is a process of its own.
    ("two payments", RELAY),
    ("two payments", WORKER),
]


@pytest.fixture(scope="module")
def world() -> Iterator[GoldenWorld]:
    """The service's tables and queues, a provider, and processes to be killed."""
    with golden_world() as made:
        yield made


def told_of(world: GoldenWorld, flow: str, stops: Stops) -> GoldenStory:
    """The story of a flow whose processes are killed there."""
    payments = 2 if flow == "two payments" else 1
    return carried_out(world, stops, payments=payments, declined=flow == "a declined payment")


@pytest.fixture(scope="module")
def undisturbed(world: GoldenWorld) -> Callable[[str], GoldenStory]:
    """The run of a flow that every other is held against: its calls, and what it comes to."""
    return functools.cache(lambda flow: told_of(world, flow, {}))


@pytest.fixture(scope="module")
def killed_once(world: GoldenWorld) -> Callable[[str, str], dict[tuple[Place, Stop], GoldenStory]]:
    """The stories of a flow in which one process of a function is killed, by where that is."""

    @functools.cache
    def killed(flow: str, function: str) -> dict[tuple[Place, Stop], GoldenStory]:
        return {
            (place, stop): told_of(world, flow, {place: stop})
            for number, calls in enumerate(UNDISTURBED[flow][function])
            for place in [(function, number)]
            for stop in moments(calls)
        }

    return killed


def check(story: GoldenStory, stops: Stops, truth: GoldenStory) -> None:
    """It has come to the same: answers, rows, records, messages, and what the provider holds."""
    with told(stops):
        assert story.came_to == truth.came_to
        assert story.keys == story.downstream_keys
        assert not any(CHARGE in run.calls for run in story.runs[API])


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("flow", UNDISTURBED)
def test_an_undisturbed_payment_is_charged_by_the_worker_after_its_commit(
    undisturbed: Callable[[str], GoldenStory], flow: str
) -> None:
    """What the killed runs are held against: the API answers 202 and calls no provider, the relay
    sends and then deletes, the worker charges; row and provider agree, and nothing is left over.

    Red when the API charges, or the worker charges before it has reserved the message.
    """
    story = undisturbed(flow)

    payments, is_declined = (2 if flow == "two payments" else 1), flow == "a declined payment"
    calls = {name: [run.calls for run in runs] for name, runs in story.runs.items()}
    assert calls == UNDISTURBED[flow]
    assert story.charge_calls == len(story.keys) == payments
    assert story.keys == story.downstream_keys
    ending = {
        "status": "declined" if is_declined else "succeeded",
        "reason": "card_declined" if is_declined else None,
        "is of the provider": True,
        "was charged then": True,
        "provider": "requires_payment_method" if is_declined else "succeeded",
        "amounts": [1200, 1200],
        "requested by": True,
    }
    accepted = [202, {"payment_id": "id of payment", "status": "pending"}]
    assert story.came_to == {
        "records": sorted(
            [["POST /payments", "COMPLETED"], ["payment.requested", "COMPLETED"]] * payments
        ),
        "all records": 2 * payments,
        "payments": [ending] * payments,
        "outbox": [],
        "queues": {},
        "stream": [],
        "charges": 0 if is_declined else payments,
        "answers": [[accepted, accepted]] * payments,
    }


@pytest.mark.requirement("C3")
@pytest.mark.requirement("C4")
@pytest.mark.requirement("C5")
@pytest.mark.requirement("C18")
@pytest.mark.case(57)
@pytest.mark.parametrize(("flow", "function"), KILLED)
def test_killed_before_and_after_every_call_a_payment_is_charged_once(
    undisturbed: Callable[[str], GoldenStory],
    killed_once: Callable[[str, str], dict[tuple[Place, Stop], GoldenStory]],
    flow: str,
    function: str,
) -> None:
    """Killed at any call, and then retried by client, stream and queue: one payment, one charge
    under the one key, one message handled, and the client's retry has the same 202; until then the
    message is in the outbox or the queue, and it is acknowledged only when the row has the
    provider's id.

    Red when the worker shows no key, or one of its attempt; when it does not record what the
    provider calls the payment; or when the relay deletes before it has sent.
    """
    killed_at = set()
    for (place, stop), story in killed_once(flow, function).items():
        check(story, {place: stop}, undisturbed(flow))
        run = story.runs[function][place[1]]
        killed_at.add((place[1], run.last_moment))

    # Each call of the undisturbed run was reached and cut off on both sides.
    assert killed_at == {
        (process, (when, number, call))
        for process, calls in enumerate(UNDISTURBED[flow][function])
        for number, call in enumerate(calls, 1)
        for when in ("before", "after")
    }


@pytest.mark.requirement("C18")
@pytest.mark.case(11)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_killed_again_on_its_way_on_a_payment_is_charged_once(
    world: GoldenWorld,
    undisturbed: Callable[[str], GoldenStory],
    killed_once: Callable[[str, str], dict[tuple[Place, Stop], GoldenStory]],
    function: str,
) -> None:
    """After a first kill at any call, killed again before and after each call of the way on: still
    one payment, one charge and one message handled, whatever attempt calls the provider.

    Red when the attempt or its owner enters the key that the provider is shown.
    """
    for (place, first), story in killed_once("one payment", function).items():
        if first.when == "before":
            # As after the call before it.
            continue
        way = story.runs[function][place[1] + 1 :]
        for number, call_number in places(way):
            second_place = (function, place[1] + 1 + number)
            for when in ("before", "after"):
                stops = {place: first, second_place: Stop(when, call_number, signal.SIGKILL)}
                again = told_of(world, "one payment", stops)
                check(again, stops, undisturbed("one payment"))
                call = way[number].calls[call_number - 1]
                run = again.runs[function][second_place[1]]
                assert run.last_moment == (when, call_number, call)


def test_a_kill_that_misses_its_call_fails(world: GoldenWorld) -> None:
    """A story whose process is not killed where it should be says so."""
    with pytest.raises(AssertionError) as failed:
        carried_out(world, {(RELAY, 0): Stop("after", 99, signal.SIGKILL)})
    assert failed.value.__notes__ == ["stopped: process ('outbox-relay', 0) after call 99"]
