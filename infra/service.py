"""The reference service: what the CDK app deploys and what the local runtime starts.

Imported by the local runtime too, so it names nothing of the CDK.
"""

from __future__ import annotations

from infra.service_resources import (
    ESCALATED,
    IDEMPOTENCY,
    OUTBOX,
    PAYMENTS,
    REFUNDS,
    REPORTS,
    REQUESTED,
    RESPONSES,
)
from oncekey_local.description import (
    BucketName,
    EnvironmentValue,
    Function,
    QueueTrigger,
    QueueUrl,
    Route,
    ScheduleTrigger,
    Service,
    Setting,
    StreamTrigger,
    TableName,
)

_LOGGING = {"POWERTOOLS_SERVICE_NAME": "payments", "POWERTOOLS_LOG_LEVEL": "INFO"}
_RECORDS: dict[str, EnvironmentValue] = {
    "ONCEKEY_TABLE": TableName("idempotency"),
    "ONCEKEY_RESPONSE_BUCKET": BucketName("responses"),
}
_OUTBOX = {"ONCEKEY_OUTBOX_TABLE": TableName("outbox")}
_QUEUE = {"ONCEKEY_QUEUE_URL": QueueUrl("payments")}
_PROVIDER = {
    "PROVIDER_URL": Setting.PROVIDER_URL,
    "PROVIDER_API_KEY": Setting.PROVIDER_API_KEY,
}

PAYMENTS_FUNCTION = Function(
    name="payments",
    handler="functions.payments.handler.handler",
    # Two calls of DynamoDB, and what it takes to be patient with them; it calls nobody else.
    timeout_s=20,
    routes=(
        Route(
            method="POST",
            path="/payments",
            example_body='{"customer_id": "cus_1", "amount": 1200, "currency": "eur"}',
        ),
        Route(method="GET", path="/payments/{payment_id}"),
    ),
    environment={
        **_RECORDS,
        **_OUTBOX,
        "PAYMENTS_TABLE": TableName("payments"),
        **_LOGGING,
    },
    reads=("payments",),
    writes=("payments", "outbox"),
    reserves_in="idempotency",
    keeps_answers_in="responses",
)

REFUNDS_FUNCTION = Function(
    name="refunds",
    handler="functions.refunds.handler.handler",
    # A refund takes the provider about 2 s, and at worst two tries of 8 s each. The API gives up at
    # 29 s, and would leave the run without a reader.
    timeout_s=22,
    routes=(
        Route(
            method="POST",
            path="/refunds",
            example_body='{"payment_id": "pay_00000000000000000000000000000000", "amount": 300}',
        ),
    ),
    environment={
        **_RECORDS,
        "PAYMENTS_TABLE": TableName("payments"),
        "REFUNDS_TABLE": TableName("refunds"),
        **_PROVIDER,
        **_LOGGING,
    },
    reads=("payments",),
    writes=("refunds",),
    reserves_in="idempotency",
    keeps_answers_in="responses",
)

WEBHOOKS_FUNCTION = Function(
    name="webhooks",
    handler="functions.webhooks.handler.handler",
    # One call of DynamoDB; the layer answers within 4 s in any case.
    timeout_s=10,
    memory_mb=256,
    # The provider has no token of ours: its signature says who calls.
    routes=(Route(method="POST", path="/webhooks/stripe", authorized=False),),
    environment={
        "ONCEKEY_TABLE": TableName("idempotency"),
        **_OUTBOX,
        "ONCEKEY_WEBHOOK_SECRET": Setting.WEBHOOK_SECRET,
        **_LOGGING,
    },
    writes=("outbox",),
    reserves_in="idempotency",
)

