"""Half-done work whose client never comes back is finished by a worker, or waits for a person."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from oncekey import Completed, ConfigurationError, idempotent, single_tenant
from oncekey.errors import OutcomeUnknown, StoreError
from oncekey.record.record import Status
from tests.support.abandoned import HOLD, Abandoned
from tests.support.events import load, with_body, with_key
from tests.support.protected import is_replay
from tests.support.reconciled import reconciles
from tests.support.steps import FAILED, FaultyStore, Steps, caught, commit, finds, noise, step

GRACE_MS = 60_000
CHARGE = step("charge", "c-1")
SECRET = "Bearer secret-token-of-the-client"

pytestmark = pytest.mark.usefixtures("no_resolvers")


@pytest.mark.requirement("E10")
def test_what_a_dead_client_left_half_done_is_finished_without_it() -> None:
    """The reconciler hands a half-done operation back, a worker resumes it after its finished
    steps, and the answer is there for a client that comes back all the same.

    Red when the request is not kept, or half-done work is left alone.
    """
    service = Abandoned()
    service.sends(HOLD, commit("held"), ends=FAILED)
    assert service.record.status is Status.FAILED_RETRYABLE
    service.handles(HOLD, commit("held"), CHARGE)

    assert service.reconciles().handed_back == 1
    service.works()

    assert service.ran == ["hold", "charge"]
    assert (service.record.status, service.record.request) == (Status.COMPLETED, None)
    answer = service.send(service.event)
    assert (answer["statusCode"], answer["body"], is_replay(answer)) == (201, "made", True)


@pytest.mark.requirement("E10")
def test_what_died_between_two_steps_is_ended_and_handed_back_in_one_visit() -> None:
    """The end of a dead attempt's lease and the hand-back of its work take one visit.

    Red when the end of the lease takes a turn of its own.
    """
    service = Abandoned()
    service.dies(HOLD)
    service.handles(HOLD, CHARGE)

    report = service.reconciles()

    assert (report.expired, report.handed_back) == (1, 1)
    service.works()
    assert service.ran == ["hold", "charge"]


def test_what_did_nothing_is_not_handed_back() -> None:
    """An attempt that died before its first step has left nothing to complete."""
    service = Abandoned()
    service.dies()

    report = service.reconciles()

    assert (report.expired, report.handed_back, service.store.messages) == (1, 0, [])
    assert service.record.status is Status.FAILED_RETRYABLE
    assert service.record.expires_at_s is not None


@pytest.mark.requirement("E10")
def test_a_commit_before_an_idempotent_first_step_makes_it_half_done() -> None:
    """What died within an idempotent step leaves no trace of that step; a commit before it is on
    record, and so the work is handed back, and the step is done once more under its key.

    Red when a commit alone does not count as work that is half done.
    """
    service = Abandoned()
    begun = commit("begun")
    dies = step(
        "charge", is_idempotent=True, then=lambda each: setattr(each.store, "is_dead", True)
    )
    service.dies(begun, dies)

    assert service.reconciles().handed_back == 1
    service.handles(begun, step("charge", "c-1", is_idempotent=True))
    service.works()

    assert service.ran == ["charge", "charge"]
    assert len(set(service.keys)) == 1
    assert service.record.status is Status.COMPLETED


def test_a_step_in_doubt_is_settled_before_anything_is_handed_back() -> None:
    """First the resolver says what became of the step; then the work is handed back."""
    service = Abandoned()
    service.dies(HOLD, step("charge", then=lambda each: setattr(each.store, "is_dead", True)))
    asked = finds(Completed("c-1"))
    service.handles(HOLD, CHARGE)

    first, second = service.reconciles(), service.reconciles()

    assert (first.expired, first.settled, first.handed_back) == (1, 1, 0)
    assert (second.settled, second.handed_back, len(asked)) == (0, 1, 1)
    service.works()
    assert service.ran == ["hold", "charge"]
    assert service.record.status is Status.COMPLETED


def test_a_worker_and_a_client_that_comes_back_do_it_once() -> None:
    """The client resumes first: the message finds the answer, and changes nothing."""
    service = Abandoned()
    service.sends(HOLD, ends=FAILED)
    service.reconciles()
    service.sends(HOLD, CHARGE)

    service.works()

    assert service.ran == ["hold", "charge"]


def test_what_cannot_be_finished_is_handed_back_later_and_later_and_then_escalated() -> None:
    """Each run that fails is followed by another, at most so many, and then a person is told."""
    service = Abandoned()
    service.sends(HOLD, ends=FAILED)
    for _ in range(3):
        assert service.reconciles(max_attempts=4).handed_back == 1
        service.works_in_vain()

    report = service.reconciles(max_attempts=4)

    assert (report.handed_back, report.escalated) == (0, 1)
    assert service.record.escalated_at_ms is not None
    assert service.ran == ["hold"]


def test_a_message_that_is_lost_is_written_again() -> None:
    """The next turn hands the work back again, under another id."""
    service = Abandoned()
    service.sends(HOLD, ends=FAILED)

    assert [service.reconciles().handed_back for _ in range(3)] == [1, 1, 1]

    assert len({message.id for message in service.messages}) == 3
    assert service.record.reconcile_attempts == 3


def test_without_the_option_half_done_work_waits_for_its_client_and_then_for_a_person() -> None:
    """Nothing is kept of the request; after the last turn the work is escalated, and the client
    may still come back.
    """
    service = Abandoned.__new__(Abandoned)
    Steps.__init__(service)
    service.sends(HOLD, ends=FAILED)
    reports = [service.reconciles(max_attempts=2) for _ in range(3)]

    assert [(each.waiting, each.escalated) for each in reports] == [(1, 0), (1, 0), (0, 1)]
    assert (service.record.request, service.store.messages) == (None, [])
    assert service.sends(HOLD, CHARGE)["statusCode"] == 201
    assert service.ran == ["hold", "charge"]


def test_the_request_is_kept_without_what_proves_who_the_caller_is() -> None:
    """The record of running work has the event, but no credentials."""
    service = Abandoned()
    event = load("apigw_http_v2_post")
    event["headers"]["Authorization"] = SECRET
    service.event = event

    service.sends(HOLD, ends=FAILED)

    kept = service.record.request
    assert isinstance(kept, str | bytes)
    assert SECRET not in str(service.store.records)
    service.handles(HOLD, CHARGE)
    service.reconciles()
    (message,) = service.messages
    task: Any = message.payload
    assert task["event"]["body"] == event["body"]
    assert SECRET not in json.dumps(task)


def test_a_request_that_is_too_large_for_its_record_waits_for_its_client() -> None:
    """It runs as ever, is not kept, and that is said."""
    service = Abandoned()
    large = base64.b64encode(noise(20_000)).decode()
    service.event = with_body(load("apigw_http_v2_post"), json.dumps({"large": large}))

    service.sends(HOLD, ends=FAILED)

    assert service.record.request is None
    assert service.reconciles().waiting == 1


def test_a_request_that_no_message_holds_is_not_kept() -> None:
    """What its record would hold compressed, and its message would not, waits for its client: the
    reconciler writes to no bucket, and a worker would look there for nothing.
    """
    service = Abandoned()
    items = json.dumps({"items": ["abcdefgh"] * 40_000})
    service.event = with_body(load("apigw_http_v2_post"), items)

    service.sends(HOLD, ends=FAILED)

    assert service.record.request is None
    assert service.reconciles().waiting == 1
    assert service.store.messages == []


def test_all_that_is_half_done_is_handed_back_in_one_run() -> None:
    """A run hands back each operation that is due.

    Red when hand-backs that succeed count as failures of the outbox.
    """
    service = half_done(number=5)

    report = reconciles(service)

    assert (report.handed_back, len(service.store.messages), report.is_complete) == (5, 5, True)


def test_an_outbox_that_does_not_answer_is_asked_for_two_records_of_a_run() -> None:
    """After two failures the other operations stay due without a turn, and no time is spent on
    them.

    Red when an outbox that is down is asked for each of many records.
    """
    service = half_done(number=5)
    service.store.refuse("commit Reschedule", 99)

    with pytest.raises(StoreError, match="nothing of what is due could be done, 2 times"):
        reconciles(service)

    service.store.recovers()
    assert reconciles(service, waits=False).handed_back == 5


def half_done(*, number: int) -> Steps:
    """So many operations that are to be handed back."""
    service = Steps(on_abandoned="complete")
    for each in range(number):
        service.event = with_key(load("apigw_http_v2_post"), f"key-of-number-{each:04d}")
        service.sends(HOLD, ends=FAILED)
    return service


def test_an_answer_that_is_lost_hands_back_once() -> None:
    """A hand-back whose answer is lost is one hand-back."""
    service = Abandoned(store=FaultyStore())
    service.sends(HOLD, ends=FAILED)
    service.store.call_timeout_ms = 1_500
    service.store.lose("commit Reschedule")

    assert service.reconciles().handed_back == 1

    assert len(service.store.messages) == 1


def test_a_step_in_doubt_without_a_resolver_is_not_run_by_a_worker() -> None:
    """A message that comes back finds what is unknown, and does nothing."""
    service = Abandoned()
    service.sends(HOLD, ends=FAILED)
    service.reconciles()
    service.sends(HOLD, caught(step("charge", raises=TimeoutError())), ends=FAILED)

    with pytest.raises(OutcomeUnknown):
        service.works()

    assert service.ran == ["hold", "charge"]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"on_abandoned": "retry", "effects": "recorded"}, "'wait' or 'complete' is needed"),
        ({"on_abandoned": "complete"}, "needs effects='recorded'"),
        ({"on_abandoned": "complete", "effects": "recorded", "mode": "queued"}, "mode='sync'"),
        (
            {"on_abandoned": "complete", "effects": "recorded", "store_raw_key": False},
            "store_raw_key=False",
        ),
    ],
)
def test_an_option_that_cannot_hold_is_refused(options: dict[str, Any], fault: str) -> None:
    """What cannot be kept, or has nobody who brings it back, is said when it is decorated."""
    with pytest.raises(ConfigurationError, match=fault):
        idempotent(operation="POST /payments", tenant=single_tenant(), **options)
