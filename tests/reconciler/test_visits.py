"""The reconciler: what it does with each kind of record, and what its clients then get."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from oncekey import STRIPE, Completed, ConfigurationError, NotExecuted, resolver
from oncekey.outbox.relay import OutboxRelay
from oncekey.reconciler.reconciler import Reconciler
from oncekey.reconciler.settings import ReconcilerSettings
from oncekey.record.record import Status
from oncekey.testing.memory import ManualClock
from tests.support.accepted import START_WITHIN_MS, Accepted
from tests.support.function_calls import Calls
from tests.support.large_answers import LARGE, TOO_LARGE_FOR_AN_ITEM
from tests.support.protected import is_replay, problem_of
from tests.support.reconciled import (
    GRACE_MS,
    PAID,
    Unrecorded,
    counts,
    knows,
    reconciles,
)
from tests.support.steps import LEASE_MS, POST, Steps, caught, commit, finds, step

pytestmark = pytest.mark.usefixtures("no_resolvers")


@pytest.mark.requirement("C21")
@pytest.mark.requirement("B6")
def test_a_killed_attempt_is_resolved_by_the_first_sweep_after_lease_and_grace() -> None:
    """A moment after the lease and the grace, one run ends the dead attempt, asks, and completes
    it; the client's retry gets the provider's answer, and nothing is charged again.

    Red when the end of the lease and the question take a run each, or nobody looks before a retry.
    """
    service = Unrecorded()
    began_ms = service.clock.now_ms()
    service.is_killed()
    asked = knows(Completed(PAID))

    service.clock.advance(LEASE_MS + GRACE_MS)
    assert counts(service.reconciles(waits=False)) == {}
    service.clock.advance(1)
    report = service.reconciles(waits=False)

    assert counts(report) == {"visited": 1, "expired": 1, "asked": 1, "settled": 1}
    assert service.clock.now_ms() == began_ms + LEASE_MS + GRACE_MS + 1
    assert (len(asked), asked[0].downstream_key_of("charge")) == (1, service.charges[0])
    answer = service.send(POST)
    assert (answer["statusCode"], answer["body"], is_replay(answer)) == (201, PAID["body"], True)
    assert len(service.charges) == 1


@pytest.mark.requirement("B6")
def test_the_reconciler_reads_no_record_that_is_not_due() -> None:
    """What is completed, runs, or has failed without an effect is never read by a sweep.

    Red when records without `due` are in the index, or all records are read.
    """
    service = Unrecorded()
    for number in range(5):
        service.fails(f"key-of-number-{number:04d}")
    knows(Completed(PAID), NotExecuted(), Completed(PAID))
    service.reconciles()
    service.clock.advance(10 * 3_600_000)
    service.store.asked.clear()

    assert counts(service.reconciles()) == {}
    assert service.store.asked == []


@pytest.mark.requirement("B8")
def test_every_zombie_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Each attempt that died is one line of its own, with its operation id, attempt, owner and age,
    and one in the numbers of the run, whatever then becomes of it.

    Red when only the number, or only those that are unknown, are logged.
    """
    caplog.set_level(logging.INFO, "oncekey")
    unrecorded = Unrecorded()
    keys = [f"key-of-number-{number:04d}" for number in range(3)]
    for key in keys:
        unrecorded.is_killed(key)
    zombies = [each.operation_id for each in unrecorded.store.records.values()]
    caplog.clear()

    report = unrecorded.reconciles()

    assert (report.expired, report.visited) == (3, 3)
    lines = [entry.__dict__ for entry in caplog.records]
    expired = [line for line in lines if line.get("oncekey_event") == "lease-expired"]
    assert sorted(line["operation_id"] for line in expired) == sorted(zombies)
    assert {(line["attempt"], line["levelname"]) for line in expired} == {(1, "WARNING")}
    assert {line["age_ms"] for line in expired} == {LEASE_MS + GRACE_MS + 1}
    (summary,) = [line for line in lines if line.get("oncekey_event") == "reconciled"]
    assert summary["expired"] == 3


def test_a_dead_attempt_that_may_run_again_is_let_go() -> None:
    """Repeatable work runs again with its next request, under the same operation, and lives as long
    as its record says; that of a request without a message for its retention alone.
    """
    service = Unrecorded(effects="repeatable")
    service.is_killed()

    assert counts(service.reconciles()) == {"visited": 1, "expired": 1}
    record = service.record
    assert record.status is Status.FAILED_RETRYABLE
    assert record.expires_at_s == service.clock.now_ms() // 1000 + 24 * 3600 + 1
    assert service.sends(service.charge)["statusCode"] == 201
    assert [run.attempt for run in service.runs] == [1, 2]


