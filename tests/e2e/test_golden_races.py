"""Messages that are sent, delivered and worked on twice, at every moment of the first time."""

from __future__ import annotations

import itertools
import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.golden_deliveries import (
    drained,
    duplicated,
    everything,
    message_ids,
    relayed,
    requested,
    truth,
)
from tests.support.golden_stories import downstream_keys, left
from tests.support.golden_world import golden_world
from tests.support.kill_stories import moments, told
from tests.support.tripwire import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.forked_processes import Run
    from tests.support.golden_world import GoldenWorld

pytestmark = pytest.mark.proof

RESERVE, COMMIT, READ, STEP = "PutItem", "TransactWriteItems", "GetItem", "UpdateItem"
TAKE_OVER = STEP
CHARGE, POSTPONE = "POST /v1/payment_intents", "ChangeMessageVisibility"
SEND, DELETE = "SendMessageBatch", "BatchWriteItem"
ACCEPT, RELAY = (RESERVE, COMMIT), (SEND, DELETE)
# A worker first hides its batch until it has ended.
HIDE = "ChangeMessageVisibilityBatch"
WORK = (HIDE, RESERVE, READ, CHARGE, STEP, READ, COMMIT)
RESERVE_NUMBER, STEP_NUMBER = WORK.index(RESERVE) + 1, WORK.index(STEP) + 1
# As the second attempt, which begins with what it finds.
TAKEN_OVER = (HIDE, RESERVE, TAKE_OVER, READ, CHARGE, STEP, READ, COMMIT)
TAKEN_OVER_AFTER_STEP = (HIDE, RESERVE, TAKE_OVER, READ, READ, COMMIT)


@pytest.fixture(scope="module")
def world() -> Iterator[GoldenWorld]:
    """The service's tables and queues, a provider, and processes to be stopped."""
    with golden_world() as made:
        yield made


@pytest.fixture(scope="module")
def one(world: GoldenWorld) -> dict[str, Any]:
    """What one payment comes to if nothing disturbs it."""
    return truth(world)


@pytest.fixture(scope="module")
def two(world: GoldenWorld) -> dict[str, Any]:
    """The same for two."""
    return truth(world, payments=2)


def charges(*runs: Run) -> int:
    """How often these processes have called the provider."""
    return sum(run.calls.count(CHARGE) for run in runs)


def is_under_way(stop: Stop) -> bool:
    """Whether a worker that is stopped there has reserved its message and not completed it."""
    done = stop.number if stop.when == "after" else stop.number - 1
    return RESERVE_NUMBER <= done < len(WORK)


def test_a_relay_killed_before_it_deletes_sends_the_message_again(
    world: GoldenWorld, one: dict[str, Any]
) -> None:
    """The queue then has one message twice, under one id, and the worker charges once.

    Red when the relay gives what it sends an id of its own.
    """
    changes = requested(world)
    killed = world.relay(changes, Stop("before", 2, signal.SIGKILL))
    assert not world.acknowledge(killed, changes)
    again = world.relay(changes)
    assert world.acknowledge(again, changes)

    messages = world.receive()
    assert len(messages) == 2
    assert len(set(message_ids(messages))) == 1
    worker = world.work(messages)
    assert world.settle(worker, messages)
    assert worker.calls == (*WORK, RESERVE)
    assert left(world) == one


@pytest.mark.requirement("C3")
def test_two_relays_with_the_same_change_lose_nothing_and_charge_once(
    world: GoldenWorld, one: dict[str, Any]
) -> None:
    """For every moment of one relay and every moment of the other: both acknowledge, the message
    is at least once in the queue and no longer in the outbox, and it is handled once.

    Red when the worker does not tell a message by its id.
    """
    for first in moments(RELAY, signal.SIGSTOP):
        for second in [None, *moments(RELAY, signal.SIGSTOP)]:
            with told({"one": first, "other": second} if second else {"one": first}):
                changes = requested(world)
                stopped = world.relay(changes, first)
                other = world.relay(changes, second)
                done = world.resume(stopped)
                if second is not None:
                    assert other.ended == "stopped"
                    other = world.resume(other)
                assert world.acknowledge(done, changes)
                assert world.acknowledge(other, changes)
                assert sum(world.store.queued().values()) == 2
                assert charges(*drained(world)) == 1
                assert left(world) == one


