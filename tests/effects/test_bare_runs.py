"""Recorded handlers that run outside any record: what they need, and what they never do twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from oncekey import (
    EffectMisused,
    NotExecuted,
    StoreError,
    idempotent,
    idempotent_function,
    single_tenant,
)
from oncekey.record.commit import Commit, Inapplicable
from oncekey.record.transitions import Complete
from oncekey.store.dynamodb.transaction import cancellation
from oncekey.testing import MemoryStore
from tests.support.dynamodb import TABLE, LossyTransport, dynamodb_table, make_table, store_on
from tests.support.events import load, with_header, with_key, with_route
from tests.support.protected import headers_of, problem_of
from tests.support.steps import POST, Action, FaultyStore, Steps, caught, commit, step
from tests.support.transition_rows import ENDING

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey import Operation


def test_steps_need_no_table_in_unit_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ONCEKEY_DISABLED a handler of steps runs without a table, a Region or a network."""
    for name in ("ONCEKEY_TABLE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")

    @idempotent(operation="POST /rides", tenant=single_tenant(), effects="recorded")
    def handler(event: dict[str, Any], context: object, op: Operation) -> dict[str, Any]:
        op.commit("nothing was collected")
        return {"statusCode": 201, "body": op.step("charge", lambda: "ch_1")}

    assert handler(load("apigw_http_v2_post"), None) == {"statusCode": 201, "body": "ch_1"}


@pytest.mark.case(42)
def test_a_bare_transaction_is_not_sent_again_when_its_answer_is_lost() -> None:
    """No record could tell that it has been applied, and an engine may not heed its token: the
    caller gets the failure, and what was collected is applied once.

    Red when a bare run sends its transaction again after any transient failure.
    """
    with dynamodb_table() as client:
        make_table(client, "accounts")

        @idempotent(
            operation="POST /rides",
            tenant=single_tenant(),
            effects="recorded",
            required=False,
            store=store_on(client),
        )
        def handler(event: dict[str, Any], context: object, op: Operation) -> dict[str, Any]:
            op.transaction.update("accounts", {"id": "a"}, "ADD balance :n", values={":n": 5})
            return {"statusCode": 201}

        LossyTransport(client).lose("TransactWriteItems")
        without_key = with_header(load("apigw_http_v2_post"), "idempotency-key")
        with pytest.raises(StoreError):
            handler(without_key, None)
        (account,) = client.scan(TableName="accounts")["Items"]

    assert account["balance"] == {"N": "5"}


BEFORE: dict[str, tuple[list[Action], bool]] = {
    "nothing": ([], False),
    "a step that proved to do nothing": ([caught(step("hold", raises=NotExecuted()))], False),
    "a step": ([step("hold")], True),
    "a step that raised": ([caught(step("hold", raises=OSError()))], True),
    "a commit": ([commit("ordered")], True),
}


@pytest.mark.parametrize("before", BEFORE)
def test_a_bare_run_that_acted_is_not_said_not_to_be_executed(before: str) -> None:
    """A handler without a record raises `NotExecuted`: the client is told 503 `not-executed` and to
    come back in a second if no step or commit took effect before. Otherwise the error passes, as
    any other would.

    Red when the handler is believed whatever it has done.
    """
    actions, has_acted = BEFORE[before]
    service = Steps(required=False)
    service.event = with_header(POST, "idempotency-key")

    if has_acted:
        with pytest.raises(NotExecuted):
            service.sends(*actions, ends=NotExecuted())
    else:
        answer = service.sends(*actions, ends=NotExecuted())
        assert problem_of(answer) == (503, "not-executed", True)
        assert headers_of(answer)["retry-after"] == "1"


