"""The tables, buckets and queues of the reference service.

Imported by the local runtime too, so it names nothing of the CDK.
"""

from __future__ import annotations

from oncekey_local.description import Attribute, Bucket, Expiration, Index, Queue, Table

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

# Payments to be charged, accepted requests to be carried out, the provider's events. A provider
# that is down longer than the retries last makes dead letters, which are redriven once it is back.
# Each delivery counts, one that was cut off or given back too: twelve last for twenty minutes, with
# a wait between them that doubles up to the visibility timeout.
REQUESTED = Queue(name="payments", max_receives=12)
# Operations that nobody but a person can settle, records of the stream that the relay could not
# cope with, runs of the ledger that have failed; somebody has to look at them.
ESCALATED = Queue(name="escalated")
