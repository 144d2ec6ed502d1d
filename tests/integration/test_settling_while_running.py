"""Whoever settles from outside is often faster than the run that they speak of, or its end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, NotExecuted, Settlement, settle
from oncekey.record import Status
from tests.support.accepted import Accepted
from tests.support.protected import Protected, is_replay, records, while_running
from tests.support.steps import POST, FaultyStore

if TYPE_CHECKING:
    from collections.abc import Callable

LEASE_MS = 15_000
ANSWER: Any = {"statusCode": 201, "body": json.dumps({"id": "re_1"})}


def says(service: Protected, finding: Completed | NotExecuted) -> Callable[[], Settlement]:
    """Somebody settles the only operation, by its reference."""

    def saying() -> Settlement:
        (record,) = records(service)
        reference = f"{record.pk}.{record.operation_id}"
        return settle(reference, finding, store=service.store, clock=service.clock)

    return saying


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


def test_an_accepted_operation_that_waits_is_left_to_its_worker() -> None:
    """Nobody has begun it, so nobody can know how it ended."""
    service = Accepted()
    service.sends()

    assert says(service, Completed(ANSWER))() is Settlement.RUNNING
    assert service.record.status is Status.PENDING


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

    assert says(service, NotExecuted())() is Settlement.TOO_EARLY
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