@pytest.mark.requirement("D6")
def test_what_did_not_happen_runs_once_more() -> None:
    """`NotExecuted` lets the retry run: the same operation, the next attempt, the same downstream
    key, one charge that counts.

    Red when it completes, stays unknown, or begins another operation.
    """
    service = Unrecorded()
    service.fails()
    knows(NotExecuted())

    assert counts(service.reconciles()) == {"visited": 1, "asked": 1, "settled": 1}
    answer = service.sends(service.charge)

    assert (answer["statusCode"], is_replay(answer)) == (201, False)
    assert [run.attempt for run in service.runs] == [1, 2]
    assert len({run.operation_id for run in service.runs}) == 1
    assert service.charges == [service.charges[0]] * 2
    assert is_replay(service.send(POST))


@pytest.mark.requirement("D7")
def test_a_charge_that_exists_and_was_declined_is_the_answer() -> None:
    """What the provider has and declined completes the record with that failure: the client's retry
    gets the 402, again and again, and nothing runs.

    Red when a declined charge lets the request run again.
    """
    service = Unrecorded()
    service.fails()
    declined = {"statusCode": 402, "body": '{"code":"card_declined"}'}
    knows(Completed(declined))
    service.reconciles()

    answers = [service.sends(service.charge) for _ in range(2)]

    assert [(each["statusCode"], each["body"]) for each in answers] == [(402, declined["body"])] * 2
    assert all(map(is_replay, answers))
    assert (len(service.runs), len(service.charges)) == (1, 1)


@pytest.mark.requirement("D6")
def test_nobody_but_the_resolver_settles_what_is_unknown() -> None:
    """Before the resolver has said so, no retry runs, however late it comes.

    Red when time alone lets an unknown operation run.
    """
    service = Unrecorded()
    service.fails()

    for _ in range(5):
        service.clock.advance(30 * 24 * 3_600_000)
        assert problem_of(service.send(POST)) == (409, "outcome-unknown", True)
    assert len(service.charges) == 1


@pytest.mark.parametrize("preset", [None, STRIPE], ids=["IETF", "STRIPE"])
def test_what_nobody_began_is_answered_408_in_the_words_of_its_handler(preset: Any) -> None:
    """An accepted request whose deadline has passed is a stored 408: as its own preset words it,
    where the reconciler knows the handler, and as IETF's otherwise.
    """
    service = Accepted(**({} if preset is None else {"preset": preset}))
    service.sends()
    service.clock.advance(START_WITHIN_MS - 1)
    assert counts(reconciles(service, waits=False)) == {}
    service.clock.advance(2)

    report = reconciles(service, waits=False, handlers=(service.handler,))

    assert counts(report) == {"visited": 1, "timed_out": 1}
    answer = service.send(POST)
    assert (answer["statusCode"], is_replay(answer)) == (408, True)
    assert ('"error":{"' in answer["body"].replace(" ", "")) is (preset is not None)
    service.works()
    assert service.runs == []


def test_the_408_names_its_handlers_documentation() -> None:
    """Where the reconciler knows the handler, the answer has that handler's `problem_base`.

    Red when a handler that is named is not known.
    """
    base = "https://docs.example/problems/"
    service = Accepted(problem_base=base)
    service.sends()
    service.clock.advance(START_WITHIN_MS + 1)

    assert reconciles(service, waits=False, handlers=(service.handler,)).timed_out == 1
    assert json.loads(service.send(POST)["body"])["type"].startswith(base)


def test_what_was_begun_waits_and_is_then_for_a_person() -> None:
    """An accepted request that a worker has begun is never timed out: it waits for a redrive, is
    escalated after its turns, and its client or a redriven message still finishes it.
    """
    service = Accepted(effects="repeatable")
    service.sends(ends=NotExecuted("not now"))
    with pytest.raises(NotExecuted):
        service.works()
    service.send(POST)
    reports = [counts(reconciles(service, max_attempts=2)) for _ in range(3)]

    waits = {"visited": 1, "waiting": 1}
    assert reports == [waits, waits, {"visited": 1, "escalated": 1}]
    assert (service.record.status, service.record.escalated_at_ms is None) == ("PENDING", False)
    service.handles()
    service.works()
    assert service.send(POST)["statusCode"] == 201


def test_a_step_that_took_effect_is_settled_and_the_rest_is_done_by_the_next_request() -> None:
    """Of recorded effects the step is settled, with its result; what is then half done waits, and
    the business writes are those of the run that follows.
    """
    service = Steps()
    service.sends(step("hold", "h-1"), caught(step("charge", raises=TimeoutError())))
    finds(Completed("c-1"))

    first, second = reconciles(service), reconciles(service)

    assert counts(first) == {"visited": 1, "asked": 1, "settled": 1}
    assert counts(second) == {"visited": 1, "waiting": 1}
    service.sends(step("hold"), step("charge", "c-2"), commit("paid"))
    assert (service.ran, service.given[-2]) == (["hold", "charge"], "c-1")
    assert len(service.store.writes) == 1
    assert service.record.status is Status.COMPLETED


