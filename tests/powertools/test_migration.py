"""The hand-over from Powertools' idempotency utility: both side by side on one handler."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
)
from aws_lambda_powertools.utilities.idempotency import idempotent as powertools_idempotent
from aws_lambda_powertools.utilities.idempotency import (
    idempotent_function as powertools_idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
)

from oncekey import (
    ConfigurationError,
    KeyMissing,
    KeyReused,
    Operation,
    current_operation,
    idempotent,
    idempotent_function,
    single_tenant,
)
from oncekey.powertools import handed_over, powertools_key, powertools_payload
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.dynamodb import dynamodb_table, make_table
from tests.support.events import load, with_body, with_key
from tests.support.protected import Context, headers_of, problem_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OLD_TABLE = "old"
KEY_IN_EVENT = 'headers."idempotency-key"'
POST = with_body(load("apigw_http_v2_post"), '{"amount": 5}')


@dataclass
class Releases:
    """Three releases of one handler: before, during and after the hand-over."""

    client: Any
    store: MemoryStore = field(default_factory=MemoryStore)
    clock: ManualClock = field(default_factory=ManualClock)
    runs: list[str] = field(default_factory=list)
    then: list[Callable[[], Any]] = field(default_factory=list)

    def old_way(self) -> Any:
        """Powertools' decorator, as the old release has it; each sandbox has its own."""
        layer = DynamoDBPersistenceLayer(table_name=OLD_TABLE, boto3_client=self.client)
        config = IdempotencyConfig(
            event_key_jmespath=KEY_IN_EVENT,
            payload_validation_jmespath="powertools_json(body).amount",
        )
        return powertools_idempotent(persistence_store=layer, config=config)

    def new_way(self, **options: Any) -> Any:
        """Our decorator, on the new store."""
        given: dict[str, Any] = {"operation": "POST /payments", "tenant": single_tenant()}
        return idempotent(store=self.store, clock=self.clock, **given, **options)

    def handler(self, release: str) -> Any:
        """The handler, which has the same name in each release."""

        def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
            self.runs.append(release)
            if self.then:
                self.then.pop()()
            return {"statusCode": 201, "body": json.dumps({"run": len(self.runs)})}

        match release:
            case "old":
                return self.old_way()(handler)
            case "both":
                return self.new_way()(handed_over(self.old_way())(handler))
            case _:
                return self.new_way()(handler)

    def send(self, release: str, event: dict[str, Any] = POST) -> dict[str, Any]:
        """One invocation of `release`."""
        context: Any = Context(self.clock, self.clock.now_ms() + 10_000)
        answer: dict[str, Any] = self.handler(release)(event, context)
        return answer


@pytest.fixture
def releases() -> Iterator[Releases]:
    """Releases on Powertools' table."""
    with dynamodb_table() as client:
        make_table(client, OLD_TABLE)
        yield Releases(client)


def test_a_retry_after_the_switch_gets_the_old_releases_answer(releases: Releases) -> None:
    """What Powertools recorded is answered and not run again, during the hand-over and after it.

    Red when the hand-over does not ask Powertools first.
    """
    answers = [releases.send(release) for release in ("old", "both", "new")]

    assert [answer["body"] for answer in answers] == ['{"run": 1}'] * 3
    assert headers_of(answers[2])["idempotent-replayed"] == "true"
    assert releases.runs == ["old"]


def test_a_rollback_gets_the_new_releases_answer(releases: Releases) -> None:
    """The old release knows what was done during the hand-over."""
    answers = [releases.send(release) for release in ("both", "old", "both")]

    assert [answer["body"] for answer in answers] == ['{"run": 1}'] * 3
    assert releases.runs == ["both"]


def test_without_the_hand_over_a_retry_at_the_switch_runs_twice(releases: Releases) -> None:
    """Two releases that do not share a table do not know of each other's calls."""
    releases.send("old")
    releases.send("new")

    assert releases.runs == ["old", "new"]


