"""Whoever settles from outside is often faster than the run that they speak of, or its end."""

from __future__ import annotations

import uuid

import pytest

from oncekey import Completed, NotExecuted, Settlement
from oncekey.record.record import Due, Status
from tests.support.accepted import Meanwhile
from tests.support.protected import Protected, is_replay, while_running
from tests.support.replacing import replace
from tests.support.settled import ANSWER, says, the
from tests.support.steps import POST, FaultyStore

LEASE_MS = 15_000


def dead(service: Protected) -> None:
    """One request whose process dies in its handler."""

    def handler(_event: object, _op: object) -> None:
        service.store.is_dead = True
        raise SystemExit(137)

    service.then = handler
    with pytest.raises(SystemExit):
        service.send(POST)
    service.store.is_dead = False
    service.then = None


@pytest.mark.parametrize("finding", [Completed(ANSWER), NotExecuted()], ids=["done", "not done"])
def test_a_running_operation_is_left_to_its_own_run(finding: Completed | NotExecuted) -> None:
    """While its lease is open it is `RUNNING`: nothing is written, and its own answer stands."""
    service = Protected()

    assert while_running(service, POST, says(service, finding)) is Settlement.RUNNING

    assert service.send(POST)["body"] == '{"the first": true}'
    assert says(service, finding)() is Settlement.NOT_IN_DOUBT


@pytest.mark.requirement("D6")
def test_who_knows_what_a_dead_run_did_need_not_wait_for_the_reconciler() -> None:
    """Once the lease is over the answer that is known is the client's, at once.

    Red when a dead run counts as running until a reconciler has met it.
    """
    service = Protected(store=FaultyStore())
    dead(service)
    assert says(service, Completed(ANSWER))() is Settlement.RUNNING
    service.clock.advance(LEASE_MS + 1)

    assert says(service, Completed(ANSWER))() is Settlement.SETTLED

    answer = service.send(POST)
    assert (answer["body"], is_replay(answer), len(service.runs)) == (ANSWER["body"], True, 1)


def test_that_a_dead_run_did_nothing_is_believed_after_the_grace_alone() -> None:
    """Its call may still be under way: until then the operation is unknown, and runs for nobody."""
    service = Protected(store=FaultyStore())
    dead(service)
    service.clock.advance(LEASE_MS + 1)

    due = the(service).due
    assert says(service, NotExecuted())() is Settlement.TOO_EARLY
    # Nobody looks at it before the grace is over.
    assert the(service).due == due
    assert service.send(POST)["statusCode"] == 409
    service.clock.advance(60_000)
    assert says(service, NotExecuted())() is Settlement.SETTLED
    assert (service.send(POST)["statusCode"], len(service.runs)) == (201, 2)


def test_a_retry_that_takes_over_meanwhile_is_not_overruled() -> None:
    """Of a repeatable operation a retry may be at it by the time that somebody speaks."""
    service = Protected(effects="repeatable", store=FaultyStore())
    dead(service)
    service.clock.advance(LEASE_MS + 1)

    assert while_running(service, POST, says(service, Completed(ANSWER))) is Settlement.RUNNING
    assert service.send(POST)["body"] == '{"the first": true}'


def test_a_dead_run_that_nobody_was_to_look_at_is_looked_at_from_now_on() -> None:
    """A record without a due time gets one where it is found to be unknown."""
    service = Protected(store=FaultyStore())
    dead(service)
    service.clock.advance(LEASE_MS + 1)
    running = replace(the(service), due=None)
    service.store.records[running.pk] = running

    assert says(service, NotExecuted())() is Settlement.TOO_EARLY

    assert the(service).status is Status.UNKNOWN
    assert the(service).due == Due(shard=running.due_shard, at_ms=service.clock.now_ms())


def test_an_answer_that_cannot_be_stored_leaves_a_dead_run_as_it_is() -> None:
    """It is told before anything is written: the next request still finds the dead run.

    Red when the record is marked as unknown first.
    """
    service = Protected(store=FaultyStore())
    dead(service)
    service.clock.advance(LEASE_MS + 1)
    before = the(service)

    with pytest.raises(TypeError, match="statusCode"):
        says(service, Completed("no answer of a route"))()

    assert the(service) == before


@pytest.mark.parametrize("comes", ["nobody", "another operation"])
def test_a_dead_run_that_is_gone_before_it_is_marked_is_not_in_doubt(
    comes: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Between the reading and the write its record was removed, and perhaps its key was used anew:
    nothing is settled, and no lease is said to have expired.
    """
    store = Meanwhile()
    service = Protected(store=store)
    dead(service)
    service.clock.advance(LEASE_MS + 1)
    lost = the(service)

    def goes() -> None:
        store.records.clear()
        if comes == "another operation":
            anew = str(uuid.UUID(int=7))
            store.records[lost.pk] = replace(lost, operation_id=anew, owner="another")

    store.schedule(1, goes)

    assert says(service, Completed(ANSWER))() is Settlement.NOT_IN_DOUBT
    assert "lease-expired" not in caplog.text
