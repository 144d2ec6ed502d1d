"""The decorator's options, checked when it is applied, and what it leaves of a handler."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities.parser import event_parser
from pydantic import BaseModel

from oncekey import ConfigurationError, Operation, idempotent, single_tenant
from oncekey.testing.memory import MemoryStore
from tests.support.events import load

POST = load("apigw_http_v2_post")
OPTIONS: dict[str, Any] = {"operation": "POST /payments", "tenant": single_tenant()}


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"operation": ""}, "operation is empty"),
        ({"operation": "POST /a\nPOST /b"}, "operation is no name"),
        ({"operation": "x" * 256}, "operation is no name"),
        ({"tenant": None}, "tenant is no source: use jwt_claim"),
        ({"tenant": "acme"}, "tenant is no source"),
        ({"principal": "sub"}, "principal is no source"),
        ({"fingerprint": dict}, "fingerprint is neither a callable"),
        ({"fingerprint": "body"}, "fingerprint is neither a callable"),
        ({"effects": "none"}, "effects is 'none': one of 'unrecorded', 'repeatable', 'recorded'"),
        ({"max_lease": timedelta(seconds=1)}, "max_lease needs effects='repeatable'"),
        ({"methods": "POST"}, "methods is a collection"),
        ({"methods": ()}, "methods is a collection"),
        ({"min_key_length": 0}, "min_key_length is 0: 1 to 255"),
        ({"min_key_length": 256}, "min_key_length is 256: 1 to 255"),
        ({"in_progress": "queue"}, "in_progress is 'queue': one of conflict, wait, accepted"),
        ({"preset": "STRIPE"}, "preset is neither IETF nor STRIPE"),
        ({"store_when": "always"}, "store_when is 'always': 'final', 'begun' or a callable"),
        ({"after_expiry": "410"}, "after_expiry is '410': 'run' or 'gone'"),
        ({"fingerprint_secrets": [b"short"]}, "fingerprint_secrets is a list of secrets"),
        ({"fingerprint_secrets": "secret"}, "fingerprint_secrets is a list of secrets"),
        ({"retention": timedelta(0)}, "retention_s is 0"),
        ({"wait_up_to": timedelta(seconds=-1)}, "wait_up_to_ms is -1000"),
        ({"reconcile_grace": timedelta(seconds=-1)}, "reconcile_grace_ms is -1000"),
        ({"gone_for": timedelta(days=7)}, "gone_for needs after_expiry='gone'"),
        ({"after_expiry": "run", "gone_for": None}, "gone_for needs after_expiry='gone'"),
        ({"in_progress": "conflict", "wait_up_to": timedelta(1)}, "needs in_progress='wait'"),
        ({"in_progress": "accepted", "wait_up_to": timedelta(0)}, "needs in_progress='wait'"),
    ],
)
def test_a_wrong_option_is_refused_when_the_handler_is_decorated(
    options: dict[str, Any], advice: str
) -> None:
    """A wrong option raises at decoration, and the message says what to do."""
    with pytest.raises(ConfigurationError, match=advice):
        idempotent(**{**OPTIONS, **options})


def test_all_faults_are_in_one_message() -> None:
    """Nobody has to fix one fault to learn of the next."""
    with pytest.raises(ConfigurationError) as refused:
        idempotent(operation=" ", tenant=None, effects="x", methods=(), retention=timedelta(0))  # type: ignore[arg-type]

    assert len(refused.value.faults) == 5


def test_a_handler_keeps_its_name_and_documentation() -> None:
    """What looks at a handler finds the author's."""

    @idempotent(**OPTIONS)
    def charge(_event: dict[str, Any], _context: object) -> dict[str, Any]:
        """Charge the customer."""
        return {}

    assert (charge.__name__, charge.__doc__) == ("charge", "Charge the customer.")


def test_the_operation_is_given_only_to_a_handler_that_takes_it() -> None:
    """Two parameters get event and context; a third gets the operation, whatever its name."""
    seen: list[Any] = []

    @idempotent(**OPTIONS, store=MemoryStore())
    def two(event: dict[str, Any], context: object) -> dict[str, Any]:
        seen.append((event, context))
        return {"statusCode": 200}

    @idempotent(**OPTIONS, store=MemoryStore())
    def three(_event: dict[str, Any], _context: object, current: Operation) -> dict[str, Any]:
        seen.append(current)
        return {"statusCode": 200}

    two(POST, None)
    three(POST, None)

    assert seen[0] == (POST, None)
    assert isinstance(seen[1], Operation)
    assert (seen[1].name, seen[1].attempt, seen[1].protected) == ("POST /payments", 1, True)


def test_a_handler_that_takes_any_arguments_gets_event_and_context() -> None:
    """`*args` and `**kwargs` behind them ask for nothing more."""
    seen: list[Any] = []

    @idempotent(**OPTIONS, store=MemoryStore())
    def handler(event: Any, context: object, *args: Any, **kwargs: Any) -> dict[str, Any]:
        seen.append((event, context, args, kwargs))
        return {"statusCode": 200}

    handler(POST, None)

    assert seen == [(POST, None, (), {})]


def test_the_fingerprint_is_taken_before_the_handler_can_touch_the_event() -> None:
    """A handler that changes its event does not change what was asked."""
    runs = []

    @idempotent(**OPTIONS, store=MemoryStore())
    def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
        runs.append(1)
        event["body"] = "changed"
        event["rawPath"] = "/elsewhere"
        return {"statusCode": 200}

    first, second = load("apigw_http_v2_post"), load("apigw_http_v2_post")
    handler(first, None)

    assert handler(second, None)["headers"]["Idempotent-Replayed"] == "true"
    assert len(runs) == 1


@pytest.mark.parametrize("event", [{}, {"Records": []}, None, "text"])
def test_an_event_that_is_no_request_is_the_authors_mistake(event: Any) -> None:
    """What is no HTTP event raises a TypeError that names the shapes."""

    @idempotent(**OPTIONS, store=MemoryStore())
    def handler(_event: Any, _context: object) -> dict[str, Any]:
        return {}

    with pytest.raises(
        TypeError, match=r"API Gateway .* Load Balancer or a Function URL|is a dict"
    ):
        handler(event, None)


def test_a_decorator_that_parses_the_event_stands_below() -> None:
    """Below `@idempotent`, a decorator may parse the event and pass on arguments by name alone:
    the handler gets the event parsed, and its operation.

    Red when the operation is given by place, which such a decorator does not take.
    """

    class Body(BaseModel):
        body: str

    seen: list[tuple[str, str]] = []

    def handler(event: Any, context: object, op: Operation) -> dict[str, int]:
        seen.append((type(event).__name__, op.name))
        return {"statusCode": 200}

    parse: Any = event_parser(model=Body)
    protected = idempotent(**OPTIONS, store=MemoryStore())(parse(handler))

    assert protected(POST, None)["statusCode"] == 200
    assert seen == [("Body", "POST /payments")]
