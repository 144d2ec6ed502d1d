"""The Lambda handler. Its route needs no token, because the provider signs its requests.

It only accepts events; `functions.outbox_worker` handles them.
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


# All tenants' payments are made with one secret key of the provider's. The worker reads an event's
# tenant from the metadata that we stored at the provider.
@webhook(operation="POST /webhooks/stripe", scheme=StripeSignature(), tenant=single_tenant())
def receive_event(delivery: Delivery) -> Publish | None:
    """Accept an event once for each id, if it is about the end of our payment or refund."""
    return logic.message_about(delivery.json())
