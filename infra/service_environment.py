"""Variables that several functions of the reference service share."""

from __future__ import annotations

from oncekey_local.description import BucketName, EnvironmentValue, QueueUrl, Setting, TableName

FOR_LOGS = {"POWERTOOLS_SERVICE_NAME": "payments", "POWERTOOLS_LOG_LEVEL": "INFO"}
FOR_RECORDS: dict[str, EnvironmentValue] = {
    "ONCEKEY_TABLE": TableName("idempotency"),
    "ONCEKEY_RESPONSE_BUCKET": BucketName("responses"),
}
FOR_OUTBOX = {"ONCEKEY_OUTBOX_TABLE": TableName("outbox")}
FOR_QUEUE = {"ONCEKEY_QUEUE_URL": QueueUrl("payments")}
FOR_PROVIDER = {
    "PROVIDER_URL": Setting.PROVIDER_URL,
    "PROVIDER_API_KEY": Setting.PROVIDER_API_KEY,
}