def test_a_bare_step_that_passed_on_the_proof_of_a_function_has_acted() -> None:
    """`NotExecuted` of a function below covers that function alone, also without a record. What the
    step did before it called the function is not said not to be executed.
    """
    service = Steps(required=False)
    service.event = with_header(POST, "idempotency-key")

    @idempotent_function(operation="inform", key=str, tenant=single_tenant(), store=MemoryStore())
    def inform(_order: str) -> None:
        raise NotExecuted

    def pay(_service: Steps, op: Operation) -> None:
        def charge_and_inform() -> None:
            service.ran.append("charge")
            inform("o-1")

        op.step("charge", charge_and_inform)

    with pytest.raises(NotExecuted):
        service.sends(caught(pay, NotExecuted), ends=NotExecuted())
    assert service.ran == ["charge"]


@pytest.mark.parametrize("again", [step("charge"), commit("charge")], ids=["step", "commit"])
def test_without_a_record_too_a_name_is_used_once(again: Action) -> None:
    """A second step or commit of one name is refused, as it is with a record: a handler that is
    tried without one has no fault that shows only later.

    Red when a bare run does not remember the names of what it has done.
    """
    service = Steps(required=False)
    service.event = with_header(POST, "idempotency-key")

    with pytest.raises(EffectMisused, match="'charge' is done twice in one run"):
        service.sends(step("charge"), again)
    assert service.ran == ["charge"]


@pytest.mark.parametrize("times", [2, 3])
def test_a_bare_transaction_that_meets_others_is_sent_three_times(times: int) -> None:
    """A transaction that DynamoDB refuses for another one was not applied: it is sent again twice,
    and then the caller gets the failure.
    """

    class Crowded(FaultyStore):
        """Others write the same items, so many times."""

        def commit(self, commit: Commit) -> Any:
            self.asked.append("commit")
            if len(self.asked) <= times:
                raise StoreError("busy", transient=True, contention="conflict")
            return MemoryStore.commit(self, commit)

    service = Steps(required=False, store=Crowded())
    service.event = with_header(POST, "idempotency-key")

    if times == 3:
        with pytest.raises(StoreError, match="busy"):
            service.sends(commit("ordered"))
    else:
        assert service.sends(commit("ordered"))["statusCode"] == 201
    assert service.store.asked == ["commit"] * 3
    assert len(service.store.writes) == (times < 3)


def test_a_bare_run_that_is_over_does_nothing() -> None:
    """Without a record, too, an operation object that outlives its handler begins no step."""
    service = Steps(required=False)
    service.event = with_header(POST, "idempotency-key")
    service.sends()

    with pytest.raises(EffectMisused):
        service.runs[0].step("charge", lambda: service.ran.append("charge"))
    assert service.ran == []


def test_the_records_own_reason_is_told_where_it_is_none_of_the_known() -> None:
    """A transaction that is refused for the record itself says so, and not "no reason"."""

    class Cancelled(Exception):
        response: ClassVar[dict[str, Any]] = {
            "Error": {"Code": "TransactionCanceledException"},
            "CancellationReasons": [{"Code": "ValidationError", "Message": "too large"}],
        }

    commit = Commit(transition=Complete(pk=TABLE, owner="o", ending=ENDING), token="t")

    refused = cancellation(Cancelled(), commit)

    assert refused == Inapplicable("the operation's record: ValidationError: too large")


def ordering(answer: Callable[[], Any], store: MemoryStore, **options: Any) -> Any:
    """A handler that needs no key, collects one write, and returns what `answer()` makes."""

    @idempotent(
        operation="POST /rides",
        tenant=single_tenant(),
        effects="recorded",
        required=False,
        store=store,
        **options,
    )
    def handler(event: dict[str, Any], context: object, op: Operation) -> Any:
        op.transaction.put("rides", {"id": op.operation_id})
        return answer()

    return handler


@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("status", [201, 404, 500])
def test_the_authors_rule_decides_about_what_was_collected(status: int, has_key: bool) -> None:
    """`store_when=` says which answers are final, with a key and without one: any other discards
    what was collected.

    Red when a refused request without a key has written its data all the same.
    """
    store = MemoryStore()

    handler = ordering(
        lambda: {"statusCode": status}, store, store_when=lambda answer: answer["statusCode"] < 400
    )

    event = load("apigw_http_v2_post")
    handler(event if has_key else with_header(event, "idempotency-key"), None)

    assert len(store.writes) == (status == 201)