REPORTS_FUNCTION = Function(
    name="reports",
    handler="functions.reports.handler.handler",
    # It accepts and reads; the worker makes the report.
    timeout_s=20,
    routes=(
        Route(
            method="POST",
            path="/reports",
            example_body='{"payment_ids": ["pay_00000000000000000000000000000000"]}',
        ),
        Route(method="GET", path="/reports/{report_id}"),
    ),
    environment={
        **_RECORDS,
        **_OUTBOX,
        "REPORTS_TABLE": TableName("reports"),
        **_LOGGING,
    },
    reads=("reports",),
    writes=("outbox",),
    reserves_in="idempotency",
    keeps_answers_in="responses",
)

OPERATIONS_FUNCTION = Function(
    name="operations",
    handler="functions.operations.handler.handler",
    # Two reads of DynamoDB, or three.
    timeout_s=10,
    memory_mb=256,
    routes=(Route(method="GET", path="/operations/{operation_id}"),),
    environment={
        **_RECORDS,
        **_LOGGING,
    },
    reads=("idempotency",),
    reads_answers_in="responses",
)

RELAY_FUNCTION = Function(
    name="outbox-relay",
    handler="functions.outbox_relay.handler.handler",
    # Five calls of the queue and two of the table. The relay fails only where one of them is down,
    # so it goes on for as long as that may take: an attempt that is given up sends nothing.
    timeout_s=60,
    memory_mb=256,
    streams=(
        StreamTrigger(table="outbox", batch_size=50, max_attempts=100, on_failure="escalated"),
    ),
    environment={
        **_OUTBOX,
        **_QUEUE,
        **_LOGGING,
    },
    relays_from="outbox",
    sends_to=("payments",),
)

WORKER_FUNCTION = Function(
    name="outbox-worker",
    handler="functions.outbox_worker.handler.handler",
    # Five messages of 12 s: a call of the provider has 8 s at the worst, DynamoDB the rest. A
    # report reads a hundred rows in a second or two. What is cut off comes again, and goes on.
    timeout_s=60,
    queues=(QueueTrigger(queue="payments", batch_size=5),),
    environment={
        **_RECORDS,
        **_QUEUE,
        "PAYMENTS_TABLE": TableName("payments"),
        "REFUNDS_TABLE": TableName("refunds"),
        "REPORTS_TABLE": TableName("reports"),
        **_PROVIDER,
        **_LOGGING,
    },
    reads=("payments",),
    writes=("refunds", "reports"),
    updates=("payments",),
    reserves_in="idempotency",
    keeps_answers_in="responses",
)

LEDGER_FUNCTION = Function(
    name="ledger",
    handler="functions.ledger.handler.handler",
    # As long as AWS's guide lets a function run. The provider gives a hundred charges a call, so
    # that a quarter of an hour is enough for some hundred thousand a day.
    timeout_s=900,
    # A run reads what no other writes, and what it does twice is the same. Its window is that of
    # the event, so that of a later attempt is the same, too.
    schedule=ScheduleTrigger(daily_at_hour_utc=4, max_attempts=3, on_failure="escalated"),
    environment={
        # What is younger may still be under way, and is not compared.
        "LEDGER_SETTLING_S": "3600",
        "ONCEKEY_RESPONSE_BUCKET": BucketName("responses"),
        "PAYMENTS_TABLE": TableName("payments"),
        "REFUNDS_TABLE": TableName("refunds"),
        **_PROVIDER,
        **_LOGGING,
    },
    scans=("payments", "refunds"),
    writes_reports_in="responses",
)

SERVICE = Service(
    name="payments",
    functions=(
        PAYMENTS_FUNCTION,
        REFUNDS_FUNCTION,
        WEBHOOKS_FUNCTION,
        REPORTS_FUNCTION,
        OPERATIONS_FUNCTION,
        RELAY_FUNCTION,
        WORKER_FUNCTION,
        LEDGER_FUNCTION,
    ),
    tables=(IDEMPOTENCY, PAYMENTS, REFUNDS, REPORTS, OUTBOX),
    buckets=(RESPONSES,),
    queues=(REQUESTED, ESCALATED),
)
