"""Ten typical mistakes: for each, a handler that makes it, and the same handler without it."""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey import Final, Operation, idempotent, idempotent_function, jwt_claim, single_tenant
from oncekey.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Event = dict[str, Any]
Answer = dict[str, Any]
random_id = SystemClock().new_operation_id
TENANT = jwt_claim("tenant_id")
OPERATION = "POST /orders"


def order_event(**headers: str) -> Event:
    """A request for an order, as an HTTP API sends it."""
    return {
        "version": "2.0",
        "rawPath": "/orders",
        "headers": {
            "idempotency-key": "8e03978e-40d5-43e8-bc93-6894a57f9324",
            "user-agent": "test",
            **headers,
        },
        "requestContext": {
            "http": {"method": "POST"},
            "authorizer": {"jwt": {"claims": {"tenant_id": "acme", "sub": "u1"}}},
        },
        "body": json.dumps({"amount": 5, "customer": "c1", "ids": ["i1"]}),
    }


class Provider:
    """A provider that does each keyed call once. `done` is what it has done."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._by_key: dict[str, str] = {}
        self.is_down = False
        self.loses_answers = False
        self.honours_keys = True

    def charge(self, key: str | None = None) -> str:
        """Charge, and return the charge's id."""
        if self.is_down:
            raise ConnectionError("the provider does not answer")
        if self.honours_keys and key in self._by_key:
            return self._by_key[key]
        self.done.append(f"ch_{len(self.done)}")
        if key is not None:
            self._by_key[key] = self.done[-1]
        return self.done[-1]

    def charge_of(self, key: str) -> str | None:
        """The charge that was made with this key."""
        return self._by_key.get(key)

    def reset(self) -> None:
        """Forget everything."""
        self.done.clear()
        self._by_key.clear()

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """The provider does not answer."""
        self.is_down = True
        try:
            yield
        finally:
            self.is_down = False

    @contextlib.contextmanager
    def losing_answers(self) -> Iterator[None]:
        """The provider charges, and its answer is lost."""
        self.loses_answers = True
        try:
            yield
        finally:
            self.loses_answers = False


@dataclass
class Sample:
    """A handler, what it is sent, and the other arguments of `assert_idempotent`."""

    handler: Callable[..., Any]
    event: Any = field(default_factory=order_event)
    options: dict[str, Any] = field(default_factory=dict)


def created(**members: Any) -> Answer:
    """An answer that reports success."""
    return {"statusCode": 201, "body": json.dumps(members)}


def charged(op: Operation, provider: Provider, name: str = "charge") -> str:
    """A charge as it should be made."""
    return op.step(name, lambda: provider.charge(op.downstream_key(name)), idempotent=True)


def effect_before_the_reserve(*, mistaken: bool) -> Sample:
    """A wrapper charges before it calls the decorated function."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def order(_event: Event, _context: object, op: Operation) -> Answer:
        return created(charge="" if mistaken else charged(op, provider))

    def handler(event: Event, context: object) -> Answer:
        if mistaken:
            provider.charge()
        return order(event, context)

    return Sample(handler, options={"effects": provider.done})


def non_final_error_stored(*, mistaken: bool) -> Sample:
    """An outage of the provider is answered with a final 503."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def order(_event: Event, _context: object, op: Operation) -> Answer:
        try:
            return created(charge=charged(op, provider))
        except ConnectionError:
            if mistaken:
                raise Final(503, "try again later") from None
            return {"statusCode": 503, "body": "try again later"}

    return Sample(order, options={"effects": provider.done, "failing": provider.down})


def effect_without_a_step(*, mistaken: bool) -> Sample:
    """A recorded handler charges directly."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def order(_event: Event, _context: object, op: Operation) -> Answer:
        return created(charge=provider.charge() if mistaken else charged(op, provider))

    return Sample(order, options={"effects": provider.done})


def answer_from_the_clock(*, mistaken: bool) -> Sample:
    """The answer says when it was made."""
    provider = Provider()

    def now() -> str:
        return dt.datetime.now(dt.UTC).isoformat()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def order(_event: Event, _context: object, op: Operation) -> Answer:
        charge = charged(op, provider)
        made_at = now() if mistaken else op.step("time", now, idempotent=True)
        return created(charge=charge, made_at=made_at)

    return Sample(order, options={"effects": provider.done})


def row_with_the_second(*, mistaken: bool) -> Sample:
    """A row has the time in whole seconds."""

    def now() -> int:
        return SystemClock().now_ms() // 1000

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def order(_event: Event, _context: object, op: Operation) -> Answer:
        at = now() if mistaken else op.step("time", now, idempotent=True)
        op.transaction.put("orders", {"id": op.operation_id, "at": at})
        return created()

    return Sample(order)


def id_from_chance(*, mistaken: bool) -> Sample:
    """The row's id is random. The answer does not name it."""

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def order(_event: Event, _context: object, op: Operation) -> Answer:
        op.transaction.put("orders", {"id": random_id() if mistaken else op.operation_id})
        return created()

    return Sample(order)