def test_neither_release_runs_what_the_other_is_running(releases: Releases) -> None:
    """While one runs, the other refuses, and then has its answer."""
    during: list[Any] = []
    releases.then.append(lambda: during.append(releases.send("both")))
    releases.send("old")

    def old_meanwhile() -> None:
        with pytest.raises(IdempotencyAlreadyInProgressError):
            releases.send("old", other)

    other = with_key(POST, "another-key-of-this-client")
    releases.then.append(old_meanwhile)
    releases.send("both", other)

    assert problem_of(during[0]) == (503, "not-executed", True)
    assert releases.send("both")["body"] == '{"run": 1}'
    assert releases.send("old", other)["body"] == '{"run": 2}'
    assert releases.runs == ["old", "both"]


def test_another_payload_under_an_old_key_is_refused_and_leaves_no_trace(
    releases: Releases,
) -> None:
    """Powertools' refusal of another payload is 422 `key-reused`, each time; the right retry still
    gets the old answer.
    """
    other = with_body(POST, '{"amount": 6}')
    releases.send("old")
    refused = [problem_of(releases.send("both", other)) for _ in range(2)]

    assert refused == [(422, "key-reused", False)] * 2
    assert releases.send("both")["body"] == '{"run": 1}'
    assert releases.runs == ["old"]


def test_another_payload_is_refused_without_a_record_too(releases: Releases) -> None:
    """Powertools' refusal has the same meaning where only Powertools protects a call."""
    keyless = {**POST, "headers": {"content-type": "application/json"}}
    layer = DynamoDBPersistenceLayer(table_name=OLD_TABLE, boto3_client=releases.client)
    config = IdempotencyConfig(
        event_key_jmespath="routeKey",
        payload_validation_jmespath="powertools_json(body).amount",
    )

    def pay(event: dict[str, Any], context: object) -> dict[str, Any]:
        releases.runs.append(event["body"])
        return {"statusCode": 201}

    old = powertools_idempotent(persistence_store=layer, config=config)
    handler = releases.new_way(required=False)(handed_over(old)(pay))

    context = Context(releases.clock, releases.clock.now_ms() + 10_000)
    handler(keyless, context)
    refused = handler(with_body(keyless, '{"amount": 6}'), context)

    assert problem_of(refused) == (422, "key-reused", False)
    assert releases.runs == ['{"amount": 5}']


@pytest.mark.parametrize("has_header", [True, False])
def test_a_request_in_which_powertools_finds_no_key_is_refused_as_one_without_a_key(
    releases: Releases, *, has_header: bool
) -> None:
    """Powertools' `IdempotencyKeyError` is 400 `key-missing`, each time, and says so, with and
    without a record of ours; the header's key still works for the right request.
    """
    layer = DynamoDBPersistenceLayer(table_name=OLD_TABLE, boto3_client=releases.client)
    config = IdempotencyConfig(
        event_key_jmespath="powertools_json(body).order", raise_on_no_idempotency_key=True
    )

    def pay(event: dict[str, Any], context: object) -> dict[str, Any]:
        releases.runs.append(event["body"])
        return {"statusCode": 201}

    old = powertools_idempotent(persistence_store=layer, config=config)
    handler = releases.new_way(required=False)(handed_over(old)(pay))
    event = POST if has_header else {**POST, "headers": {"content-type": "application/json"}}
    context = Context(releases.clock, releases.clock.now_ms() + 10_000)

    answers = [handler(event, context) for _ in range(2)]
    right = handler(with_body(event, '{"order": 7}'), context)
    assert all(problem_of(each) == (400, "key-missing", False) for each in answers)
    assert all("lacks the part that its key is taken from" in each["body"] for each in answers)
    assert right["statusCode"] == 201
    assert releases.runs == ['{"order": 7}']


def test_a_refusal_below_forgets_no_attempt_that_may_have_acted(releases: Releases) -> None:
    """Repeatable effects are harmless to repeat under one operation id, so the right request still
    has it after one in which Powertools finds no key.
    """
    layer = DynamoDBPersistenceLayer(table_name=OLD_TABLE, boto3_client=releases.client)
    config = IdempotencyConfig(
        event_key_jmespath='headers."x-order"', raise_on_no_idempotency_key=True
    )

    def pay(event: dict[str, Any], context: object) -> dict[str, Any]:
        releases.runs.append(current_operation().operation_id)
        if len(releases.runs) == 1:
            raise TimeoutError
        return {"statusCode": 201}

    old = powertools_idempotent(persistence_store=layer, config=config)
    handler = releases.new_way(effects="repeatable")(handed_over(old)(pay))
    right = {**POST, "headers": {**POST["headers"], "x-order": "7"}}
    context = Context(releases.clock, releases.clock.now_ms() + 10_000)

    with pytest.raises(TimeoutError):
        handler(right, context)
    refused = handler(POST, context)
    releases.clock.advance(1_000)
    handler(right, context)

    assert problem_of(refused) == (400, "key-missing", False)
    first, second = releases.runs
    assert first == second


