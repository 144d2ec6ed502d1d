"""The typed description of a service, which the CDK app and the local runtime both read.

The local and the deployed service stay the same, because all routes, timeouts, tables, queues and
variables are in this description. Importing it loads no package but oncekey, and not boto3.
"""

from __future__ import annotations

from dataclasses import dataclass

from oncekey.http.cors import Cors
from oncekey_local.description import event_faults as described_event_faults
from oncekey_local.description import faults as described_faults
from oncekey_local.description.functions import (
    Allow,
    Function,
    QueueTrigger,
    Route,
    ScheduleTrigger,
    StreamTrigger,
    safe_visibility_timeout_s,
)
from oncekey_local.description.resources import (
    Attribute,
    Bucket,
    BucketName,
    EnvironmentValue,
    Expiration,
    Index,
    LocalProvider,
    Queue,
    QueueUrl,
    Setting,
    Table,
    TableName,
    outbox_table,
    records_table,
)

__all__ = [
    "Allow",
    "Attribute",
    "Bucket",
    "BucketName",
    "Cors",
    "DescriptionInvalid",
    "EnvironmentValue",
    "Expiration",
    "Function",
    "Index",
    "LocalProvider",
    "Queue",
    "QueueTrigger",
    "QueueUrl",
    "Route",
    "ScheduleTrigger",
    "Service",
    "Setting",
    "StreamTrigger",
    "Table",
    "TableName",
    "outbox_table",
    "records_table",
    "safe_visibility_timeout_s",
]

# SQS's default, for a queue without a trigger.
_VISIBILITY_TIMEOUT_S = 30
# SQS's default, for a queue that triggers a function.
_RETENTION_DAYS = 4


class DescriptionInvalid(ValueError):  # noqa: N818 -- a property of what was written
    """A description has faults. The message lists all of them, each with what to change."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """A whole service. Creating it reports all faults of the description at once.

    With `cors`, browsers may call its API from other pages than its own.
    """

    name: str
    functions: tuple[Function, ...]
    tables: tuple[Table, ...]
    buckets: tuple[Bucket, ...] = ()
    queues: tuple[Queue, ...] = ()
    cors: Cors | None = None

    def __post_init__(self) -> None:
        faults = [*described_faults.faults(self), *described_event_faults.faults(self)]
        if faults:
            raise DescriptionInvalid(
                f"the description of service {self.name!r} is wrong: " + "; ".join(faults)
            )

    def visibility_timeout_s(self, queue: Queue) -> int:
        """For how long this queue hides a received message."""
        if queue.visibility_timeout_s is not None:
            return queue.visibility_timeout_s
        return described_event_faults.least_visibility_timeout_s(self, queue) or (
            _VISIBILITY_TIMEOUT_S
        )

    def retention_days(self, queue: Queue) -> int:
        """For how many days this queue keeps a message."""
        if queue.retention_days is not None:
            return queue.retention_days
        if described_event_faults.is_worked_on(self, queue):
            return _RETENTION_DAYS
        return described_event_faults.DEAD_LETTER_RETENTION_DAYS
