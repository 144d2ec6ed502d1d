"""`assert_idempotent` compares answers with what came before, and with what has happened."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Operation, idempotent, idempotent_function, single_tenant
from oncekey.testing import assert_idempotent
from tests.support.mistaken_handlers import (
    OPERATION,
    TENANT,
    Provider,
    charged,
    created,
    order_event,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Event = dict[str, Any]
Answer = dict[str, Any]
DECLINED = {"statusCode": 402, "body": "declined"}


def test_a_retry_must_get_the_first_answer() -> None:
    """Code around the handler that adds to the first answer alone is found."""
    provider = Provider()
    made: list[str] = []

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def inner(_event: Event, _context: object, op: Operation) -> Answer:
        made.append(charged(op, provider))
        return created()

    def outer(event: Event, context: object) -> Answer:
        made.clear()
        answer: Answer = inner(event, context)
        return {**answer, "body": json.dumps({"charges": made})}

    with pytest.raises(AssertionError, match="(?s)play: +again.*what only the first run knows"):
        assert_idempotent(outer, order_event(), effects=provider.done)


def _handler(
    provider: Provider, told: Callable[[], Answer], **options: Any
) -> Callable[[Event, object], Answer]:
    """A handler that answers `told` to a failure of the provider."""

    def charge(key: str) -> str:
        charge = provider.charge(key)
        if provider.loses_answers:
            raise TimeoutError
        return charge

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded", **options)
    def handler(_event: Event, _context: object, op: Operation) -> Answer:
        key = op.downstream_key("charge")
        try:
            op.step("charge", lambda: charge(key), idempotent=True)
        except (ConnectionError, TimeoutError):
            return told()
        return created()

    return handler


@pytest.mark.parametrize("mode", [{}, {"mode": "queued"}])
def test_a_success_without_its_effect_must_not_be_stored(mode: dict[str, str]) -> None:
    """A handler that swallows the provider's failure is found, also in a worker."""
    provider = Provider()
    handler = _handler(provider, created, **mode)

    with pytest.raises(AssertionError, match="catches the provider's failure and answers success"):
        assert_idempotent(handler, order_event(), effects=provider.done, failing=provider.down)


@pytest.mark.parametrize("mode", [{}, {"mode": "queued"}])
def test_a_refusal_after_the_effect_must_not_be_stored(mode: dict[str, str]) -> None:
    """A handler that answers 402 after a timeout of a charge that was made is found."""
    provider = Provider()
    handler = _handler(provider, lambda: DECLINED, **mode)
    failing = provider.losing_answers

    with pytest.raises(AssertionError, match="the provider may have done it"):
        assert_idempotent(handler, order_event(), effects=provider.done, failing=failing)


@pytest.mark.parametrize("mode", [{}, {"mode": "queued"}])
@pytest.mark.parametrize("told", [DECLINED, {"statusCode": 202, "body": "later"}])
def test_a_refusal_without_effect_is_final(mode: dict[str, str], told: Answer) -> None:
    """A declined charge or a promise for later is stored, directly and by a worker."""
    provider = Provider()
    handler = _handler(provider, lambda: told, **mode)

    played = assert_idempotent(handler, order_event(), effects=provider.done, failing=provider.down)
    assert "the provider fails" in played


@pytest.mark.parametrize("failure", ["paid", "declined"])
def test_a_function_may_return_a_failure_but_not_a_false_success(failure: str) -> None:
    """The result of success without its effect is found; another result is the function's."""
    provider = Provider()

    @idempotent_function(
        operation="pay", key=lambda order: order["id"], tenant=single_tenant(), effects="recorded"
    )
    def pay(order: dict[str, str]) -> str:
        try:
            provider.charge(order["id"])
        except ConnectionError:
            return failure
        return "paid"

    def check() -> None:
        assert_idempotent(
            pay,
            {"id": "order-1"},
            effects=lambda: len(provider.done),
            reset=provider.reset,
            failing=provider.down,
        )

    if failure == "declined":
        check()
    else:
        with pytest.raises(AssertionError, match="answers success"):
            check()


def test_a_tenant_that_is_refused_is_not_one_that_shares_a_key() -> None:
    """If the made-up tenant is unknown to the handler, the test is asked for another one."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def inner(_event: Event, _context: object, op: Operation) -> Answer:
        return created(charge=charged(op, provider))

    def known_tenants(event: Event, context: object) -> Answer:
        claims = event["requestContext"]["authorizer"]["jwt"]["claims"]
        if claims["tenant_id"] != "acme":
            return {"statusCode": 403, "body": "unknown tenant"}
        answer: Answer = inner(event, context)
        return answer

    with pytest.raises(AssertionError, match="(?s)cannot be checked.*give other_tenant="):
        assert_idempotent(known_tenants, order_event(), effects=provider.done)
