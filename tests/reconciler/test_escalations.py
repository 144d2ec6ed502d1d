"""A person is told, once for each escalation, of what nobody else can settle."""

from __future__ import annotations

import contextlib
import itertools
import logging
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, NotExecuted, Settlement, StillUnknown, settle
from oncekey.errors import StoreError
from oncekey.reconciler.decisions import TOLD_ONCE_IN_MS
from oncekey.reconciler.escalation import TOPIC
from oncekey.record.record import Status
from tests.support.protected import is_replay, problem_of
from tests.support.reconciled import (
    PAID,
    Escalations,
    Unrecorded,
    counts,
    knows,
    reconciles,
    wait_until_due,
)
from tests.support.steps import FAILED, POST, Dying, Steps, step

if TYPE_CHECKING:
    from collections.abc import Callable

WEEK_MS = 7 * TOLD_ONCE_IN_MS
ESCALATED = {"visited": 1, "escalated": 1}

pytestmark = pytest.mark.usefixtures("no_resolvers")


def due_in_ms(service: Unrecorded | Steps) -> int:
    """How long it is until the only record is due."""
    assert service.record.due is not None
    return service.record.due.at_ms - service.clock.now_ms()


def unknown() -> Unrecorded:
    """A service with one unknown record, and nobody who can be asked."""
    service = Unrecorded()
    service.fails()
    return service


@pytest.mark.requirement("D6")
def test_after_its_last_turn_a_record_is_one_persons_and_no_resolvers() -> None:
    """After `max_attempts` questions one message tells a person; the record says so, stays unknown,
    and is asked about no more.

    Red when nobody is told, when several messages go out, or when the record is let go.
    """
    service = unknown()
    asked = knows(StillUnknown())
    reports = [counts(service.reconciles(max_attempts=3)) for _ in range(4)]

    assert reports[:3] == [{"visited": 1, "asked": 1, "still_unknown": 1}] * 3
    assert reports[3] == ESCALATED
    record = service.record
    assert record.status is Status.UNKNOWN
    assert record.escalated_at_ms == service.clock.now_ms()
    assert due_in_ms(service) == WEEK_MS
    (body,) = service.escalations.bodies
    assert (body["topic"], body["reference"]) == (TOPIC, service.runs[0].reference)
    assert (body["status"], body["reconcile_attempts"]) == ("UNKNOWN", 3)
    service.clock.advance(WEEK_MS)
    assert counts(service.reconciles(waits=False, max_attempts=3)) == {}
    assert (len(asked), len(service.escalations.bodies)) == (3, 1)
    assert problem_of(service.send(POST)) == (409, "outcome-unknown", True)


def test_without_a_resolver_a_person_is_told_at_once() -> None:
    """Where nobody can be asked, no turn is waited for."""
    service = unknown()

    assert counts(service.reconciles()) == ESCALATED
    assert len(service.escalations.bodies) == 1


def test_a_killed_attempt_without_a_resolver_is_ended_and_escalated_in_one_run() -> None:
    """The end of the lease and the message to a person take one run."""
    service = Unrecorded()
    service.is_killed()

    assert counts(service.reconciles()) == {**ESCALATED, "expired": 1}


@pytest.mark.requirement("D6")
@pytest.mark.parametrize("finding", [Completed(PAID), NotExecuted()], ids=["charged", "not"])
def test_a_webhook_or_an_operator_settles_what_was_escalated(
    finding: Completed | NotExecuted,
) -> None:
    """What a person was told of is settled by `settle`; the client's retry gets the charge's
    answer, or runs.

    Red when an escalated record cannot be settled, or is settled by a resolver.
    """
    service = unknown()
    service.reconciles()
    knows(StillUnknown())

    reference = service.escalations.bodies[0]["reference"]
    settled = settle(
        reference,
        finding,
        found_at_ms=service.clock.now_ms(),
        store=service.store,
        clock=service.clock,
    )

    assert settled is Settlement.SETTLED
    answer = service.sends(service.charge)
    is_charged = isinstance(finding, Completed)
    assert is_replay(answer) is is_charged
    assert len(service.runs) == (1 if is_charged else 2)
    assert counts(service.reconciles()) == {}


def down(service: Unrecorded) -> None:
    """The queue does not answer."""
    service.escalations.is_down = True


def rejecting(service: Unrecorded) -> None:
    """The queue does not take it."""
    service.escalations.rejects = True


def answerless(service: Unrecorded) -> None:
    """The queue takes it, and its answer is lost."""
    service.escalations.loses_answers = True


@pytest.mark.fault("K5.7")
@pytest.mark.parametrize(
    ("befalls", "again_in_ms"),
    [(down, TOLD_ONCE_IN_MS), (rejecting, 60_000), (answerless, TOLD_ONCE_IN_MS)],
    ids=["down", "rejecting", "answerless"],
)
def test_what_the_queue_did_not_confirm_is_sent_again(
    befalls: Callable[[Unrecorded], None], again_in_ms: int
) -> None:
    """A message that the queue did not confirm is a failure, stays due, and is sent by a later run
    under the same id: in a minute where it certainly has not taken it, and otherwise in a day, so
    that nobody is told twice a day. The next one is for the week after.

    Red when what a queue may have taken is sent again within the day.
    """
    service = unknown()
    befalls(service)
    with pytest.raises(StoreError, match="nothing of what is due could be done"):
        service.reconciles()
    assert due_in_ms(service) == again_in_ms
    service.escalations.is_down = service.escalations.rejects = False
    service.escalations.loses_answers = False

    assert counts(service.reconciles()) == ESCALATED
    assert len({body["id"] for body in service.escalations.bodies}) == 1
    assert due_in_ms(service) == WEEK_MS


