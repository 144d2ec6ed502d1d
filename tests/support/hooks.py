"""A webhook to send signed events to, on a clock and a store of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from oncekey import single_tenant
from oncekey.testing.memory import ManualClock, MemoryStore
from oncekey.webhooks import Publish, webhook
from tests.support.protected import Context
from tests.support.webhooks import NOW_MS, SENDERS, event_with

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.webhooks import Delivery
    from tests.support.protected import Answer

OPERATION = "POST /webhooks"
TOPIC = "event.received"


def republished(delivery: Delivery) -> Publish:
    """A function that publishes what the event says of itself."""
    return Publish(TOPIC, delivery.json())


class Hook:
    """A webhook of `sender`, and what it is sent. `seen` are the deliveries that its function got.

    `then` is what the function does; without it, it publishes the whole event.
    """

    def __init__(
        self, sender: str = "stripe", *, store: Any = None, timeout_ms: int = 10_000, **options: Any
    ) -> None:
        self.sender = SENDERS[sender]
        self.clock = ManualClock(NOW_MS)
        self.store: Any = store or MemoryStore()
        self.seen: list[Delivery] = []
        self.then: Callable[[Delivery], Any] = republished
        self._timeout_ms = timeout_ms
        options = {
            "operation": OPERATION,
            "scheme": self.sender.scheme,
            "tenant": single_tenant(),
            "secrets": self.sender.secret,
            **options,
        }

        def function(delivery: Delivery) -> Any:
            self.seen.append(delivery)
            return self.then(delivery)

        self.handler = webhook(store=self.store, clock=self.clock, **options)(function)

    def send(
        self,
        identifier: str = "evt_1",
        *,
        body: bytes | None = None,
        shape: str = "apigw_http_v2_post",
        secret: bytes | None = None,
    ) -> Answer:
        """One delivery of the event `identifier`, signed now."""
        content = body if body is not None else event_body(identifier)
        now_s = self.clock.now_ms() // 1000
        headers = self.sender.headers(secret or self.sender.secret, content, identifier, now_s)
        return self.post(event_with(headers, content, shape))

    def post(self, event: dict[str, Any]) -> Answer:
        """One invocation."""
        context = Context(self.clock, self.clock.now_ms() + self._timeout_ms)
        return self.handler(event, context)


def event_body(identifier: str, **members: object) -> bytes:
    """The body of an event, as Stripe has it."""
    event = {"id": identifier, "object": "event", "type": "something.happened", **members}
    return json.dumps(event).encode("utf-8")


def status_of(answer: Answer) -> str:
    """What a 200 says became of the event."""
    assert answer["statusCode"] == 200
    said: str = json.loads(answer["body"])["status"]
    return said
