"""The tables, buckets and queues in a description, and the values that refer to them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Setting(StrEnum):
    """A value that differs between deployments. Functions read it from their environment."""

    PROVIDER_URL = "provider-url"
    PROVIDER_API_KEY = "provider-api-key"
    # The provider's signing secrets for webhooks: several, separated by white space, on rotation.
    WEBHOOK_SECRET = "webhook-secret"  # noqa: S105 -- the setting's name


@dataclass(frozen=True)
class TableName:
    """The physical name of the table that the description calls `table`."""

    table: str


@dataclass(frozen=True)
class BucketName:
    """The physical name of the bucket that the description calls `bucket`."""

    bucket: str


@dataclass(frozen=True)
class QueueUrl:
    """The URL of the queue that the description calls `queue`, or of its dead letters."""

    queue: str


EnvironmentValue = str | TableName | BucketName | QueueUrl | Setting


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """A key attribute: its name and its DynamoDB type, `S` or `N`."""

    name: str
    type: str = "S"


# The index of the records that somebody must look at.
DUE_INDEX = "due"


@dataclass(frozen=True, kw_only=True)
class Index:
    """A global secondary index that projects the keys only."""

    name: str
    partition_key: Attribute
    sort_key: Attribute | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """An on-demand table. `name` is logical: no table has a fixed physical name.

    With `stream`, its changes can trigger functions, which get the old and the new item.
    """

    name: str
    partition_key: Attribute
    ttl_attribute: str | None = None
    indexes: tuple[Index, ...] = ()
    stream: bool = False


def records_table(name: str) -> Table:
    """The table of idempotency records, as the layer needs it."""
    return Table(
        name=name,
        partition_key=Attribute(name="pk"),
        # Frozen: DynamoDB can neither rename nor remove a TTL attribute in one deployment.
        ttl_attribute="expires_at",
        # Open records, by the time when somebody must look at them. Settled records are not in it.
        # It is there from the first release, because a deployment can change only one index.
        indexes=(
            Index(
                name=DUE_INDEX,
                partition_key=Attribute(name="due_shard"),
                sort_key=Attribute(name="due_at", type="N"),
            ),
        ),
    )


def outbox_table(name: str) -> Table:
    """The table of messages on their way to the queue. The relay deletes those that arrived."""
    return Table(name=name, partition_key=Attribute(name="id"), stream=True)


@dataclass(frozen=True, kw_only=True)
class Expiration:
    """Objects whose keys begin with `prefix`, such as `answers/`, expire after `after_days`.

    An empty prefix matches every object. S3 counts whole days, and removes objects late, not early.
    """

    prefix: str
    after_days: int


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A private bucket. Objects without a matching expiration stay for ever.

    `name` is logical and becomes part of the physical name: lower-case letters, digits, hyphens.
    """

    name: str
    expirations: tuple[Expiration, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A queue, and its own dead-letter queue.

    `name` is logical: lower-case letters, digits, hyphens. A message that was received
    `max_receives` times without being deleted becomes a dead letter. The default of
    `visibility_timeout_s` is the shortest safe one for the function that the queue triggers. The
    default of `retention_days` is 4, or 14 if the queue triggers no function, because its messages
    then wait for a person.
    """

    name: str
    fifo: bool = False
    visibility_timeout_s: int | None = None
    max_receives: int = 5
    retention_days: int | None = None

    @property
    def dead_letters(self) -> str:
        """The logical name of its dead-letter queue."""
        return f"{self.name}-dead-letters"