@pytest.mark.fault("K5.7")
def test_a_person_is_told_each_week_until_it_is_settled() -> None:
    """What nobody settles is told each week, as another message; what is settled no more.

    Red when an escalated record leaves the index, or one message's id is used again.
    """
    service = unknown()
    began_ms = service.clock.now_ms()
    told_ms = []
    service.escalations.happens = lambda: told_ms.append(service.clock.now_ms() - began_ms)
    for _ in range(4):
        assert counts(service.reconciles()) == ESCALATED

    assert [later - sooner for sooner, later in itertools.pairwise(told_ms)] == [WEEK_MS + 1] * 3
    assert len({body["id"] for body in service.escalations.bodies}) == 4
    settle(service.runs[0].reference, Completed(PAID), store=service.store, clock=service.clock)
    service.clock.advance(2 * WEEK_MS)
    assert counts(service.reconciles(waits=False)) == {}


@pytest.mark.parametrize("is_carried_out", [False, True])
@pytest.mark.parametrize("call", range(3), ids=["read", "mark", "done"])
def test_a_reconciler_that_is_killed_leaves_nobody_untold(call: int, is_carried_out: bool) -> None:
    """Killed at any of its calls, before it is made or after, the next runs tell the person, at the
    latest in a day, and never twice a day: again only under the same id.
    """
    dying = Dying(-1, is_carried_out=is_carried_out)
    service = Unrecorded(store=dying)
    service.fails()
    dying._at = len(dying.asked) + call

    def sends_nothing_when_dead() -> None:
        if dying.is_dead:
            raise StoreError("nobody asks", transient=False)

    service.escalations.happens = sends_nothing_when_dead
    with contextlib.suppress(StoreError):
        service.reconciles()
    dying.is_dead = False
    for _ in range(2 if service.escalations.bodies else 1):
        told = len(service.escalations.bodies)
        assert not told or due_in_ms(service) >= TOLD_ONCE_IN_MS
        service.reconciles()

    bodies = service.escalations.bodies
    assert bodies
    assert len(bodies) - len({body["id"] for body in bodies}) <= (call == 2)
    assert due_in_ms(service) == WEEK_MS


def test_a_reconciler_that_is_killed_while_it_tells_tells_again() -> None:
    """Between the mark and the queue's answer nothing else is written: the record stays due."""
    service = unknown()

    def killed() -> None:
        service.store.is_dead = True

    service.escalations.happens = killed
    service.reconciles()
    service.store.is_dead, service.escalations.happens = False, lambda: None

    assert due_in_ms(service) == TOLD_ONCE_IN_MS
    assert counts(service.reconciles()) == ESCALATED
    assert len({body["id"] for body in service.escalations.bodies}) == 1


@pytest.mark.parametrize(
    ("lasts_ms", "takes_ms", "is_told"),
    [
        (20_000, 15_000, True),
        (20_000, 15_001, False),
        (50_000, 40_000, True),
        (50_000, 40_001, False),
    ],
)
def test_a_message_is_sent_while_the_end_of_the_run_cannot_cut_it_off(
    lasts_ms: int, takes_ms: int, is_told: bool
) -> None:
    """A person is told while ten seconds of the run are left, or a quarter of a short run. Later,
    the record stays due without a turn, and the run is not complete.

    Red when a short run tells nobody, or a message may be under way at the end of the invocation.
    """
    service = unknown()
    wait_until_due(service)
    before = service.record
    read = service.store.read

    def slow(pk: str) -> Any:
        service.clock.advance(takes_ms)
        return read(pk)

    service.store.read = slow
    report = service.reconciles(waits=False, lasts_ms=lasts_ms)

    assert (len(service.escalations.bodies), report.escalated) == (int(is_told), int(is_told))
    assert report.is_complete is is_told
    assert is_told or service.record == before


def test_without_a_queue_it_is_said_in_the_log_and_said_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where no queue is named an escalation is an error in the log, and stays due, so that it is
    said again for as long as nobody has settled it.
    """
    caplog.set_level(logging.ERROR, "oncekey")
    service = unknown()
    for _ in range(2):
        assert counts(service.reconciles(escalations=None)) == ESCALATED
        assert due_in_ms(service) == TOLD_ONCE_IN_MS

    lines = [each for each in caplog.records if each.__dict__["oncekey_event"] == "escalated"]
    assert [line.__dict__["operation_id"] for line in lines] == [service.record.operation_id] * 2
    assert service.reconciles().escalated == 1
    assert due_in_ms(service) == WEEK_MS


def test_a_run_that_follows_voids_the_escalation() -> None:
    """What was let go by a person and became unknown again is another escalation, with its own
    turns and another message.
    """
    service = unknown()
    service.reconciles()
    first = service.escalations.bodies[0]
    settle(
        first["reference"],
        NotExecuted(),
        found_at_ms=service.clock.now_ms(),
        store=service.store,
        clock=service.clock,
    )
    service.fails()

    assert counts(service.reconciles()) == ESCALATED
    assert [body["attempt"] for body in service.escalations.bodies] == [1, 2]
    assert len({body["id"] for body in service.escalations.bodies}) == 2


def test_what_its_own_run_has_escalated_is_told_at_the_first_turn() -> None:
    """Steps that changed their order between two releases are for a person: nobody is asked."""
    service = Steps()
    service.sends(step("hold", "h-1"), step("charge", "c-1"), ends=FAILED)
    service.sends(step("charge", "c-1"), step("hold", "h-1"))
    escalations = Escalations()
    assert service.record.escalated_at_ms is not None

    assert counts(reconciles(service, escalations=escalations)) == ESCALATED
    assert [body["status"] for body in escalations.bodies] == ["UNKNOWN"]
    assert due_in_ms(service) == WEEK_MS
