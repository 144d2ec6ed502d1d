"""Recorded operations that are passed over, kept too long, interrupted, or mistaken for others."""

from __future__ import annotations

import json
import traceback
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import EffectMisused, Final, NotExecuted, idempotent, single_tenant
from oncekey.errors import StoreError
from oncekey.record.record import Status
from oncekey.record.steps import FinishedStep
from oncekey.record.steps import Steps as Steps_
from oncekey.settlement.settlement import Settlement
from oncekey.testing.memory import MemoryStore
from tests.support.events import load, with_key
from tests.support.protected import Protected, headers_of, problem_of
from tests.support.replacing import replace
from tests.support.steps import POST, FaultyStore, Steps, caught, settler, step

if TYPE_CHECKING:
    from oncekey import Operation
    from oncekey.record.commit import Commit


def test_the_effect_of_a_step_that_was_passed_over_is_not_made_beside_its_fallbacks() -> None:
    """The first attempt was refused by one provider and went to another; the next one must not go
    to the first after all.

    The run stops before the step, whatever the provider would say now.
    """
    service = Steps()
    service.dies(caught(step("primary", raises=NotExecuted())), step("fallback"))
    service.lets_the_lease_run_out()

    answer = service.sends(step("primary"), step("fallback"))

    assert service.ran == ["primary", "fallback"]
    assert problem_of(answer)[:2] == (409, "outcome-unknown")
    assert service.record.escalated_at_ms is not None


@pytest.mark.parametrize("otherwise", [None, Final(409, {"error": "no seat"})], ids=repr)
def test_a_refusal_after_a_sending_that_may_still_land_is_not_the_last_word(
    otherwise: Final | None,
) -> None:
    """The first sending is under way, the second is refused by a condition: the caller is told to
    come back, and the first finds nothing to be applied to.

    Red when a failed condition is believed though an earlier sending was not answered.
    """
    under_way: list[Commit] = []

    class Slow(MemoryStore):
        def commit(self, commit: Commit) -> Any:
            if not under_way:
                under_way.append(commit)
                raise StoreError("no answer", transient=True)
            return super().commit(commit)

    service = Steps(store=Slow(holds=lambda _write: False))

    def takes_a_seat(_service: Steps, op: Operation) -> None:
        op.transaction.update("seats", {"id": 7}, "ADD free :less", otherwise=otherwise)

    answer = service.sends(takes_a_seat)

    assert problem_of(answer) == (503, "store-unavailable", True)
    service.store._holds = lambda _write: True
    MemoryStore.commit(service.store, under_way[0])
    assert service.store.writes == []
    assert service.record.status is Status.FAILED_RETRYABLE


def test_a_failure_on_the_way_to_a_finished_step_does_not_escalate() -> None:
    """With failures stored, a passing one before a step on record is not stored: the next attempt
    comes to the step.
    """
    service = Steps(store_when="begun")
    service.dies(step("charge"))
    service.lets_the_lease_run_out()

    failed = service.sends(ends=ConnectionError())

    assert failed["statusCode"] == 500
    assert service.record.status is Status.FAILED_RETRYABLE
    assert service.sends(step("charge"))["statusCode"] == 201
    assert service.ran == ["charge"]


@pytest.mark.parametrize("is_applied", [True, False])
def test_what_interrupts_a_commit_is_not_answered_as_if_it_had_been_made(is_applied: bool) -> None:
    """A handler that catches a time-out of its own around a commit has perhaps committed: its
    client is told neither that it was made nor that nothing was.
    """

    class Interrupted(FaultyStore):
        def commit(self, commit: Commit) -> Any:
            if is_applied:
                super().commit(commit)
            raise TimeoutError

    service = Steps(store=Interrupted())

    def commits(_service: Steps, op: Operation) -> None:
        op.transaction.put("rides", {"id": "1"})
        op.commit("ordered")

    answer = service.sends(caught(commits, TimeoutError))

    assert problem_of(answer) == (503, "attempt-unfinished", True)
    assert service.record.status is Status.FAILED_RETRYABLE
    assert len(service.store.writes) == is_applied


FULL = tuple(
    FinishedStep(name=f"step {number}", position=number, at_ms=0, result='"' + "x" * 900 + '"')
    for number in range(430)
)


def with_a_full_record() -> Steps:
    """A handler whose dead attempt has filled its record with these steps."""
    service = Steps()

    def fills(_service: Steps, _op: Operation) -> None:
        (pk,) = service.store.records
        record = service.store.records[pk]
        service.store.records[pk] = replace(record, steps=Steps_(finished=FULL))

    service.dies(fills)
    service.lets_the_lease_run_out()
    return service


def test_a_step_that_the_record_has_no_room_for_does_not_run() -> None:
    """It is refused before it runs: its result could neither be recorded nor settled."""
    service = with_a_full_record()

    with pytest.raises(EffectMisused, match="the record is full of steps"):
        service.sends(*[step(each.name) for each in FULL], step("one more"))

    assert service.ran == []


def test_a_renamed_step_of_a_full_record_stops_the_run() -> None:
    """What does not fit the record is said before the want of room: the run stops, a person is
    asked, and the handler cannot catch it and go on.

    Red when the room is looked at before the order of the steps.
    """
    service = with_a_full_record()

    answer = service.sends(caught(step("renamed"), EffectMisused))

    assert problem_of(answer)[:2] == (409, "outcome-unknown")
    assert "'step 0' is on record" in str(service.record.last_error)
    assert service.ran == []


