"""A step in doubt is settled by what its resolver finds out, and the next request resumes."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, NotExecuted, Question, StillUnknown, StoreError, resolver
from oncekey.effects.operation import downstream_key
from oncekey.record.record import Status
from oncekey.record.stored_answer import StoredRef
from oncekey.settlement.settlement import Settlement
from tests.support.dynamodb import dynamodb_table, make_response_bucket
from tests.support.protected import is_replay, problem_of
from tests.support.records import record as some_record
from tests.support.replacing import replace
from tests.support.result_kinds import Point, same
from tests.support.steps import (
    BESIDE,
    FAILED,
    IN_THE_BUCKET,
    LEASE_MS,
    POST,
    Action,
    Steps,
    TableSteps,
    caught,
    finds,
    raises,
    settler,
    step,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey import Operation

GRACE_MS = 60_000
CHARGE = step("charge", raises=TimeoutError())

pytestmark = pytest.mark.usefixtures("no_resolvers")


def in_doubt(service: Steps, *before: Action) -> Steps:
    """`service` after a request whose charge is in doubt, at the time when it may be settled."""
    service.sends(*before, caught(CHARGE))
    service.clock.advance(10_000 + 5_000 + GRACE_MS + 1)
    return service


def writes(_service: Steps, op: Operation) -> None:
    """A business write of the handler's."""
    op.transaction.put("rides", {"id": "1"})


