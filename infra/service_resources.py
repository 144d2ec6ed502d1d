"""The tables, buckets and queues of the reference service.

The local runtime imports it too, so it must not import the CDK.
"""

from __future__ import annotations

from oncekey_local.description import (
    Attribute,
    Bucket,
    Expiration,
    Queue,
    Table,
    outbox_table,
    records_table,
)

IDEMPOTENCY = records_table("idempotency")

# Business rows outlive the record that made them, so they have no TTL.
PAYMENTS = Table(name="payments", partition_key=Attribute(name="pk"))

# What is too large for an item. Step results are evidence, and stay.
RESPONSES = Bucket(
    name="responses",
    expirations=(
        # Answers must outlive their records, which live for a day.
        Expiration(prefix="answers/", after_days=3),
        # Large messages must outlive a queue and its dead letters, at most 14 days each, and the
        # wait for a person, who is told each week.
        Expiration(prefix="outbox/", after_days=90),
        # The reports of the ledger.
        Expiration(prefix="reports/", after_days=90),
    ),
)

OUTBOX = outbox_table("outbox")
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
