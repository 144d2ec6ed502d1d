"""What a description says of tables, buckets and queues, and of the values that name them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Setting(StrEnum):
    """A value that only the place of deployment knows; functions read it from their environment."""

    PROVIDER_URL = "provider-url"
    PROVIDER_API_KEY = "provider-api-key"
    # What the provider signs its webhooks with; several, between white space, while they rotate.
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


# The index by which the records are found that somebody must look at.
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

    With `stream`, functions can be triggered by its changes: they see the old and the new item.
    """

    name: str
    partition_key: Attribute
    ttl_attribute: str | None = None
    indexes: tuple[Index, ...] = ()
    stream: bool = False


@dataclass(frozen=True, kw_only=True)
class Expiration:
    """Objects whose keys begin with `prefix`, a folder such as `answers/`, end after so many days.

    An empty prefix is every object. S3 counts whole days, and removes late rather than early.
    """

    prefix: str
    after_days: int


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A private bucket. Objects that no expiration speaks of stay for ever.

    `name` is logical, and becomes part of the physical one: lower-case letters, digits, hyphens.
    """

    name: str
    expirations: tuple[Expiration, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A queue, and the queue of its own that its dead letters go to.

    `name` is logical: lower-case letters, digits, hyphens. A message that was received
    `max_receives` times without being deleted is a dead letter. Without `visibility_timeout_s` it
    is the shortest that is safe for the function which the queue triggers. Without
    `retention_days` messages are kept for 4 days, and for 14 where no function works on them: those
    wait for a person.
    """

    name: str
    fifo: bool = False
    visibility_timeout_s: int | None = None
    max_receives: int = 5
    retention_days: int | None = None

    @property
    def dead_letters(self) -> str:
        """The logical name of the queue of its dead letters."""
        return f"{self.name}-dead-letters"
