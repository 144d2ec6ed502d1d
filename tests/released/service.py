"""The service whose records, messages and answers are kept as samples of each release.

Its handlers never change: a sample is only worth something if the same code meets it later. A new
kind of record gets a new handler and a new story.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from oncekey import STRIPE, DynamoDBStore, idempotent, idempotent_function, jwt_claim
from oncekey.outbox import delivered
from oncekey.queued import Jobs
from tests.support.dynamodb import TABLE
from tests.support.events import load, with_body, with_key, with_route, with_tenant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey import Operation
    from oncekey.testing import ManualClock

    Event = dict[str, Any]

OUTBOX = "outbox-under-test"
KEY = "8e03978e-40d5-43e8-bc93-6894a57f9324"
# Text that hardly shrinks when it is compressed, and is the same each time.
NOISE = "".join(
    f"{number * 2_654_435_761 % 2**32:08x}{number * 40_503 % 2**32:08x}" for number in range(400)
)
_REMAINING_MS = 10_000


@dataclass(frozen=True)
class Receipt:
    """A function's result, of kinds that JSON does not have."""

    number: UUID
    day: date
    at: datetime
    amount: Decimal
    seal: bytes
    lines: tuple[str, ...]


RECEIPT = Receipt(
    number=UUID("00000000-0000-4000-8000-00000000beef"),
    day=date(2026, 11, 29),
    at=datetime(2026, 11, 29, 4, 35, tzinfo=UTC),
    amount=Decimal("12.30"),
    seal=b"\x00\xff",
    lines=("one", "two"),
)


class Service:
    """Its handlers, on the tables behind `client`. `effects` are what the handlers did outside."""

    def __init__(self, client: DynamoDBClient, clock: ManualClock) -> None:
        self.effects: list[str] = []
        self.client = client
        self.clock = clock
        self._at_effect: Callable[[str], object] = lambda _name: None
        store = DynamoDBStore(TABLE, client=client, outbox=OUTBOX, call_timeout_ms=1)
        common: Any = {"store": store, "clock": clock, "tenant": jwt_claim("tenant_id")}

        @idempotent(operation="POST /orders", **common)
        def order(event: Event, context: object) -> Event:
            self._effect("order")
            asked = json.loads(event["body"])
            body = NOISE[: asked.get("noise", 0)] + "#" * asked.get("size", 10)
            return {
                "statusCode": asked.get("status", 201),
                "headers": {"location": "/orders/1", "x-own": "yes"},
                "body": body,
            }

        @idempotent(operation="POST /charges", effects="recorded", **common)
        def charge(event: Event, context: object, op: Operation) -> Event:
            op.step("reserve", lambda: self._effect("reserve"), idempotent=True)
            op.step("charge", lambda: self._effect("charge"))
            op.outbox.publish("charged", {"operation_id": op.operation_id})
            return {"statusCode": 201, "body": json.dumps({"attempt": op.attempt})}

        @idempotent(operation="POST /refunds", effects="repeatable", preset=STRIPE, **common)
        def refund(event: Event, context: object) -> Event:
            self._effect("refund")
            return {"statusCode": 200, "body": "refunded"}

        @idempotent(operation="POST /reports", mode="queued", effects="repeatable", **common)
        def report(event: Event, context: object) -> Event:
            self._effect("report")
            return {"statusCode": 200, "body": "report"}

        @idempotent_function(operation="receipt", key=lambda call: call["id"], **_function(common))
        def receipt(call: dict[str, Any]) -> Receipt:
            self._effect("receipt")
            return RECEIPT

        self._handlers: dict[str, Any] = {
            "/orders": order,
            "/charges": charge,
            "/refunds": refund,
            "/reports": report,
        }
        self._receipt = receipt
        self._jobs = Jobs(report)

    def send(self, path: str, **body: Any) -> Event:
        """The answer to a request with the one key."""
        event = with_route(load("apigw_http_v2_post"), "POST", path)
        event = with_tenant(with_body(with_key(event, KEY), json.dumps(body)), "acme")
        answer: Event = self._handlers[path](event, self._context())
        return answer

    def call(self) -> str:
        """What the function returns; `repr` tells its types."""
        return repr(self._receipt({"id": KEY}))

    def work(self, body: str) -> None:
        """Let the worker take a message of the queue."""
        self._jobs.perform(delivered(body), self._context())

    @contextlib.contextmanager
    def at(self, effect: str, happens: Callable[[], object]) -> Iterator[None]:
        """Within the block, this happens in the effect, before it is made."""

        def look(name: str) -> None:
            if name == effect:
                happens()

        self._at_effect = look
        try:
            yield
        finally:
            self._at_effect = lambda _name: None

    def _effect(self, name: str) -> str:
        self._at_effect(name)
        self.effects.append(name)
        return f"{name} done"

    def _context(self) -> SimpleNamespace:
        until_ms = self.clock.now_ms() + _REMAINING_MS
        return SimpleNamespace(
            get_remaining_time_in_millis=lambda: until_ms - self.clock.now_ms(),
            aws_request_id="00000000-0000-4000-8000-0000000000aa",
        )


def _function(common: dict[str, Any]) -> dict[str, Any]:
    return {**common, "tenant": lambda _call: "acme"}
