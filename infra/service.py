"""The reference service: what the CDK app deploys and what the local runtime starts.

Imported by the local runtime too, so it names nothing of the CDK.
"""

from __future__ import annotations

from oncekey_local.description import (
    Attribute,
    Bucket,
    BucketName,
    Function,
    Index,
    Route,
    Service,
    Setting,
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

# Answers that no item holds. They outlive their records, which live for a day: S3 counts whole days
# and removes late rather than early. Results of steps are evidence, and stay.
RESPONSES = Bucket(name="responses", expire_after_days=3, expiring_prefix="answers/")

SERVICE = Service(
    name="payments",
    functions=(
        Function(
            name="payments",
            handler="functions.payments.handler.handler",
            # A charge takes the provider about 2 s, and at worst two tries of 8 s each. The API
            # gives up at 29 s, and would leave the run without a reader.
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
                "ONCEKEY_TABLE": TableName("idempotency"),
                "ONCEKEY_RESPONSE_BUCKET": BucketName("responses"),
                "PAYMENTS_TABLE": TableName("payments"),
                "PROVIDER_URL": Setting.PROVIDER_URL,
                "PROVIDER_API_KEY": Setting.PROVIDER_API_KEY,
                "POWERTOOLS_SERVICE_NAME": "payments",
                "POWERTOOLS_LOG_LEVEL": "INFO",
            },
            reads=("payments",),
            writes=("payments",),
            reserves_in="idempotency",
            keeps_answers_in="responses",
        ),
    ),
    tables=(IDEMPOTENCY, PAYMENTS),
    buckets=(RESPONSES,),
)