def test_a_failure_of_powertools_after_the_work_is_no_proof(releases: Releases) -> None:
    """If the old table is lost while the handler runs, the outcome is unknown."""
    releases.then.append(lambda: releases.client.delete_table(TableName=OLD_TABLE))
    with pytest.raises(Exception, match="success"):
        releases.send("both")

    assert problem_of(releases.send("both"))[:2] == (409, "outcome-unknown")
    assert problem_of(releases.send("both", with_key(POST, "another-key-of-this-client")))[:2] == (
        503,
        "not-executed",
    )
    assert releases.runs == ["both"]


def test_a_function_is_handed_over_like_a_handler(releases: Releases) -> None:
    """`idempotent_function` of Powertools below ours: the old result is returned, of the same
    argument, by position or by name; another payload under an old key is `KeyReused`.
    """
    layer = DynamoDBPersistenceLayer(table_name=OLD_TABLE, boto3_client=releases.client)
    config = IdempotencyConfig(event_key_jmespath="id", payload_validation_jmespath="amount")
    config.register_lambda_context(Context(releases.clock, releases.clock.now_ms() + 10_000))  # type: ignore[arg-type]
    old = powertools_idempotent_function(
        data_keyword_argument="order", persistence_store=layer, config=config
    )
    ours = idempotent_function(
        operation="ship", key="order.id", tenant=single_tenant(), store=releases.store
    )

    def ship(order: dict[str, Any], *, note: str = "") -> dict[str, Any]:
        releases.runs.append(order["id"])
        return {"run": len(releases.runs), "note": note}

    new = ours(handed_over(old)(ship))
    first, named = old(ship)(order={"id": "a"}), new(order={"id": "a"})
    second, by_position = old(ship)(order={"id": "b"}), new({"id": "b"}, note="again")
    third = new({"id": "c"}, note="new")
    old(ship)(order={"id": "d"})
    with pytest.raises(KeyReused):
        new({"id": "d", "amount": 6})

    assert (
        (named, by_position) == (first, second) == ({"run": 1, "note": ""}, {"run": 2, "note": ""})
    )
    assert third == {"run": 3, "note": "new"}
    assert new(order={"id": "d"}) == {"run": 4, "note": ""}


def test_the_hand_over_refuses_what_it_cannot_keep(releases: Releases) -> None:
    """Async functions and an operation argument when decorated; recorded effects, and a place above
    our decorator, at the first call.
    """
    over = handed_over(releases.old_way())

    async def coroutine(event: Any, context: Any) -> None: ...

    def takes(event: Any, context: Any, op: Operation) -> None: ...

    def plain(event: Any, context: Any) -> dict[str, Any]:
        return {"statusCode": 200}

    with pytest.raises(ConfigurationError, match="await"):
        over(coroutine)
    with pytest.raises(ConfigurationError, match="current_operation"):
        over(takes)
    with pytest.raises(ConfigurationError, match="below oncekey's decorator"):
        over(plain)(POST, None)
    with pytest.raises(ConfigurationError, match="recorded"):
        releases.new_way(effects="recorded")(over(plain))(POST, None)


def test_two_operations_below_the_hand_over_are_told_apart_by_their_own_lines(
    releases: Releases,
) -> None:
    """The refusal of a name that is used twice names the handlers' lines, not a wrapper's."""

    def decorated(handler: Any) -> Any:
        return releases.new_way()(handed_over(releases.old_way())(handler))

    def pay(event: Any, context: Any) -> None: ...

    def refund(event: Any, context: Any) -> None: ...

    kept = decorated(pay)
    with pytest.raises(ConfigurationError) as refused:
        decorated(refund)

    assert kept is not None
    assert f"(line {pay.__code__.co_firstlineno})" in str(refused.value)
    assert f"(line {refund.__code__.co_firstlineno})" in str(refused.value)


