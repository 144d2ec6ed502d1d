"""Options, handlers and hooks that cannot work: refused early, or told clearly."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any

import boto3
import pytest

from oncekey import (
    IETF,
    STRIPE,
    ConfigurationError,
    DynamoDBStore,
    ResponseBucket,
    idempotent,
    idempotent_function,
    jwt_claim,
    single_tenant,
)
from oncekey.outbox import OutboxTable, SqsQueue
from oncekey.record.record import Status
from oncekey.testing.memory import MemoryStore
from tests.support.dynamodb import dynamodb_table
from tests.support.events import load, with_body, with_key, with_route, with_tenant
from tests.support.protected import (
    SHAPES,
    Protected,
    headers_of,
    problem_of,
    records,
)
from tests.support.stable_names import stable_repr

POST = load("apigw_http_v2_post")


@pytest.mark.parametrize(
    "options",
    [
        {"methods": ["POST,PATCH"]},
        {"methods": [" POST"]},
        {"methods": [1]},
        {"not_executed": [ValueError]},
        {"not_executed": dict},
        {"not_executed": "ValueError"},
        {"not_executed": ("x",)},
        {"not_executed": None},
        {"tenant": jwt_claim},
        {"tenant": str},
        {"principal": str},
        {"retention": 3600},
        {"wait_up_to": 10},
        {"min_key_length": "16"},
        {"store": "table"},
        {"effects": ["repeatable"]},
        {"retention": timedelta(days=365 * 8000)},
        {"before_store": "x"},
        {"upgrade_response": 5},
        {"response_version": "2"},
        {"required": "no"},
        {"store_raw_key": None},
        {"problem_base": 5},
        {"clock": "x"},
        {"response_version": 10**40},
        {"methods": 5},
        {"methods": (each for each in ["POST"])},
        {"min_key_length": True},
        {"store": MemoryStore},
        {"preset": type(IETF)},
        {"problem_base": []},
        {"problem_base": "urn:\ud800"},
        {"store_when": dict},
        {"after_expiry": "gone", "gone_for": None},
        {"after_expiry": "gone", "gone_for": timedelta(0)},
        {"retention": timedelta.max},
        {"wait_up_to": timedelta.max},
        {"reconcile_grace": timedelta.min},
    ],
    ids=stable_repr,
)
def test_an_option_that_cannot_work_is_refused_at_decoration(options: dict[str, Any]) -> None:
    """No mistake in an option leaves a handler unprotected, or is first met by a request."""
    with pytest.raises(ConfigurationError):
        idempotent(**{"operation": "any", "tenant": single_tenant(), **options})


async def _async_rule(*_given: Any) -> bool:
    return False


def _generator_rule(*_given: Any) -> Any:
    yield False


class _AsyncRule:
    async def __call__(self, *_given: Any) -> bool:
        return False


_LATE = [_async_rule, _generator_rule, _AsyncRule(), functools.partial(_async_rule)]
_RULES = [
    *("tenant", "principal", "fingerprint", "fingerprint_secrets", "not_executed", "store_when"),
    *("before_store", "upgrade_response", "on_event"),
]


@pytest.mark.parametrize("rule", _LATE, ids=["async", "generator", "object", "partial"])
@pytest.mark.parametrize("option", _RULES)
def test_a_rule_that_nobody_would_await_is_refused_at_decoration(option: str, rule: Any) -> None:
    """A coroutine counts as true: such a rule would prove or store everything."""
    with pytest.raises(ConfigurationError, match=f"{option} is an? (async|generator)"):
        idempotent(**{"operation": "any", "tenant": single_tenant(), option: rule})


@pytest.mark.parametrize("rule", _LATE, ids=["async", "generator", "object", "partial"])
@pytest.mark.parametrize(
    "option", ["key", "tenant", "fingerprint", "fingerprint_secrets", "not_executed", "on_event"]
)
def test_the_same_holds_for_the_rules_of_a_function(option: str, rule: Any) -> None:
    """Its key would be the key of no call, and its proof the proof of everything."""
    options = {"operation": "any", "key": "id", "tenant": single_tenant(), option: rule}

    with pytest.raises(ConfigurationError, match=f"{option} is an? (async|generator)"):
        idempotent_function(**options)


@pytest.mark.parametrize("rule", [_async_rule, _generator_rule])
def test_a_predicate_that_returns_a_coroutine_proves_nothing(rule: Any) -> None:
    """A plain lambda may hide the async rule. Nothing runs again because of it."""
    service = Protected(not_executed=lambda error: rule(error))  # noqa: PLW0108 -- it hides the rule

    def handler(_event: object, _op: object) -> None:
        raise LookupError

    service.then = handler

    with pytest.raises(LookupError):
        service.send(POST)
    assert problem_of(service.send(POST))[1] == "outcome-unknown"
    assert len(service.runs) == 1


@pytest.mark.parametrize("rule", [_async_rule, _generator_rule])
def test_a_storing_rule_that_returns_a_coroutine_stores_nothing(rule: Any) -> None:
    """Its author is told, and no answer is kept that the rule has not judged."""
    when: Any = lambda answer: rule(answer)  # noqa: E731, PLW0108 -- it hides the rule
    service = Protected(store_when=when, effects="repeatable")

    with pytest.raises(TypeError, match="store_when returned a coroutine or a generator"):
        service.send(POST)
    assert records(service)[0].status is Status.FAILED_RETRYABLE


@pytest.mark.parametrize("raised", [ZeroDivisionError(), SystemExit(1)], ids=repr)
def test_a_storing_rule_that_raises_completes_nothing(raised: BaseException) -> None:
    """Whatever it raises, nobody has judged the answer, so the end of the attempt is unknown."""

    def rule(_answer: Any) -> bool:
        raise raised

    service = Protected(store_when=rule)
    service.then = lambda _event, _op: {"statusCode": 500}

    with pytest.raises(type(raised)):
        service.send(POST)
    assert records(service)[0].status is Status.UNKNOWN


@pytest.mark.parametrize("secrets", [(), iter(())])
def test_a_source_of_secrets_that_has_none_is_refused(secrets: Any) -> None:
    """The table would reveal the request, which its author wants to hide."""
    service = Protected(fingerprint_secrets=lambda: secrets)

    with pytest.raises(ConfigurationError, match="at least one secret"):
        service.send(POST)
    assert not records(service)


async def _async_secrets() -> list[bytes]:
    return [b"sixteen bytes ..."]


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (lambda: None, "NoneType"),
        (lambda: b"sixteen bytes ...", "bytes"),
        (lambda: "sixteen bytes ...", "str"),
        (lambda: _async_secrets(), "coroutine"),  # noqa: PLW0108 -- it hides the async function
    ],
)
def test_a_source_of_secrets_that_returns_no_list_is_told_so(source: Any, kind: str) -> None:
    """The message says what is needed instead, and nothing was written."""
    service = Protected(fingerprint_secrets=source)

    with pytest.raises(ConfigurationError, match=f"it returned {kind}: a list of secrets"):
        service.send(POST)
    assert not records(service)


def test_secrets_may_come_from_a_generator() -> None:
    """All of them count, also after they were checked."""
    plain, keyed = Protected(), Protected(fingerprint_secrets=lambda: iter([b"sixteen bytes ..."]))
    plain.send(POST)
    keyed.send(POST)

    assert records(plain)[0].fingerprint != records(keyed)[0].fingerprint


def _keyword_only(event: Any, context: Any, *, op: Any) -> None: ...
def _one(event: Any) -> None: ...
def _method(self: Any, event: Any, context: Any) -> None: ...
def _four(event: Any, context: Any, op: Any, more: Any) -> None: ...
def _generator(event: Any, context: Any) -> Any:
    yield event


@pytest.mark.parametrize("handler", [_keyword_only, _one, _method, _four, _generator])
def test_a_handler_that_cannot_be_called_is_refused_at_decoration(handler: Any) -> None:
    """What would fail at every request, after its key is reserved, fails before the first."""
    with pytest.raises(ConfigurationError):
        idempotent(operation="any", tenant=single_tenant())(handler)


@pytest.mark.parametrize(
    "hook", [lambda answer: answer.update(body="redacted"), lambda _answer: {"body": "redacted"}]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_redaction_that_is_no_answer_is_told_and_never_replayed(shape: str, hook: Any) -> None:
    """A hook that forgets to return, or drops the status, is the author's mistake: the first call
    says so, its key is settled like that of any answer that cannot be stored, and no repeat gets an
    answer that nobody gave.
    """
    service = Protected(before_store=hook)

    with pytest.raises(TypeError, match="before_store returns an answer"):
        service.send(load(shape))

    assert problem_of(service.send(load(shape)))[1] == "answer-unavailable"
    assert len(service.runs) == 1


@pytest.mark.parametrize("preset", [IETF, STRIPE])
def test_a_rule_is_asked_once(preset: Any) -> None:
    """A predicate that changes its mind does not free a key whose caller is told something else."""
    asked: list[BaseException] = []

    def rule(error: BaseException) -> bool:
        asked.append(error)
        return len(asked) % 2 == 1

    service = Protected(not_executed=rule, preset=preset)

    def handler(_event: object, _op: object) -> None:
        raise LookupError

    service.then = handler

    assert service.send(POST)["statusCode"] == 503
    assert len(asked) == 1
    assert records(service)[0].status is Status.FAILED_RETRYABLE


def test_what_is_known_of_a_users_client_wins() -> None:
    """A call timeout given with a client is believed; without one it is the client's own."""
    with dynamodb_table() as client:
        assert DynamoDBStore("t", client=client, call_timeout_ms=700).call_timeout_ms == 700
        assert DynamoDBStore("t", client=client).call_timeout_ms > 60_000