def effect_outside_the_transaction(*, mistaken: bool) -> Sample:
    """A row is written directly. Its id is derived, so that a repeat writes the same row."""
    rows: dict[str, Any] = {}

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def order(event: Event, _context: object, op: Operation) -> Answer:
        if mistaken:
            rows[op.operation_id] = event["body"]
        else:
            op.transaction.put("orders", {"id": op.operation_id, "body": event["body"]})
        return created(id=op.operation_id)

    return Sample(order, options={"writes": rows})


def two_effects_in_a_step(*, mistaken: bool) -> Sample:
    """One step charges twice: the price and the shipping."""
    provider = Provider()

    def both() -> list[str]:
        return [provider.charge(), provider.charge()]

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def order(_event: Event, _context: object, op: Operation) -> Answer:
        if mistaken:
            return created(charges=op.step("charges", both))
        return created(charges=[charged(op, provider, name) for name in ("price", "shipping")])

    return Sample(order, options={"effects": provider.done})


def key_from_the_body(*, mistaken: bool) -> Sample:
    """A wrapper replaces the client's key by a hash of the body."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def order(_event: Event, _context: object, op: Operation) -> Answer:
        return created(charge=charged(op, provider))

    def handler(event: Event, context: object) -> Answer:
        key = str(uuid.uuid5(uuid.NAMESPACE_OID, event["body"]))
        headers = {**event["headers"], "idempotency-key": key}
        return order({**event, "headers": headers} if mistaken else event, context)

    return Sample(handler, options={"effects": provider.done})


def _with_tenant(event: Event, tenant: str) -> Event:
    changed = copy.deepcopy(event)
    changed["requestContext"]["authorizer"]["jwt"]["claims"]["tenant_id"] = tenant
    return changed


def tenant_from_the_body(*, mistaken: bool) -> Sample:
    """A wrapper takes the customer of the body as the tenant."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def order(_event: Event, _context: object, op: Operation) -> Answer:
        return created(charge=charged(op, provider))

    def handler(event: Event, context: object) -> Answer:
        customer = json.loads(event["body"])["customer"]
        return order(_with_tenant(event, customer) if mistaken else event, context)

    return Sample(handler, options={"effects": provider.done})


def tenant_from_a_header(*, mistaken: bool) -> Sample:
    """A wrapper takes the header `x-tenant` as the tenant."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def order(_event: Event, _context: object, op: Operation) -> Answer:
        return created(charge=charged(op, provider))

    def handler(event: Event, context: object) -> Answer:
        tenant = event["headers"]["x-tenant"]
        return order(_with_tenant(event, tenant) if mistaken else event, context)

    event = order_event(**{"x-tenant": "acme"})
    return Sample(handler, event, options={"effects": provider.done})


def event_changed(*, mistaken: bool) -> Sample:
    """The handler replaces the body by what it has parsed."""
    provider = Provider()

    @idempotent(operation=OPERATION, tenant=TENANT, effects="recorded")
    def order(event: Event, _context: object, op: Operation) -> Answer:
        request = event if mistaken else dict(event)
        request["body"] = json.loads(request["body"])
        return created(charge=charged(op, provider), amount=request["body"]["amount"])

    return Sample(order, options={"effects": provider.done})


class _Receipt:
    def __init__(self, charge: str) -> None:
        self.charge = charge


def result_not_replayable(*, mistaken: bool) -> Sample:
    """A function returns an object that no record can hold."""
    provider = Provider()

    @idempotent_function(
        operation="charge-order", key=lambda order: order["id"], tenant=single_tenant()
    )
    def charge_order(order: dict[str, str]) -> Any:
        charge = provider.charge(order["id"])
        return _Receipt(charge) if mistaken else {"charge": charge}

    # The provider knows an order by its number, so each play begins without it.
    options = {"effects": lambda: len(provider.done), "reset": provider.reset}
    return Sample(charge_order, {"id": "order-1"}, options)


@dataclass(frozen=True)
class Mistaken:
    """A mistake, and the words that must name it."""

    make: Callable[..., Sample]
    words: str


MISTAKES = [
    Mistaken(effect_before_the_reserve, "an effect before the reserve"),
    Mistaken(non_final_error_stored, "a non-final error was stored"),
    Mistaken(effect_without_a_step, "an outside effect without a step"),
    Mistaken(answer_from_the_clock, "takes a value from the clock or from chance"),
    Mistaken(row_with_the_second, "takes a value from the clock or from chance"),
    Mistaken(id_from_chance, "takes a value from the clock or from chance"),
    Mistaken(effect_outside_the_transaction, "a business write outside the transaction"),
    Mistaken(two_effects_in_a_step, "two effects in one step"),
    Mistaken(key_from_the_body, "the key is taken from the body"),
    Mistaken(tenant_from_the_body, "the tenant is taken from the body"),
    Mistaken(tenant_from_a_header, "the tenant is taken from the header 'x-tenant'"),
    Mistaken(event_changed, "the handler changes the event"),
    Mistaken(result_not_replayable, "a result that cannot be replayed"),
]
