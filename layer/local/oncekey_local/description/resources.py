"""The tables, buckets and queues in a description, and the values that refer to them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum

from oncekey.store.dynamodb.schema import (
    DUE_INDEX,
    DUE_PARTITION_KEY,
    DUE_SORT_KEY,
    IDEMPOTENCY,
    OUTBOX,
)


class LocalProvider(StrEnum):
    """What the local runtime's payment provider tells a function. It starts if one asks for `URL`.

    It sends its events to the first open route of a function that asks for `WEBHOOK_SECRET`.
    """

    URL = "url"
    API_KEY = "api-key"
    WEBHOOK_SECRET = "webhook-secret"  # noqa: S105 -- not the secret, but which one


@dataclass(frozen=True)
class Setting:
    """A value that differs between deployments: `IdempotentService(settings={name: ...})`.

    `local` is its value in `oncekey dev`. A deployment gives a `secret` as a secret of Secrets
    Manager. The function then reads it at run time, and finds the secret's name in the variable
    with `_ARN` at its end. The local runtime sets the variable itself.
    """

    name: str
    _: KW_ONLY
    local: str | LocalProvider
    secret: bool = False


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


@dataclass(frozen=True, kw_only=True)
class Index:
    """A global secondary index. It has the keys of the items, or `all_attributes` of them."""

    name: str
    partition_key: Attribute
    sort_key: Attribute | None = None
    all_attributes: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """An on-demand table. `name` is logical: no table has a fixed physical name.

    `ttl_attribute` has the epoch second after which DynamoDB may delete an item. With `stream`, its
    changes can trigger functions, which get the old and the new item.
    """

    name: str
    partition_key: Attribute
    sort_key: Attribute | None = None
    ttl_attribute: str | None = None
    indexes: tuple[Index, ...] = ()
    stream: bool = False


def records_table(name: str) -> Table:
    """The table of idempotency records, as the layer needs it.

    The index is there from the first release, because a deployment can change only one.
    """
    due = Index(
        name=DUE_INDEX,
        partition_key=Attribute(name=DUE_PARTITION_KEY),
        sort_key=Attribute(name=DUE_SORT_KEY, type="N"),
    )
    key = Attribute(name=IDEMPOTENCY.partition_key)
    ttl = IDEMPOTENCY.ttl_attribute
    return Table(name=name, partition_key=key, ttl_attribute=ttl, indexes=(due,))


def outbox_table(name: str) -> Table:
    """The table of messages on their way to the queue. The relay deletes those that arrived."""
    return Table(name=name, partition_key=Attribute(name=OUTBOX.partition_key), stream=True)


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