def test_powertools_expressions_find_keys_and_payloads() -> None:
    """`powertools_json` works in `key=` and `fingerprint=`; a key that misses a part is not."""
    runs: list[Any] = []

    @idempotent_function(
        operation="work",
        key=powertools_key("powertools_json(body).[user, order]"),
        fingerprint=powertools_payload("powertools_json(body).amount"),
        tenant=single_tenant(),
        store=MemoryStore(),
    )
    def work(event: dict[str, str], context: object = None) -> None:
        runs.append(event)

    def event(**body: Any) -> dict[str, str]:
        return {"body": json.dumps(body)}

    work(event(user="u", order=1))
    work(event(user="u", order=1, note="repeat"))
    with pytest.raises(KeyMissing):
        work(event(user="u"))
    with pytest.raises(Exception, match="other arguments"):
        work(event(user="u", order=1, amount=9))
    assert len(runs) == 1


@pytest.mark.parametrize("body", [None, "no JSON", '{"user": 1}', "5"])
def test_a_call_that_a_powertools_expression_does_not_fit_has_no_key(body: Any) -> None:
    """It is refused as a call without a key, and no error quotes it.

    Red when an error of jmespath or Powertools, which quotes the event, is raised.
    """

    @idempotent_function(
        operation="work",
        key=powertools_key("powertools_json(body).[user, order]"),
        tenant=single_tenant(),
        store=MemoryStore(),
    )
    def work(event: dict[str, Any]) -> None:
        pytest.fail("it ran without a key")

    with pytest.raises(KeyMissing) as refused:
        work({"body": body, "secret": "s3cr3t"})

    assert "s3cr3t" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("read", [powertools_key, powertools_payload])
@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("bad[", "is no JMESPath expression"),
        ("", "is no JMESPath expression"),
        (5, "is no JMESPath expression"),
        ("powertools_yaml(body)", "has no function powertools_yaml()"),
        ("powertools_json(body, body)", "takes 1 argument(s), not 2"),
    ],
)
def test_a_mistake_in_a_powertools_expression_is_found_at_once(
    read: Callable[[Any], Any], expression: Any, fault: str
) -> None:
    """It is the author's mistake, and not one of each request.

    Red when every client gets a 400 for it.
    """
    with pytest.raises(ConfigurationError, match=re.escape(fault)):
        read(expression)


@pytest.mark.parametrize("expression", ["powertools_base64(body)", "powertools_base64_gzip(body)"])
def test_a_body_that_a_powertools_expression_cannot_decode_is_a_400(expression: str) -> None:
    """Whatever a client sends, it gets an answer.

    Red when bytes that are no text, or no gzip, raise an error that quotes the request.
    """

    @idempotent(
        operation="POST /payments",
        tenant=single_tenant(),
        fingerprint=powertools_payload(expression),
        store=MemoryStore(),
    )
    def pay(event: dict[str, Any], context: object) -> dict[str, Any]:
        pytest.fail("it ran")

    bodies = ["/w==", "H4sI", "H4sIAAAA", "H4sIAAAAAAAA/w==", "5"]
    assert [pay(with_body(POST, body), None)["statusCode"] for body in bodies] == [400] * 5


def test_a_powertools_payload_is_a_fingerprint_of_requests() -> None:
    """Other members of the body may differ in a retry, and a body that cannot be read is a 400."""
    store, runs = MemoryStore(), []

    @idempotent(
        operation="POST /payments",
        tenant=single_tenant(),
        fingerprint=powertools_payload("powertools_json(body).amount"),
        store=store,
    )
    def pay(event: dict[str, Any], context: object) -> dict[str, Any]:
        runs.append(event)
        return {"statusCode": 201}

    bodies = ['{"amount": 5}', '{"amount": 5, "note": 1}', '{"amount": 6}', "no JSON"]
    answers = [pay(with_body(POST, body), None) for body in bodies]

    assert [answer["statusCode"] for answer in answers] == [201, 201, 422, 400]
    assert len(runs) == 1
