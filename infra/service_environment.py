"""Variables that several functions of the reference service share."""

from __future__ import annotations

from oncekey_local.description import (
    BucketName,
    EnvironmentValue,
    LocalProvider,
    QueueUrl,
    Setting,
    TableName,
)

PROVIDER_URL = Setting("provider-url", local=LocalProvider.URL)
PROVIDER_API_KEY = Setting("provider-api-key", local=LocalProvider.API_KEY, secret=True)
# What the provider signs its events with: several, separated by white space, on rotation.
WEBHOOK_SECRET = Setting("webhook-secret", local=LocalProvider.WEBHOOK_SECRET, secret=True)

FOR_LOGS = {"POWERTOOLS_SERVICE_NAME": "payments", "POWERTOOLS_LOG_LEVEL": "INFO"}
FOR_RECORDS: dict[str, EnvironmentValue] = {
    "ONCEKEY_TABLE": TableName("idempotency"),
    "ONCEKEY_RESPONSE_BUCKET": BucketName("responses"),
}
FOR_OUTBOX = {"ONCEKEY_OUTBOX_TABLE": TableName("outbox")}
FOR_QUEUE = {"ONCEKEY_QUEUE_URL": QueueUrl("payments")}
FOR_PROVIDER = {
    "PROVIDER_URL": PROVIDER_URL,
    "PROVIDER_API_KEY": PROVIDER_API_KEY,
}
