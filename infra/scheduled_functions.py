"""The functions of the reference service that the clock calls."""

from __future__ import annotations

from infra.service_environment import FOR_LOGS, FOR_OUTBOX, FOR_PROVIDER, FOR_QUEUE, FOR_RECORDS
from oncekey_local.description import BucketName, Function, QueueUrl, ScheduleTrigger, TableName

RECONCILER_FUNCTION = Function(
    name="reconciler",
    handler="functions.reconciler.handler.handler",
    # It stops in time by itself, and a run that meets more than it can do leaves it to the next.
    timeout_s=60,
    schedule=ScheduleTrigger(every_minutes=1),
    environment={
        **FOR_RECORDS,
        **FOR_OUTBOX,
        **FOR_QUEUE,
        "ONCEKEY_ESCALATION_QUEUE_URL": QueueUrl("escalated"),
        "REFUNDS_TABLE": TableName("refunds"),
        **FOR_PROVIDER,
        **FOR_LOGS,
    },
    # Rows of refunds whose function did not live to write them, and work that is handed back.
    writes=("refunds", "outbox"),
    scans=("outbox",),
    reconciles="idempotency",
    relays_from="outbox",
    sends_to=("payments", "escalated"),
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
        **FOR_PROVIDER,
        **FOR_LOGS,
    },
    scans=("payments", "refunds"),
    writes_reports_in="responses",
    compares=("payments", "refunds"),
)