def test_a_message_that_comes_again_after_it_was_done_succeeds_without_a_call(
    world: GoldenWorld, one: dict[str, Any]
) -> None:
    """The worker finds its record, calls nobody, and has the queue delete the copy.

    Red when the worker looks at nothing but its messages.
    """
    (message,) = relayed(world)
    assert world.settle(world.work([message]), [message])
    before = everything(world)

    copy = duplicated(world, message)
    again = world.work([copy])

    assert again.calls == (HIDE, RESERVE)
    assert world.settle(again, [copy])
    assert everything(world) == before
    assert left(world) == one


@pytest.mark.parametrize("order", sorted(set(itertools.permutations([0, 0, 1, 1]))))
def test_two_messages_delivered_twice_are_each_handled_once_in_any_order(
    world: GoldenWorld, two: dict[str, Any], order: tuple[int, ...]
) -> None:
    """Whichever comes first, its payment is charged at its first delivery and only then."""
    messages = relayed(world, payments=2)
    copies = [duplicated(world, message) for message in messages]
    deliveries = [iter(pair) for pair in zip(messages, copies, strict=True)]
    seen: set[int] = set()
    for number in order:
        message = next(deliveries[number])
        run = world.work([message])
        assert world.settle(run, [message])
        assert run.calls == ((HIDE, RESERVE) if number in seen else WORK)
        seen.add(number)
    assert drained(world) == []
    assert left(world) == two


@pytest.mark.requirement("C3")
def test_the_same_message_at_two_workers_at_once_is_charged_once(
    world: GoldenWorld, one: dict[str, Any]
) -> None:
    """While one works on it, stopped at any of its moments, the other reports its copy as failed,
    has it delivered later, and calls no provider; when it comes again, it is done.

    Red when the worker takes `InProgress` for done, or works without a reserve.
    """
    for stop in moments(WORK, signal.SIGSTOP):
        with told({"first": stop}):
            (message,) = relayed(world)
            copy = duplicated(world, message)
            first = world.work([message], stop)
            other = world.work([copy])
            if is_under_way(stop):
                assert other.calls == (HIDE, RESERVE, POSTPONE)
                assert not world.settle(other, [copy])
                assert world.receive() == []
            else:
                assert world.settle(other, [copy])
            resumed = world.resume(first)
            assert world.settle(resumed, [message])
            late = drained(world)
            assert [run.calls for run in late] == ([(HIDE, RESERVE)] if is_under_way(stop) else [])
            assert charges(first, other, resumed) == 1
            assert left(world) == one


def test_a_worker_killed_while_it_leaves_a_message_to_another_changes_nothing(
    world: GoldenWorld, one: dict[str, Any]
) -> None:
    """Killed before and after each call with which it finds the message taken and postpones it."""
    for kill in moments((HIDE, RESERVE, POSTPONE)):
        with told({"other": kill}):
            (message,) = relayed(world)
            copy = duplicated(world, message)
            first = world.work([message], Stop("after", 3, signal.SIGSTOP))
            other = world.work([copy], kill)
            assert other.last_moment == (
                kill.when,
                kill.number,
                (HIDE, RESERVE, POSTPONE)[kill.number - 1],
            )
            assert not world.settle(other, [copy])
            assert world.settle(world.resume(first), [message])
            assert [run.calls for run in drained(world)] == [(HIDE, RESERVE)]
            assert left(world) == one


@pytest.mark.requirement("C4")
@pytest.mark.requirement("C18")
@pytest.mark.case(11)
@pytest.mark.case(13)
def test_a_message_whose_worker_was_killed_waits_for_the_lease_and_is_then_finished(
    world: GoldenWorld, one: dict[str, Any]
) -> None:
    """Killed at any moment between reserve and completion: delivered again at once, the message is
    postponed; after the lease another worker finishes it, and shows the provider the same key if
    it was not on record that it had charged.

    Red when a dead worker's message is taken for done, or the second charge has a key of its own.
    """
    for kill in filter(is_under_way, moments(WORK)):
        with told({"first": kill}):
            (message,) = relayed(world)
            killed = world.work([message], kill)
            copy = duplicated(world, message)
            soon = world.work([copy])
            assert soon.calls == (HIDE, RESERVE, POSTPONE)
            assert not world.settle(soon, [copy])

            # Both copies come again; the second of them is done by then.
            late = drained(world)
            done = kill.number if kill.when == "after" else kill.number - 1
            is_in_doubt, is_on_record = done == STEP_NUMBER - 1, done >= STEP_NUMBER
            assert charges(*late) == (0 if is_on_record else 1)
            assert world.provider.counts()["calls"] == (2 if is_in_doubt else 1)
            assert killed.keys.union(*(run.keys for run in late)) == downstream_keys(world)
            assert left(world) == one


