"""The interleavings that broke weaker designs of recorded effects, each played as it happened."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, NotExecuted
from oncekey.record.record import Due, Status
from oncekey.record.steps import FinishedStep, StartedStep
from oncekey.record.transitions import (
    Ending,
    ExpireLease,
    FinishStep,
    Retry,
    Settle,
    SettleStep,
    StartStep,
    TakeOver,
    Transition,
    seen,
)
from oncekey.settlement.settlement import Settlement
from oncekey.store.store import Refused, Written
from tests.support.protected import problem_of
from tests.support.steps import POST, FaultyStore, Steps, commit, dead, finds, settler, step

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey import Operation
    from oncekey.record.record import Record

LATER = Due(shard="5", at_ms=1)
# Nothing of a dead attempt arrives after that.
GRACE_MS = 60_000

pytestmark = pytest.mark.usefixtures("no_resolvers")


class InterleavedStore(FaultyStore):
    """Does something just before the first write of a kind, as if it had been under way."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[type[Transition], Callable[[], object]] = {}

    def write(self, transition: Transition) -> Any:
        """Write, after what comes before."""
        self.before.pop(type(transition), lambda: None)()
        return super().write(transition)


def late_mark(record: Record) -> StartStep:
    """The mark of a step that the owner of `record` had sent before it died."""
    mark = StartedStep(name="charge", position=0, mark=1, at_ms=record.created_at_ms)
    return StartStep(pk=record.pk, owner=record.owner, step=mark)


def writes(op: Operation) -> None:
    """One business write, under a name of the operation's."""
    op.transaction.put("rides", {"id": op.operation_id})


def dies_in_a_step() -> Steps:
    """An operation whose first attempt died in its step, found out by the second request."""
    service = Steps()
    service.dies(step("charge", then=dead))
    service.lets_the_lease_run_out()
    assert problem_of(service.send(POST))[:2] == (409, "outcome-unknown")
    service.clock.advance(GRACE_MS + 1)
    return service


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("by", ["a reconciler", "a takeover"])
def test_a_late_mark_defeats_whoever_has_read_a_record_without_steps(by: str) -> None:
    """A reader sees no step in doubt, the dead owner's *started* lands, and then the reader writes:
    it is refused, because the record has changed.

    Red when `TakeOver` or `ExpireLease` compares neither rev nor the step in doubt.
    """
    service = Steps()
    service.dies(dead)
    service.lets_the_lease_run_out()
    read, now_ms = service.record, service.clock.now_ms()
    retry = Retry(reason="lease-expired", expires_at_s=None, due=LATER)
    expire = ExpireLease(pk=read.pk, seen=seen(read), now_ms=now_ms, to=retry)

    assert service.store.write(late_mark(read)) == Written()

    if by == "a reconciler":
        assert isinstance(service.store.write(expire), Refused)
    else:
        service.store = InterleavedStore()
        service.store.records[read.pk] = read
        taking = service.another_sandbox()
        service.store.before[TakeOver] = lambda: service.store.write(late_mark(read))
        assert problem_of(taking.sends(step("charge")))[:2] == (409, "outcome-unknown")
        assert taking.ran == []
    assert service.record.is_in_doubt