@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("outcome", ["done", "none"])
def test_the_rule_gets_the_answer_that_a_bare_value_stands_for(outcome: str, has_key: bool) -> None:
    """With payload 2.0, a handler may return its body alone, which is sent with 200.

    Red when such an answer commits without a key whatever the rule says of it.
    """
    store = MemoryStore()

    handler = ordering(
        lambda: {"outcome": outcome},
        store,
        store_when=lambda answer: json.loads(answer["body"])["outcome"] == "done",
    )

    event = load("apigw_http_v2_post")
    handler(event if has_key else with_header(event, "idempotency-key"), None)

    assert len(store.writes) == (outcome == "done")


@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("store_when", [None, lambda answer: True], ids=["default", "own rule"])
@pytest.mark.parametrize(
    ("shape", "value"),
    [
        ("apigw_rest_v1_post", {"ordered": True}),
        ("apigw_rest_v1_post", None),
        ("apigw_http_v2_post", {"statusCode": None, "body": "x"}),
        ("apigw_http_v2_post", {"statusCode": 201.0, "body": "x"}),
    ],
    ids=["no status", "nothing", "no number", "a float"],
)
def test_what_is_no_answer_of_its_gateway_applies_nothing(
    shape: str, value: Any, store_when: Any, *, has_key: bool
) -> None:
    """The gateway sends an error in its place, with a key and without one, and the author is told.

    Red when a client without a key gets a 502 for a ride that was ordered.
    """
    store = MemoryStore()

    handler = ordering(lambda: value, store, store_when=store_when)

    event = load(shape)
    with pytest.raises(TypeError, match="statusCode"):
        handler(event if has_key else with_key(event), None)

    assert store.writes == []


@pytest.mark.parametrize("has_key", [True, False])
def test_a_coroutine_that_a_plain_handler_returns_applies_nothing(*, has_key: bool) -> None:
    """Nobody awaits it, so the handler has not ended, with a key or without one."""
    store = MemoryStore()

    async def work() -> dict[str, Any]:
        raise AssertionError("nobody awaits this")

    handler = ordering(work, store)

    event = load("apigw_http_v2_post")
    with pytest.raises(TypeError, match="awaitable, which nobody awaits"):
        handler(event if has_key else with_key(event), None)

    assert store.writes == []


@pytest.mark.parametrize("has_key", [True, False])
def test_a_rule_that_changes_its_answer_changes_no_one_elses(*, has_key: bool) -> None:
    """`store_when=` gets a copy of the answer, with its headers, with a key and without one."""

    def rule(answer: dict[str, Any]) -> bool:
        answer["headers"].clear()
        return True

    handler = ordering(
        lambda: {"statusCode": 201, "headers": {"Location": "/rides/1"}},
        MemoryStore(),
        store_when=rule,
    )

    event = load("apigw_http_v2_post")
    sent = handler(event if has_key else with_key(event), None)

    assert sent["headers"]["Location"] == "/rides/1"


def test_a_rule_that_fails_applies_nothing() -> None:
    """Nobody knows then whether the answer is final, and the author is told."""
    store = MemoryStore()

    def fails(_answer: object) -> bool:
        raise KeyError("outcome")

    handler = ordering(lambda: {"statusCode": 201}, store, store_when=fails)

    with pytest.raises(KeyError, match="outcome"):
        handler(with_header(load("apigw_http_v2_post"), "idempotency-key"), None)

    assert store.writes == []


def test_a_rule_is_not_asked_about_a_request_that_collected_nothing() -> None:
    """A GET may have an answer that the rule was not written for.

    Red when it fails by a rule that decides nothing there.
    """

    @idempotent(
        operation="POST /rides",
        tenant=single_tenant(),
        store_when=lambda answer: answer["headers"]["X-Outcome"] == "done",
        store=MemoryStore(),
    )
    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        return {"statusCode": 200}

    event = with_route(load("apigw_http_v2_post"), "GET", "/rides")

    assert handler(event, None) == {"statusCode": 200}
