"""The worker: handles each message once, however often the queue delivers it."""

from __future__ import annotations

import os
from datetime import timedelta

from oncekey import current_operation, idempotent_function
from oncekey.outbox import Delivered, Topics, Worker
from orders.shipping import book_parcel


@idempotent_function(
    operation="order.placed",
    key=lambda message, context: message.id,
    tenant=lambda message, context: message.tenant,
    effects="recorded",
    retention=timedelta(days=30),  # longer than a message lives, as a dead letter too
)
def ship(message: Delivered, context: object) -> str:
    """Book a parcel for the order, and note it in the order's row."""
    op = current_operation()
    order = message.payload
    # If the process is killed in the step, the next delivery runs it again, with the same key.
    parcel = op.step(
        "book",
        lambda: book_parcel(order["item"], idempotency_key=op.downstream_key("book")),
        idempotent=True,
    )
    op.transaction.update(
        os.environ["ORDERS_TABLE"],
        {"pk": order["order_id"]},
        "SET #status = :shipped, parcel = :parcel",
        names={"#status": "status"},
        values={":shipped": "shipped", ":parcel": parcel},
    )
    return parcel


# The queue has this one worker: add other topics here.
topics = Topics({"order.placed": ship})
handler = Worker(topics)
