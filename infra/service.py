"""The reference service: what the CDK app deploys and what the local runtime starts.

Imported by the local runtime too, so it names nothing of the CDK.
"""

from __future__ import annotations

from oncekey_local.description import (
    Attribute,
    Bucket,
    BucketName,
    EnvironmentValue,
    Expiration,
    Function,
    Index,
    Queue,
    QueueTrigger,
    QueueUrl,
    Route,
    ScheduleTrigger,
    Service,
    Setting,
    StreamTrigger,
    Table,
    TableName,
)

IDEMPOTENCY = Table(
    name="idempotency",
    partition_key=Attribute(name="pk"),
    # Frozen: DynamoDB can neither rename a TTL attribute in one deployment nor drop it.
    ttl_attribute="expires_at",
    # The open records, by the time when somebody must look at them; settled ones leave it. It is
    # here from the first release because a table in use takes one index change a deployment.
    indexes=(
        Index(
            name="due",
            partition_key=Attribute(name="due_shard"),
            sort_key=Attribute(name="due_at", type="N"),
        ),
    ),
)

# Business rows outlive the record that made them, so they carry no TTL.
PAYMENTS = Table(name="payments", partition_key=Attribute(name="pk"))

# What no item holds. Results of steps are evidence, and stay.
RESPONSES = Bucket(
    name="responses",
    expirations=(
        # Answers outlive their records, which live for a day.
        Expiration(prefix="answers/", after_days=3),
        # Large messages outlive whatever names them: a queue, and then its dead letters, for 14
        # days each at the most.
        Expiration(prefix="outbox/", after_days=30),
        # What was found when payments and charges were compared.
        Expiration(prefix="reports/", after_days=90),
    ),
)

# Messages on their way to the queue; the relay deletes them once they are there.
OUTBOX = Table(name="outbox", partition_key=Attribute(name="id"), stream=True)
REFUNDS = Table(name="refunds", partition_key=Attribute(name="pk"))
REPORTS = Table(name="reports", partition_key=Attribute(name="pk"))

# Payments to be charged, and accepted requests to be carried out. A provider that is down longer
# than the retries last makes dead letters, which are redriven once it is back.
REQUESTED = Queue(name="payments", max_receives=5)
# Records of the stream that the relay could not cope with; somebody has to look at them.
ESCALATED = Queue(name="escalated")

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
        "REPORTS_TABLE": TableName("reports"),
        **_PROVIDER,
        **_LOGGING,
    },
    reads=("payments",),
    writes=("reports",),
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
