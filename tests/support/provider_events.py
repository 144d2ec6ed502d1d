"""Events of the provider, as the worker is told of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from functions.shared.models import ProviderEvent
from tests.support.events import load, with_route, with_tenant
from tests.support.reference_tables import PAYMENT_ID, PENDING

if TYPE_CHECKING:
    from tests.support.reference_tables import Tables

INTENT = {
    "type": "payment_intent.succeeded",
    "object_id": "pi_1",
    "status": "succeeded",
    "amount": 1200,
    "created": 1_796_083_198,
    "metadata": {
        "tenant": "tenant-1",
        "payment_id": PAYMENT_ID,
        "operation_id": PENDING["operation_id"],
    },
}
SUCCEEDED = ProviderEvent.model_validate(INTENT)
FAILED = SUCCEEDED.model_copy(
    update={
        "type": "payment_intent.payment_failed",
        "status": "requires_payment_method",
        "reason": "card_declined",
    }
)
PROCESSING = SUCCEEDED.model_copy(update={"status": "processing"})


def payment(tables: Tables) -> dict[str, Any]:
    """The only row of a payment."""
    (row,) = tables.rows("payments")
    return row


REFUND = with_tenant(with_route(load("apigw_http_v2_post"), "POST", "/refunds"), "tenant-1")
REFUND["body"] = json.dumps({"payment_id": PAYMENT_ID, "amount": 300})