USES = {
    "a step": lambda op: op.step("charge", list, idempotent=True),
    "a write": lambda op: op.transaction.put("rides", {"id": "1"}),
    "a message": lambda op: op.outbox.publish("ride.ordered", {}),
    "a commit": lambda op: op.commit("ordered"),
}


@pytest.mark.parametrize("use", USES)
def test_an_operation_that_is_over_does_nothing(use: str) -> None:
    """One that was kept from an earlier request says so, and what the handler asked of it is not
    lost in silence.
    """
    service = Steps()
    kept: list[Operation] = []
    service.sends(lambda _service, op: kept.append(op))

    with pytest.raises(EffectMisused, match="its operation is over"):
        USES[use](kept[0])


@pytest.mark.parametrize("is_own", [True, False])
def test_a_handlers_own_accepted_is_its_last_word(is_own: bool) -> None:
    """A 202 that its author wrote is stored, with what it has published, wherever it leads."""
    service = Protected(effects="recorded")

    def accepts(_event: object, op: Operation) -> dict[str, Any]:
        op.outbox.publish("report.requested", {})
        operation_id = op.operation_id if is_own else "another"
        body = {"operation_id": operation_id, "status": "pending", "retry_after_s": 1}
        headers = {"Location": f"/operations/{operation_id}"}
        return {"statusCode": 202, "headers": headers, "body": json.dumps(body)}

    service.then = accepts

    answers = [service.send(POST) for _ in range(2)]

    assert [answer["statusCode"] for answer in answers] == [202, 202]
    assert "idempotent-replayed" in headers_of(answers[1])
    assert len(service.store.messages) == 1


@pytest.mark.parametrize("status", [503, "503"])
def test_a_status_in_letters_counts_as_the_number(status: object) -> None:
    """API Gateway takes one for the other, and so does what decides whether to commit."""
    store = MemoryStore()

    @idempotent(
        operation="POST /x",
        tenant=single_tenant(),
        effects="recorded",
        required=False,
        store=store,
    )
    def handler(event: dict[str, Any], context: object, op: Operation) -> dict[str, Any]:
        op.transaction.put("rides", {"id": "1"})
        return {"statusCode": status}

    handler(with_key(load("apigw_http_v2_post")), None)

    assert store.writes == []


def test_a_bare_final_whose_condition_fails_is_answered_otherwise() -> None:
    """As it would be under a key."""
    store = MemoryStore(holds=lambda _write: False)

    @idempotent(
        operation="POST /x",
        tenant=single_tenant(),
        effects="recorded",
        required=False,
        store=store,
    )
    def handler(event: dict[str, Any], context: object, op: Operation) -> dict[str, Any]:
        op.transaction.put("rides", {"id": "1"}, otherwise=Final(409, "taken"))
        raise Final(201, "made", commit=True)

    answer = handler(with_key(load("apigw_http_v2_post")), None)

    assert (answer["statusCode"], answer["body"]) == (409, "taken")


def test_a_value_is_written_as_it_was_collected() -> None:
    """Bytes that are changed afterwards are not changed in the transaction."""
    service = Steps()
    changing = bytearray(b"before")

    def collects(_service: Steps, op: Operation) -> None:
        op.transaction.put("rides", {"id": "1", "data": changing, "all": [{"more": changing}]})
        changing[:] = b"after!"

    service.sends(collects)

    (write,) = service.store.writes
    item = write.parameters["Item"]
    assert item["data"] == {"B": b"before"}
    assert item["all"]["L"][0]["M"]["more"] == {"B": b"before"}


def test_a_value_that_cannot_be_written_is_not_repeated() -> None:
    """The message names the attribute and the type; the value may be a secret."""

    class Card:
        def __repr__(self) -> str:
            return "Card(4111111111111111)"

    service = Steps()
    wrong = caught(
        lambda _service, op: op.transaction.put("rides", {"id": "1", "card": Card()}), TypeError
    )

    service.sends(wrong)

    told = "".join(traceback.format_exception(service.given[-1]))
    assert "'card' is or holds a value" in told
    assert "4111" not in told


def test_a_checkpoint_that_landed_before_its_doubt_was_marked_is_let_go() -> None:
    """Nothing is in doubt in such a record: there is nothing to ask about, and a run resumes."""
    service = Steps()
    clock = service.clock
    service.store.lose("FinishStep", count=1000)
    service.store.refuse("Release", count=1000)
    service.sends(step("charge", "ch_1"))
    service.store.lose("FinishStep", count=0)
    service.store.refuse("Release", count=0)
    service.lets_the_lease_run_out()
    other = Protected(store=service.store, effects="unrecorded")
    other.clock.advance(clock.now_ms() - other.clock.now_ms())
    assert problem_of(other.send(POST))[:2] == (409, "outcome-unknown")
    assert service.record.status is Status.UNKNOWN
    assert not service.record.is_in_doubt

    assert settler(service).settle(service.record) is Settlement.TOO_EARLY
    clock.advance(int(timedelta(hours=1) / timedelta(milliseconds=1)))
    assert settler(service).settle(service.record) is Settlement.SETTLED

    assert service.sends(step("charge"))["statusCode"] == 201
    assert service.given[-1] == "ch_1"
    assert service.ran == ["charge"]


def test_a_release_whose_answer_was_lost_is_our_own() -> None:
    """What a step has done is not said to be undone because the release was asked for twice."""
    service = Steps()
    service.store.refuse("FinishStep", count=1000)
    service.store.lose("Release")

    answer = service.sends(step("charge", is_idempotent=True))

    assert problem_of(answer)[:2] == (503, "store-unavailable")
    assert service.record.status is Status.FAILED_RETRYABLE