@pytest.mark.requirement("E1")
def test_a_late_checkpoint_defeats_a_reconciler_that_thinks_nothing_is_done() -> None:
    """A reconciler reads a record without steps, an owner thought dead records its finished
    step, and then the reconciler lets the record expire: it is refused, and the evidence stays.

    Red when `ExpireLease` is permitted without comparing rev.
    """
    service = Steps()
    service.dies(dead)
    service.lets_the_lease_run_out()
    read, now_ms = service.record, service.clock.now_ms()
    done = FinishedStep(name="charge", position=0, at_ms=now_ms, result='"ch_1"')

    assert (
        service.store.write(FinishStep(pk=read.pk, owner=read.owner, step=done, mark=None))
        == Written()
    )
    forgets = Retry(reason="lease-expired", expires_at_s=now_ms // 1000 + 60)
    expire = ExpireLease(pk=read.pk, seen=seen(read), now_ms=now_ms, to=forgets)
    assert isinstance(service.store.write(expire), Refused)

    assert service.sends(step("charge"))["statusCode"] == 201
    assert (service.ran, service.given[-1]) == ([], "ch_1")


@pytest.mark.requirement("E6")
def test_a_mark_that_lands_after_the_reconcilers_write_marks_nothing() -> None:
    """The other order: the reconciler was first, and the dead owner's *started* is refused.

    Red when `StartStep` does not ask for the state.
    """
    service = Steps()
    service.dies(dead)
    service.lets_the_lease_run_out()
    read, now_ms = service.record, service.clock.now_ms()
    retry = Retry(reason="lease-expired", expires_at_s=None, due=LATER)

    reply = service.store.write(ExpireLease(pk=read.pk, seen=seen(read), now_ms=now_ms, to=retry))

    assert reply == Written()
    assert isinstance(service.store.write(late_mark(read)), Refused)
    assert service.sends(step("charge"))["statusCode"] == 201
    assert service.ran == ["charge"]


@pytest.mark.requirement("C2")
def test_a_commit_that_was_never_sent_is_not_answered_as_if_it_had_been() -> None:
    """After a finished step the final commit cannot be sent: the caller is told to come back, and
    the next attempt writes what the first could not.

    Red when an unconfirmed commit is answered with what the handler returned.
    """
    service = Steps()
    service.store.refuse("commit Complete", count=1000)

    refused = service.sends(step("charge"), lambda _service, op: writes(op))

    assert problem_of(refused) == (503, "store-unavailable", True)
    assert service.store.writes == []
    service.store.refuse("commit Complete", count=0)
    service.lets_the_lease_run_out()
    answer = service.sends(step("charge"), lambda _service, op: writes(op))
    assert answer["statusCode"] == 201
    assert (len(service.store.writes), service.ran) == (1, ["charge"])


@pytest.mark.requirement("C2")
def test_what_a_resolver_found_does_not_skip_the_business_writes() -> None:
    """`Completed` finishes the step and not the operation: the run that follows makes its writes.

    Red when `Settle` may complete a recorded operation, or `SettleStep` leaves it completed.
    """
    service = dies_in_a_step()
    finds(Completed("ch_1"))
    read = service.record
    ending = Ending(response="{}", completed_at_ms=0, expires_at_s=2**40)
    skipping = Settle(pk=read.pk, seen_owner=read.owner, new_owner="somebody", to=ending)

    assert isinstance(service.store.write(skipping), Refused)
    assert settler(service).settle(read) is Settlement.SETTLED
    assert (service.record.status, service.store.writes) == (Status.FAILED_RETRYABLE, [])

    answer = service.sends(step("charge"), lambda _service, op: writes(op))

    assert answer["statusCode"] == 201
    assert service.given[-2:] == ["ch_1", None]
    assert (len(service.store.writes), service.ran) == (1, ["charge"])


@pytest.mark.requirement("E6")
def test_a_step_that_was_not_executed_no_longer_stands_in_the_way() -> None:
    """`NotExecuted` clears the mark: the next run does the step, and comes to its end.

    Red when `SettleStep` leaves the mark where nothing was executed.
    """
    service = dies_in_a_step()
    finds(NotExecuted())

    assert settler(service).settle(service.record) is Settlement.SETTLED
    assert not service.record.is_in_doubt

    assert service.sends(step("charge", "ch_2"))["statusCode"] == 201
    assert service.given[-1] == "ch_2"
    assert service.record.status is Status.COMPLETED


@pytest.mark.requirement("E6")
def test_a_settlement_that_comes_late_does_not_settle_the_next_attempt() -> None:
    """Two settlements of one doubt are in flight; after the first, the next attempt dies in the
    same step, and then the second arrives: it is refused, because it speaks of another attempt.

    Red when `SettleStep` keeps the owner, or does not compare it.
    """
    service = dies_in_a_step()
    finds(NotExecuted())
    read = service.record
    late = SettleStep(
        pk=read.pk,
        seen_owner=read.owner,
        new_owner="another resolver",
        retry=Retry(reason="settled", expires_at_s=None, due=LATER),
        cleared="charge",
    )
    assert settler(service).settle(read) is Settlement.SETTLED
    service.dies(step("charge", then=dead))
    service.lets_the_lease_run_out()
    assert problem_of(service.send(POST))[:2] == (409, "outcome-unknown")

    assert isinstance(service.store.write(late), Refused)
    assert service.record.is_in_doubt


@pytest.mark.case(42)
def test_a_key_that_is_used_again_after_its_expiry_meets_nothing_of_the_old_one() -> None:
    """Within the ten minutes that DynamoDB remembers a token, the same key with another body is
    another operation: its token, its message and its rows are new, and it is applied.

    Red when any of them derives from the key or the partition key.
    """
    tokens: list[str] = []

    class Watched(FaultyStore):
        def commit(self, commit: Any) -> Any:
            tokens.append(commit.token)
            return super().commit(commit)

    service = Steps(store=Watched(), retention=timedelta(seconds=60))

    def publishes(_service: Steps, op: Operation) -> None:
        writes(op)
        op.outbox.publish("ride.ordered", {"id": op.operation_id})

    service.handles(commit("begun"), publishes)
    bodies = []
    for amount in (1200, 4242):
        event = {**POST, "body": json.dumps({"amount": amount}), "isBase64Encoded": False}
        assert service.send(event)["statusCode"] == 201
        bodies.append(service.record.operation_id)
        service.clock.advance(61_000)

    assert len(set(bodies)) == 2
    assert len(set(tokens)) == len(tokens) == 4
    assert len({message.id for message in service.store.messages}) == 2
    assert len(service.store.writes) == 4