def test_a_step_that_never_happened_runs_with_the_next_request() -> None:
    """Of recorded effects `NotExecuted` clears the step, and what was done before it stays."""
    service = Steps()
    service.sends(step("hold", "h-1"), caught(step("charge", raises=TimeoutError())))
    finds(NotExecuted())

    assert reconciles(service).settled == 1
    service.sends(step("hold"), step("charge", "c-2"))
    assert service.ran == ["hold", "charge", "charge"]
    assert len(set(service.keys[1:])) == 1


@pytest.mark.parametrize("result", [0, "", None, False, [], {"id": 1}], ids=repr)
def test_a_function_gives_what_its_resolver_found(result: Any) -> None:
    """The result of a function's operation is the resolver's, whether it is true or empty."""
    calls = Calls()
    calls.then = _times_out
    with pytest.raises(TimeoutError):
        calls.call({"id": "a"})
    knows(Completed(result), operation="charge")

    assert reconciles(calls).settled == 1
    assert calls.call({"id": "a"}) == result
    assert len(calls.runs) == 1


def _times_out(_record: Any) -> None:
    raise TimeoutError


@pytest.mark.parametrize("body", [LARGE, TOO_LARGE_FOR_AN_ITEM], ids=["an item", "the bucket"])
def test_an_answer_that_is_large_is_kept_elsewhere(body: str) -> None:
    """An answer that a record has no room for is kept beside it, or in the bucket, and replayed."""
    service = Unrecorded()
    service.fails()
    knows(Completed({"statusCode": 200, "body": body}))

    assert service.reconciles().settled == 1
    assert len(service.store.blobs) == 1
    answer = service.send(POST)
    assert (answer["statusCode"], answer["body"] == body, is_replay(answer)) == (200, True, True)


def test_a_bucket_that_is_slow_does_not_take_the_time_of_all_others() -> None:
    """Once two answers have taken long to save in the bucket, the others are left to their next
    turn, also where each was saved in the end.

    Red when a run waits for a slow bucket again and again.
    """
    service = Unrecorded()
    for number in range(4):
        service.fails(f"key-of-number-{number:04d}")
    knows(Completed({"statusCode": 200, "body": TOO_LARGE_FOR_AN_ITEM}))
    save = service.store.save

    def slow(blob: Any) -> None:
        service.clock.advance(8_000)
        save(blob)

    service.store.save = slow

    assert counts(service.reconciles()) == {"visited": 4, "asked": 4, "settled": 2, "failed": 2}


def test_what_is_no_resolver_is_refused() -> None:
    """A function that was not declared is named at once, not when something is due."""

    @resolver("POST /payments")
    def declared(_question: object) -> Any:
        return NotExecuted()

    def undeclared(_question: object) -> Any:
        return NotExecuted()

    Reconciler(resolvers=(declared,))
    with pytest.raises(ConfigurationError, match="'undeclared' is not declared with @resolver"):
        Reconciler(resolvers=(declared, undeclared))


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"store": "records"}, "store= is a str: pass DynamoDBStore(table)"),
        ({"escalations": "https://queue"}, "escalations= is a str: pass SqsQueue(url)"),
        ({"outbox": OutboxRelay()}, "pass OutboxSweep(relay=OutboxRelay(...))"),
        ({"turns": 10}, "turns= is a int: pass ReconcilerSettings(...)"),
        ({"turns": ReconcilerSettings}, "turns= is the class ReconcilerSettings"),
        ({"clock": ManualClock}, "clock is the class ManualClock: pass an object of it"),
        ({"resolvers": print}, "resolvers= is no list of functions"),
        ({"resolvers": "what_became_of"}, "resolvers= is no list of functions"),
        ({"resolvers": ""}, "resolvers= is no list of functions"),
        ({"handlers": print}, "handlers= is no list of functions"),
        ({"handlers": [print]}, "'print' is in handlers=, and is decorated with neither"),
    ],
)
def test_a_wrong_part_is_refused_when_the_reconciler_is_made(
    wrong: dict[str, Any], fault: str
) -> None:
    """It is said at once what to pass instead.

    Red when each escalation fails on the text of a URL, and nobody is told.
    """
    with pytest.raises(ConfigurationError) as refused:
        Reconciler(**wrong)
    assert fault in str(refused.value)
