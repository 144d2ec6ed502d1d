"""The tables, buckets and queues of the reference service.

The local runtime imports it too, so it must not import the CDK.
"""

from __future__ import annotations

from oncekey_local.description import Attribute, Bucket, Expiration, Index, Queue, Table

IDEMPOTENCY = Table(
    name="idempotency",
    partition_key=Attribute(name="pk"),
    # Frozen: DynamoDB can neither rename nor remove a TTL attribute in one deployment.
    ttl_attribute="expires_at",
    # Open records, by the time when somebody must look at them. Settled records are not in it. It
    # is there from the first release, because a later deployment can change only one index.
    indexes=(
        Index(
            name="due",
            partition_key=Attribute(name="due_shard"),
            sort_key=Attribute(name="due_at", type="N"),
        ),
    ),
)

# Business rows outlive the record that made them, so they have no TTL.
PAYMENTS = Table(name="payments", partition_key=Attribute(name="pk"))

# What is too large for an item. Step results are evidence, and stay.
RESPONSES = Bucket(
    name="responses",
    expirations=(
        # Answers must outlive their records, which live for a day.
        Expiration(prefix="answers/", after_days=3),
        # Large messages must outlive a queue and its dead letters, at most 14 days each.
        Expiration(prefix="outbox/", after_days=30),
        # The reports of the ledger.
        Expiration(prefix="reports/", after_days=90),
    ),
)

# Messages on their way to the queue. The relay deletes those that arrived.
OUTBOX = Table(name="outbox", partition_key=Attribute(name="id"), stream=True)
REFUNDS = Table(name="refunds", partition_key=Attribute(name="pk"))
REPORTS = Table(name="reports", partition_key=Attribute(name="pk"))

# Payments to charge, accepted requests to run, and the provider's events. If the provider is down
# for longer than the retries last, messages become dead letters, to be moved back later. Each
# delivery counts, also one that was cut off or given back. Twelve last for twenty minutes, because
# the delay between them doubles up to the visibility timeout.
REQUESTED = Queue(name="payments", max_receives=12)
# For people: operations that nobody else can settle, stream records that Lambda gave up, and failed
# runs of the ledger.
ESCALATED = Queue(name="escalated")
