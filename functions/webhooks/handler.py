"""The Lambda: its route, which asks for no token. The provider's signature says who calls.

It takes an event on, and nothing else; `functions.outbox_worker` does what follows from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.shared.http import route_unknown
from functions.webhooks import logic
from oncekey import single_tenant
from oncekey.webhooks import StripeSignature, webhook

if TYPE_CHECKING:
    from functions.shared.http import Answer, Event
    from oncekey.webhooks import Delivery, Publish


def handler(event: Event, context: object) -> Answer:
    """Answer a request of the HTTP API."""
    if event.get("routeKey") == "POST /webhooks/stripe":
        return receive_event(event, context)
    return route_unknown()


# All tenants' payments are made with one key of the provider's: whose an event is, the worker
# reads from what we gave the provider to keep.
@webhook(operation="POST /webhooks/stripe", scheme=StripeSignature(), tenant=single_tenant())
def receive_event(delivery: Delivery) -> Publish | None:
    """Take an event on, once for each id, if it tells how a payment or refund of ours ended."""
    return logic.message_about(delivery.json())
