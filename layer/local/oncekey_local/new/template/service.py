"""The description of the service. `oncekey dev` runs it, and `app.py` deploys it."""

from __future__ import annotations

from oncekey_local.description import (
    Attribute,
    Function,
    Queue,
    QueueTrigger,
    QueueUrl,
    Route,
    ScheduleTrigger,
    Service,
    StreamTrigger,
    Table,
    TableName,
    outbox_table,
    records_table,
)

RECORDS = {"ONCEKEY_TABLE": TableName("records")}
OUTBOX = {"ONCEKEY_OUTBOX_TABLE": TableName("outbox")}
ORDERS = {"ORDERS_TABLE": TableName("orders")}
WORK = {"ONCEKEY_QUEUE_URL": QueueUrl("work")}

SERVICE = Service(
    name="my-service",
    functions=(
        Function(
            name="place",
            handler="orders.place.handler",
            timeout_s=20,
            routes=(
                Route(method="POST", path="/orders", example_body='{"item": "tea", "quantity": 2}'),
            ),
            environment={**RECORDS, **OUTBOX, **ORDERS},
            reserves_in="records",
            writes=("orders", "outbox"),
        ),
        Function(
            name="show",
            handler="orders.show.handler",
            timeout_s=10,
            routes=(Route(method="GET", path="/orders/{order_id}"),),
            environment=ORDERS,
            reads=("orders",),
        ),
        Function(
            name="relay",
            handler="orders.relay.handler",
            timeout_s=60,
            # It fails only if DynamoDB or SQS is down, so it tries for a long time.
            streams=(
                StreamTrigger(
                    table="outbox", batch_size=50, max_attempts=100, on_failure="escalated"
                ),
            ),
            environment={**OUTBOX, **WORK},
            relays_from="outbox",
            sends_to=("work",),
        ),
        Function(
            name="worker",
            handler="orders.worker.handler",
            timeout_s=60,
            queues=(QueueTrigger(queue="work", batch_size=5),),
            environment={**RECORDS, **ORDERS, **WORK},
            reserves_in="records",
            updates=("orders",),
        ),
        Function(
            name="reconciler",
            handler="orders.reconciler.handler",
            timeout_s=60,
            schedule=ScheduleTrigger(every_minutes=1),
            environment={
                **RECORDS,
                **OUTBOX,
                **WORK,
                "ONCEKEY_ESCALATION_QUEUE_URL": QueueUrl("escalated"),
            },
            reconciles="records",
            # It sends what the relay left behind.
            relays_from="outbox",
            scans=("outbox",),
            sends_to=("work", "escalated"),
        ),
    ),
    tables=(
        records_table("records"),
        outbox_table("outbox"),
        Table(name="orders", partition_key=Attribute(name="pk")),
    ),
    queues=(
        # Each delivery counts as a receive, also one that was cut off: allow ten or more.
        Queue(name="work", max_receives=12),
        # For people: what nobody else can settle.
        Queue(name="escalated"),
    ),
)