@pytest.mark.parametrize(
    "wrong",
    [
        {"table": None},
        {"table": ""},
        {"table": 5},
        {"client": DynamoDBStore},
        {"client": "dynamodb"},
        {"bucket": "responses"},
        {"outbox": 5},
        {"call_timeout_ms": 0},
        {"call_timeout_ms": -1},
        {"call_timeout_ms": 1.5},
        {"call_timeout_ms": True},
    ],
    ids=stable_repr,
)
def test_a_store_that_cannot_work_is_refused_where_it_is_made(wrong: dict[str, Any]) -> None:
    """Each request would get a 503, as if DynamoDB were down."""
    (name,) = wrong
    with pytest.raises(ConfigurationError, match=f"DynamoDBStore: {name} is"):
        DynamoDBStore(**{"table": "t", **wrong})


@pytest.mark.parametrize(
    "wrong", [{"name": None}, {"name": ""}, {"client": "s3"}, {"client": ResponseBucket}]
)
def test_a_bucket_that_cannot_work_is_refused_where_it_is_made(wrong: dict[str, Any]) -> None:
    """The first answer that is too large for the table would be lost."""
    (name,) = wrong
    with pytest.raises(ConfigurationError, match=f"ResponseBucket: {name} is"):
        ResponseBucket(**{"name": "responses", **wrong})