@pytest.mark.requirement("C18")
@pytest.mark.case(4)
@pytest.mark.parametrize("holds_clock", [False, True], ids=["sees the time", "sees no time"])
def test_a_worker_that_wakes_after_another_has_finished_changes_nothing(
    world: GoldenWorld, one: dict[str, Any], *, holds_clock: bool
) -> None:
    """Stopped at any moment until its lease is over and another has done its work: it may call the
    provider under the key that was used, and leaves row, records and charge as they are.

    Red when the provider is shown another key.
    """
    for stop in moments(WORK, signal.SIGSTOP):
        with told({"stale": stop}):
            messages = relayed(world)
            stopped = world.work(messages, stop, holds_clock=holds_clock)
            world.later()
            again = world.receive()
            other = world.work(again)
            assert world.settle(other, again)
            before = everything(world)

            stale = world.resume(stopped)

            assert everything(world) == before
            assert stale.ended == "exit 0"
            assert stale.keys | other.keys | stopped.keys == downstream_keys(world)
            assert left(world) == one


@pytest.mark.requirement("C4")
@pytest.mark.case(4)
@pytest.mark.case(6)
def test_of_two_workers_that_both_believe_to_have_a_message_the_later_finishes_it(
    world: GoldenWorld, one: dict[str, Any]
) -> None:
    """One is stopped and does not see its lease end, the other takes over and is stopped as well,
    each after any of its calls; then the first goes on, and the other: the first has failed, the
    other succeeds, and both show the provider one key.

    Red when a worker's writes are not fenced by the owner of the record.
    """
    for first, other in itertools.product(
        range(RESERVE_NUMBER, len(WORK)), range(RESERVE_NUMBER, len(TAKEN_OVER))
    ):
        taken_over = TAKEN_OVER if first < STEP_NUMBER else TAKEN_OVER_AFTER_STEP
        if other >= len(taken_over):
            continue
        stops = {
            "first": Stop("after", first, signal.SIGSTOP),
            "other": Stop("after", other, signal.SIGSTOP),
        }
        with told(stops):
            messages = relayed(world)
            stale = world.work(messages, stops["first"], holds_clock=True)
            world.later()
            again = world.receive()
            taking_over = world.work(again, stops["other"])
            assert (stale.ended, taking_over.ended) == ("stopped", "stopped")
            failed, done = world.resume(stale), world.resume(taking_over)
            # The reserve alone takes nothing over.
            assert bool(failed.answer["batchItemFailures"]) == (other > RESERVE_NUMBER)
            assert taking_over.calls == taken_over[:other]
            assert world.settle(done, again)
            assert stale.keys | failed.keys | taking_over.keys | done.keys == downstream_keys(world)
            assert drained(world) == []
            assert left(world) == one


@pytest.mark.requirement("C3")
@pytest.mark.case(12)
def test_a_request_that_is_overtaken_by_its_retry_makes_one_payment_and_one_message(
    world: GoldenWorld, one: dict[str, Any]
) -> None:
    """Stopped at any moment until its retry is answered and the payment charged: it answers with
    the same payment, or that the request is to be sent again, and adds nothing.

    Red when row and message can be written without the record's consent.
    """
    for stop in moments(ACCEPT, signal.SIGSTOP):
        with told({"stale": stop}):
            world.forget()
            stopped = world.request(stop)
            world.later()
            retry = world.request()
            changes = world.changes()
            assert world.acknowledge(world.relay(changes), changes)
            assert charges(*drained(world)) == 1
            before = everything(world)

            stale = world.resume(stopped)

            assert everything(world) == before
            accepted, late = json.loads(retry.answer["body"]), json.loads(stale.answer["body"])
            assert retry.answer["statusCode"] == 202
            assert late == accepted or late["retryable"]
            assert left(world) == one
