"""The functions of the reference service that run on a schedule."""

from __future__ import annotations

from infra.service_environment import FOR_LOGS, FOR_OUTBOX, FOR_PROVIDER, FOR_QUEUE, FOR_RECORDS
from oncekey_local.description import (
    Allow,
    BucketName,
    Function,
    QueueUrl,
    ScheduleTrigger,
    TableName,
)

RECONCILER_FUNCTION = Function(
    name="reconciler",
    handler="functions.reconciler.handler.handler",
    # It stops by itself in time. Work that is left is for the next run.
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
    # Rows of refunds that a dead function did not write, and work that is handed to the worker.
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
    # Lambda's maximum. The provider returns a hundred charges a call, so a quarter of an hour is
    # enough for some hundred thousand charges a day.
    timeout_s=900,
    # A second run does no harm: it reads the same rows and writes the same report. The window comes
    # from the event, so a later attempt has the same one.
    schedule=ScheduleTrigger(daily_at_hour_utc=4, max_attempts=3, on_failure="escalated"),
    environment={
        # Younger payments may still be in progress, and are not compared.
        "LEDGER_SETTLING_S": "3600",
        "ONCEKEY_RESPONSE_BUCKET": BucketName("responses"),
        "PAYMENTS_TABLE": TableName("payments"),
        "REFUNDS_TABLE": TableName("refunds"),
        **FOR_PROVIDER,
        **FOR_LOGS,
    },
    scans=("payments", "refunds"),
    # It may not read them.
    allows=(Allow(actions=("s3:PutObject",), on=BucketName("responses"), objects="reports/"),),
    compares=("payments", "refunds"),
)
