"""`assert_idempotent` as other tenants, with other bodies, and against handlers with threads."""

from __future__ import annotations

import json
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Operation, idempotent, idempotent_function, jwt_claim, single_tenant
from oncekey.testing import MemoryStore, api_event, assert_idempotent
from oncekey.testing.checking.lock_step import LockStep
from oncekey.testing.checking.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

Event = dict[str, Any]
OPERATION = "POST /orders"
BODY = {"amount": 1200, "sent_at": "2026-01-01T00:00:00Z", "items": [{"id": "a", "note": "x"}]}


def order_of(claims: dict[str, str]) -> Event:
    """A request of a caller with these claims."""
    return api_event(OPERATION, key="key-of-one-order", body=BODY, claims=claims)


def answering(**options: Any) -> Callable[[Event, object], Any]:
    """A handler with these options, which answers every order."""

    @idempotent(operation=OPERATION, effects="recorded", **options)
    def handler(_event: Event, _context: object, op: Operation) -> Event:
        return {"statusCode": 201, "body": json.dumps({"order_id": op.operation_id})}

    return handler


def derived(context: Any) -> str:
    """A tenant that is not in the claims as it is recorded."""
    return f"T-{context['authorizer']['jwt']['claims']['tenant_id']}"


@pytest.mark.parametrize("claims", [{"tenant_id": "acme"}, {"tenant_id": "acme", "sub": "u-1"}])
def test_a_derived_tenant_is_played(claims: dict[str, str]) -> None:
    """The play is not left out because the tenant's name is made of a claim."""
    assert "another tenant" in assert_idempotent(answering(tenant=derived), order_of(claims))


@pytest.mark.parametrize(
    ("tenant", "claims"),
    [
        (lambda _: "shop", {"tenant_id": "acme"}),
        (lambda _: "shop", {"sub": "u-1"}),
        (jwt_claim("iss"), {"tenant_id": "acme", "iss": "https://login.example.com/"}),
    ],
    ids=["constant", "constant without a tenant's claim", "the issuer"],
)
def test_a_tenant_that_callers_share_is_found(tenant: Any, claims: dict[str, str]) -> None:
    """Two tenants must not share a key because the source names something that both have."""
    with pytest.raises(AssertionError, match="two tenants share a key"):
        assert_idempotent(answering(tenant=tenant), order_of(claims))


def test_it_is_said_if_no_other_tenant_could_be_played() -> None:
    """A warning names what was left out, unless the service has declared one tenant."""

    @idempotent_function(operation="pay", key=lambda order: order["id"], tenant=lambda _: "shop")
    def pay(_order: Event) -> str:
        return "paid"

    with pytest.warns(UserWarning, match="left out 'another tenant'"):
        played = assert_idempotent(pay, {"id": "order-1"}, reset=lambda: None)
    assert "another tenant" not in played
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_idempotent(answering(tenant=single_tenant()), order_of({"sub": "u-1"}))


def test_each_value_that_the_fingerprint_leaves_out_must_be_named() -> None:
    """One refused change is not enough: each value is refused, or left out on purpose."""

    def selected(request: Any) -> Any:
        return json.loads(request.body)["amount"]

    handler = answering(tenant=jwt_claim("tenant_id"), fingerprint=selected)
    check = partial(assert_idempotent, handler, order_of({"tenant_id": "acme"}))

    with pytest.raises(AssertionError, match=r"another value of 'sent_at', 'items\.0\.id'"):
        check()
    with pytest.raises(AssertionError, match=r"say ignored=\['items\.0\.id'\]"):
        check(ignored=["sent_at", "items.0.note"])
    assert "another body" in check(ignored=["sent_at", "items"])
    with pytest.raises(TypeError, match=r"ignored is a list of paths: write \['sent_at'\]"):
        check(ignored="sent_at")


def test_each_value_of_a_large_body_is_changed() -> None:
    """No value is left out because the body has many, or because it is an empty list or object.

    Red when a fingerprint that ignores the last amount of an order passes.
    """
    lines = [{"sku": f"sku-{number}", "amount": number} for number in range(20)]
    event = api_event(
        "POST /orders",
        key="key-of-one-order",
        body={"lines": lines, "options": [], "address": {}},
        claims={"tenant_id": "acme"},
    )

    def selected(request: Any) -> Any:
        body = json.loads(request.body)
        return [*body["lines"][:-1], body["lines"][-1]["sku"]]

    handler = answering(tenant=jwt_claim("tenant_id"), fingerprint=selected)
    with pytest.raises(AssertionError, match=r"value of 'lines\.19\.amount', 'options', 'address'"):
        assert_idempotent(handler, event)


@pytest.mark.parametrize("number", [1e17, -1e300, 2**53, 0.1])
def test_a_number_is_changed_however_large_it_is(number: float) -> None:
    """A correct handler passes, though one more is the same number as a double.

    Red when the play sends the same body again, and calls its replay a mistake.
    """
    claims = {"tenant_id": "acme"}
    event = api_event(OPERATION, key="key-of-one-order", body={"n": number}, claims=claims)

    assert "another body" in assert_idempotent(answering(tenant=jwt_claim("tenant_id")), event)


def test_a_drawn_key_is_as_long_as_the_given_one() -> None:
    """A handler that demands long keys is checked, if the event's key is long enough."""
    handler = answering(tenant=jwt_claim("tenant_id"), min_key_length=64)
    claims = {"tenant_id": "acme"}
    event = api_event(OPERATION, key="k" * 64, body=BODY, claims=claims)

    assert "another key" in assert_idempotent(handler, event)


POOL = ThreadPoolExecutor(1)


def test_threads_belong_to_the_process_that_uses_them() -> None:
    """A pool of the module is one of each process, so that the plays know who did what."""

    @idempotent_function(operation="pay", key=lambda each: each, tenant=lambda _: "shop")
    def pay(each: str) -> str:
        return each

    def batch(event: list[str]) -> list[str]:
        return [*POOL.map(pay, event)]

    POOL.submit(len, "").result()
    stage = Stage(batch, MemoryStore(), [])
    # Red when a process waits for the pool's only thread, which waits for another one's turn.
    events = [["a", "b"], ["c", "d"], ["e", "f"]]
    sent = stage.send_at_once(events, LockStep(0, stuck_s=60))

    assert [each.value for each in sent] == events
    assert [[record.key for record in each.process.reserved] for each in sent] == events
