"""The reference service: what the CDK app deploys and what the local runtime starts.

The local runtime imports it too, so it must not import the CDK.
"""

from __future__ import annotations

from infra.scheduled_functions import LEDGER_FUNCTION, RECONCILER_FUNCTION
from infra.service_environment import (
    FOR_LOGS,
    FOR_OUTBOX,
    FOR_PROVIDER,
    FOR_QUEUE,
    FOR_RECORDS,
    WEBHOOK_SECRET,
)
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
    Function,
    QueueTrigger,
    Route,
    Service,
    StreamTrigger,
    TableName,
)

PAYMENTS_FUNCTION = Function(
    name="payments",
    handler="functions.payments.handler.handler",
    # Two calls of DynamoDB, with time for their retries. It calls nobody else.
    timeout_s=20,
    routes=(
        Route(
            method="POST",
            path="/payments",
            example_body='{"customer_id": "cus_1", "amount": 1200, "currency": "eur"}',
            answers={202: "functions.payments.models.PaymentAccepted"},
        ),
        Route(
            method="GET",
            path="/payments/{payment_id}",
            answers={200: "functions.payments.models.Payment", 403: None, 404: None},
        ),
    ),
    environment={
        **FOR_RECORDS,
        **FOR_OUTBOX,
        "PAYMENTS_TABLE": TableName("payments"),
        **FOR_LOGS,
    },
    reads=("payments",),
    writes=("payments", "outbox"),
    reserves_in="idempotency",
    keeps_answers_in="responses",
)

REFUNDS_FUNCTION = Function(
    name="refunds",
    handler="functions.refunds.handler.handler",
    # A refund takes the provider about 2 s, and at worst two tries of 8 s each. The API waits for
    # 29 s only, and nobody would get the answer of a longer run.
    timeout_s=22,
    routes=(
        Route(
            method="POST",
            path="/refunds",
            example_body='{"payment_id": "pay_00000000000000000000000000000000", "amount": 300}',
            answers={
                201: "functions.refunds.models.Refund",
                404: None,
                409: None,
                422: None,
            },
        ),
    ),
    environment={
        **FOR_RECORDS,
        "PAYMENTS_TABLE": TableName("payments"),
        "REFUNDS_TABLE": TableName("refunds"),
        **FOR_PROVIDER,
        **FOR_LOGS,
    },
    reads=("payments",),
    writes=("refunds",),
    reserves_in="idempotency",
    keeps_answers_in="responses",
)

WEBHOOKS_FUNCTION = Function(
    name="webhooks",
    handler="functions.webhooks.handler.handler",
    # One call of DynamoDB. The layer always answers within 4 s.
    timeout_s=10,
    memory_mb=256,
    # The provider has no token of ours. Its signature says who calls.
    routes=(
        Route(
            method="POST",
            path="/webhooks/stripe",
            authorized=False,
            answers={200: None, 400: None},
        ),
    ),
    environment={
        "ONCEKEY_TABLE": TableName("idempotency"),
        **FOR_OUTBOX,
        "ONCEKEY_WEBHOOK_SECRET": WEBHOOK_SECRET,
        **FOR_LOGS,
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
            answers={201: "functions.reports.models.Report"},
        ),
        Route(
            method="GET",
            path="/reports/{report_id}",
            answers={200: "functions.reports.models.Report", 403: None, 404: None},
        ),
    ),
    environment={
        **FOR_RECORDS,
        **FOR_OUTBOX,
        "REPORTS_TABLE": TableName("reports"),
        **FOR_LOGS,
    },
    reads=("reports",),
    writes=("outbox",),
    reserves_in="idempotency",
    keeps_answers_in="responses",
)

OPERATIONS_FUNCTION = Function(
    name="operations",
    handler="functions.operations.handler.handler",
    # Two or three reads of DynamoDB.
    timeout_s=10,
    memory_mb=256,
    routes=(Route(method="GET", path="/operations/{operation_id}"),),
    environment={
        **FOR_RECORDS,
        **FOR_LOGS,
    },
    reads=("idempotency",),
    reads_answers_in="responses",
)

RELAY_FUNCTION = Function(
    name="outbox-relay",
    handler="functions.outbox_relay.handler.handler",
    # Five calls of the queue and two of the table. The relay fails only if one of them is down, so
    # it tries for a long time. A relay that gives up sends nothing.
    timeout_s=60,
    memory_mb=256,
    streams=(
        StreamTrigger(table="outbox", batch_size=50, max_attempts=100, on_failure="escalated"),
    ),
    environment={
        **FOR_OUTBOX,
        **FOR_QUEUE,
        **FOR_LOGS,
    },
    relays_from="outbox",
    sends_to=("payments",),
)

WORKER_FUNCTION = Function(
    name="outbox-worker",
    handler="functions.outbox_worker.handler.handler",
    # Five messages of 12 s each: at worst 8 s for the provider, and the rest for DynamoDB. A report
    # reads a hundred rows in a second or two. A message that is cut off comes again and resumes.
    timeout_s=60,
    # The messages of a batch are worked on one after the other, and a call takes about half a
    # second. So ten batches at once make some twenty calls a second, below Stripe's limit of 25 in
    # test mode (https://docs.stripe.com/rate-limits). More messages wait in the queue.
    queues=(QueueTrigger(queue="payments", batch_size=5, max_concurrency=10),),
    environment={
        **FOR_RECORDS,
        **FOR_QUEUE,
        "PAYMENTS_TABLE": TableName("payments"),
        "REFUNDS_TABLE": TableName("refunds"),
        "REPORTS_TABLE": TableName("reports"),
        **FOR_PROVIDER,
        **FOR_LOGS,
    },
    reads=("payments",),
    writes=("refunds", "reports"),
    updates=("payments",),
    reserves_in="idempotency",
    keeps_answers_in="responses",
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
        RECONCILER_FUNCTION,
        LEDGER_FUNCTION,
    ),
    tables=(IDEMPOTENCY, PAYMENTS, REFUNDS, REPORTS, OUTBOX),
    buckets=(RESPONSES,),
    queues=(REQUESTED, ESCALATED),
)