@pytest.mark.requirement("E6")
@pytest.mark.case(14)
@pytest.mark.parametrize("result", ["c-1", None, Point(1, 2), BESIDE], ids=repr)
def test_what_took_effect_is_finished_and_the_next_request_does_the_rest(result: Any) -> None:
    """`Completed` finishes the step with the resolver's result: the next request resumes the same
    operation, is given it without running the step, and makes the business writes.

    Red when the settlement completes the record itself, or the step runs again.
    """
    service = in_doubt(Steps(), step("hold"))
    finds(Completed(result))
    before = service.record

    assert settler(service).settle(before) is Settlement.SETTLED
    record = service.record
    assert (record.status, record.last_error) == (Status.FAILED_RETRYABLE, "settled")
    assert (record.response, record.expires_at_s, record.steps.started) == (None, None, None)
    assert record.owner not in {before.owner, ""}
    assert record.due is not None
    assert before.due is not None
    assert (record.due.shard, record.due.at_ms) == (before.due.shard, service.clock.now_ms())
    assert [(each.name, each.position) for each in record.steps.finished] == [
        ("hold", 0),
        ("charge", 1),
    ]
    answer = service.sends(step("hold"), step("charge"), writes)

    assert answer["statusCode"] == 201
    assert same(service.given[-2], result)
    assert service.ran == ["hold", "charge"]
    assert [run.attempt for run in service.runs] == [1, 2]
    assert len(service.store.writes) == 1
    assert is_replay(service.send(POST))


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("before", [[], [step("hold")]], ids=["first step", "second step"])
def test_what_did_not_happen_runs_with_the_next_request(before: list[Action]) -> None:
    """`NotExecuted` clears the mark: the next request runs the step, under the same downstream key,
    and not the steps before it.

    Red when the mark stays, or finished steps go with it.
    """
    service = in_doubt(Steps(retention=timedelta(hours=2)), *before)
    finds(NotExecuted())

    assert settler(service).settle(service.record) is Settlement.SETTLED
    record = service.record
    assert (record.status, record.steps.started) == (Status.FAILED_RETRYABLE, None)
    assert len(record.steps.finished) == len(before)
    if before:
        assert (record.expires_at_s, record.due is None) == (None, False)
    else:
        assert record.expires_at_s == -(-service.clock.now_ms() // 1000) + 7200
        assert record.due is None
    assert service.sends(*before, step("charge", "c-2"), writes)["statusCode"] == 201

    assert service.ran == [*(["hold"] if before else []), "charge", "charge"]
    assert service.keys[-1] == service.keys[-2]
    assert len(service.store.writes) == 1


NOTHING_KNOWN: dict[str, Any] = {
    "StillUnknown": StillUnknown(timedelta(minutes=5)),
    "an exception": raises(LookupError("the-secret-text")),
    "a raised finding": raises(NotExecuted("the-secret-text")),
    "None": None,
    "a class": NotExecuted,
    "a text": "the-secret-text",
}


@pytest.mark.parametrize("answer", NOTHING_KNOWN.values(), ids=NOTHING_KNOWN)
def test_who_does_not_know_changes_nothing(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The step stays in doubt, and may be asked about again. What a resolver raised, or returned in
    place of an answer, is an error in the log, without its text.
    """
    service = in_doubt(Steps())
    asked = finds(answer)
    before = service.record

    caplog.clear()

    with caplog.at_level(logging.DEBUG, logger="oncekey"):
        found = [settler(service).settle(before) for _ in range(2)]

    assert found == [Settlement.STILL_UNKNOWN] * 2
    assert (service.record, len(asked)) == (before, 2)
    events = [getattr(line, "oncekey_event", "") for line in caplog.records]
    expected = [] if isinstance(answer, StillUnknown) else ["resolver-failed"] * 2
    assert events == expected
    assert "the-secret-text" not in caplog.text


def test_without_a_resolver_a_step_stays_in_doubt() -> None:
    """None was declared for this step of this operation."""
    service = in_doubt(Steps())
    resolver("POST /payments", "another")(lambda _question: NotExecuted())
    resolver("POST /others", "charge")(lambda _question: NotExecuted())
    before = service.record

    assert settler(service).settle(before) is Settlement.NO_RESOLVER
    assert service.record == before


@pytest.mark.parametrize("grace_ms", [0, GRACE_MS, 3_600_000])
def test_nobody_is_asked_before_the_lease_and_the_grace_are_over(grace_ms: int) -> None:
    """A call of the dead attempt may be on its way until then: the resolver's word would be worth
    nothing, and it is not asked.
    """
    service = Steps(reconcile_grace=timedelta(milliseconds=grace_ms))
    service.sends(caught(CHARGE))
    asked = finds(NotExecuted())
    settling = settler(service, reconcile_grace_ms=grace_ms)
    service.clock.advance((service.record.lease_until_ms or 0) - service.clock.now_ms() + grace_ms)

    assert settling.settle(service.record) is Settlement.TOO_EARLY
    assert asked == []
    service.clock.advance(1)
    assert settling.settle(service.record) is Settlement.SETTLED
    assert len(asked) == 1


@pytest.mark.parametrize("store_raw_key", [True, False])
def test_a_resolver_is_told_what_it_needs(store_raw_key: bool) -> None:
    """The operation, the step and the key that it showed the provider; whose it is; and of the
    client's key only what the table has.
    """
    service = Steps(store_raw_key=store_raw_key)
    started_at_ms = service.clock.now_ms()
    in_doubt(service)
    asked = finds(NotExecuted())

    settler(service).settle(service.record)

    operation_id = service.record.operation_id
    assert service.keys == [downstream_key(operation_id, "charge")]
    assert asked == [
        Question(
            operation="POST /payments",
            operation_id=operation_id,
            step="charge",
            downstream_key=service.keys[0],
            tenant=service.record.tenant,
            principal="",
            key=POST["headers"]["idempotency-key"].strip('"') if store_raw_key else "",
            attempt=1,
            started_at_ms=started_at_ms,
            reference=f"{service.record.pk}.{operation_id}",
            lease_until_ms=started_at_ms + LEASE_MS,
        )
    ]


def test_a_result_that_cannot_be_stored_is_told_and_changes_nothing() -> None:
    """The resolver's author gets a TypeError that says where it is."""
    service = in_doubt(Steps())
    finds(Completed({"charge": object()}))
    before = service.record

    with pytest.raises(TypeError, match="result"):
        settler(service).settle(before)

    assert service.record == before


@pytest.fixture(params=["memory", "dynamodb"])
def service(request: pytest.FixtureRequest) -> Iterator[Steps]:
    """On either store."""
    if request.param == "memory":
        yield Steps()
        return
    with dynamodb_table() as client:
        yield TableSteps(client, make_response_bucket())


@pytest.mark.parametrize("late", [Completed("late"), NotExecuted()], ids=["Completed", "Not"])
def test_of_two_settlements_in_flight_the_second_does_not_land(service: Steps, late: Any) -> None:
    """While a resolver is asked, another settlement lands, and the next attempt is in doubt in the
    same step again: the late answer is about the attempt before, and changes nothing.
    """
    in_doubt(service)
    before, seen = service.record, []

    def answers_late() -> Any:
        assert settler(service).settle(before) is Settlement.SETTLED
        in_doubt(service)
        seen.append(service.record)
        return late

    finds(answers_late, NotExecuted())

    assert settler(service).settle(before) is Settlement.OVERTAKEN
    assert seen == [service.record]
    assert (service.record.status, service.record.attempt) == (Status.UNKNOWN, 2)


@pytest.mark.parametrize("result", [BESIDE, IN_THE_BUCKET], ids=["item", "object"])
def test_a_large_result_of_a_resolver_is_kept_beside_the_record(
    service: Steps, result: bytes
) -> None:
    """As one that a step gave itself; and under another name than what the late owner may keep."""
    in_doubt(service)
    before = service.record
    finds(Completed(result))

    assert settler(service).settle(before) is Settlement.SETTLED
    (finished,) = service.record.steps.finished
    assert isinstance(finished.result, StoredRef)
    assert before.owner not in finished.result.name
    assert service.sends(step("charge"))["statusCode"] == 201

    assert service.given[-1] == result


@pytest.mark.parametrize("finding", [Completed("c-1"), NotExecuted()], ids=["Completed", "Not"])
def test_a_late_owner_of_a_settled_step_changes_nothing(service: Steps, finding: Any) -> None:
    """Its call returns after everybody has taken it for dead: its result is refused, and its client
    is told to come back.
    """
    finds(finding)
    settled = []

    def outlives_its_lease(_service: Steps) -> None:
        other = service.another_sandbox(ahead_ms=15_001)
        assert problem_of(other.send(POST))[1] == "outcome-unknown"
        other.clock.advance(GRACE_MS)
        assert settler(other).settle(service.record) is Settlement.SETTLED
        settled.append(service.record)

    answer = service.sends(step("charge", "of the late one", then=outlives_its_lease))

    assert problem_of(answer) == (503, "attempt-unfinished", True)
    assert [service.record] == settled
    service.sends(step("charge", "c-2"))
    assert service.given[-1] == ("c-1" if isinstance(finding, Completed) else "c-2")
    assert service.record.status is Status.COMPLETED


@pytest.mark.parametrize("call", ["lose", "refuse"])
def test_a_settlement_whose_write_fails_is_sent_again(call: str) -> None:
    """Applied or not, it lands once, and the next request resumes."""
    service = in_doubt(Steps())
    finds(Completed("c-1"))
    service.store.call_timeout_ms = 1_500
    getattr(service.store, call)("SettleStep")

    assert settler(service).settle(service.record) is Settlement.SETTLED

    assert service.store.asked[-2:] == ["SettleStep"] * 2
    assert service.sends(step("charge"))["statusCode"] == 201
    assert service.given[-1] == "c-1"


def test_a_settlement_that_cannot_be_written_is_told() -> None:
    """After three tries the caller learns that it may, or may not, have been settled."""
    service = in_doubt(Steps())
    finds(Completed("c-1"))
    service.store.call_timeout_ms = 1_500
    service.store.refuse("SettleStep", 1000)

    with pytest.raises(StoreError):
        settler(service).settle(service.record)

    assert service.store.asked.count("SettleStep") == 3


def test_what_is_not_in_doubt_is_not_settled() -> None:
    """Every record but an unknown one that waits for nobody in particular is left alone."""
    service = Steps()
    asked = finds(NotExecuted())
    service.sends(step("hold"), ends=FAILED)
    half_done = service.record
    service.sends(step("renamed"))
    escalated = service.record
    in_doubt_of = in_doubt(Steps()).record

    for each in (
        half_done,
        escalated,
        replace(in_doubt_of, status=Status.IN_PROGRESS),
        some_record(status=Status.UNKNOWN, escalated_at_ms=1),
    ):
        assert settler(service).settle(each) is Settlement.NOT_IN_DOUBT
    assert asked == []
    assert service.record == escalated