@pytest.mark.parametrize("name", [None, "", " ", 1])
@pytest.mark.parametrize(("kind", "given"), [(SqsQueue, "url"), (OutboxTable, "name")])
def test_a_queue_or_an_outbox_without_a_name_is_refused(kind: Any, given: str, name: Any) -> None:
    """No message could be sent, and each would look like an outage."""
    with pytest.raises(ConfigurationError, match=f"{kind.__name__}: {given} is"):
        kind(name)


@pytest.mark.parametrize(("kind", "service"), [(SqsQueue, "sqs"), (OutboxTable, "dynamodb")])
def test_a_queue_or_an_outbox_has_a_client_of_its_service(kind: Any, service: str) -> None:
    """A name, a class or the client of another service is none."""
    for wrong in ("client", SqsQueue, boto3.client("s3", "eu-west-1")):
        with pytest.raises(ConfigurationError, match=rf"pass boto3\.client\('{service}'\)"):
            kind("name", client=wrong)
    made: Any = boto3
    kind("name", client=made.client(service, "eu-west-1"))


def test_a_resource_or_another_services_client_is_no_client() -> None:
    """boto3 makes both, and neither has the calls that the store makes."""
    for made in (boto3.resource("dynamodb", "eu-west-1"), boto3.client("s3", "eu-west-1")):
        with pytest.raises(ConfigurationError, match=r"pass boto3\.client\('dynamodb'\)"):
            DynamoDBStore("t", client=made)  # type: ignore[arg-type]  # as its author may write


def test_a_key_that_is_ignored_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A client that sends a key with a method that needs none believes itself protected."""
    service = Protected(operation="PUT /things")
    for _ in range(2):
        service.send(with_route(POST, "PUT", "/things"))
        service.send(with_key(with_route(POST, "PUT", "/things")))

    said = [record for record in caplog.records if "ran unprotected" in record.getMessage()]
    assert len(said) == 1


def test_a_bare_value_without_a_json_form_is_settled_too() -> None:
    """Behind payload 2.0 a bare value is a 200: the work is done, though nobody can be told."""
    service = Protected()
    service.then = lambda _event, _op: {"set": {1}}

    with pytest.raises(TypeError, match="cannot be sent as JSON"):
        service.send(POST)

    assert problem_of(service.send(POST)) == (500, "answer-unavailable", False)


def test_a_wrong_table_is_told_to_the_operator(caplog: pytest.LogCaptureFixture) -> None:
    """A table that is not there is no outage: the log names it, and what to check."""
    with dynamodb_table() as client:
        Protected(store=DynamoDBStore("no-such-table", client=client)).send(POST)

    assert any(
        "ResourceNotFoundException on table 'no-such-table': check its name" in record.getMessage()
        for record in caplog.records
    )


@pytest.mark.parametrize("code", ["key-missing", "key-reused"])
def test_refusals_of_the_stripe_preset_carry_the_request_id(code: str) -> None:
    """Stripe's clients log it."""
    service = Protected(preset=STRIPE)
    service.send(POST)
    other = with_key(POST) if code == "key-missing" else with_body(POST, "{}")

    assert headers_of(service.send(other))["request-id"].startswith("req_")


def test_a_default_is_not_taken_for_the_operation() -> None:
    """A third parameter that has a default is the author's own."""
    seen = []

    @idempotent(operation="any", tenant=single_tenant(), store=MemoryStore())
    def handler(_event: dict[str, Any], _context: object, retries: int = 3) -> dict[str, Any]:
        seen.append(retries)
        return {"statusCode": 200}

    handler(with_tenant(POST, "acme"), None)

    assert seen == [3]
