"""What a service consists of: one typed description, read by the CDK app and by the local runtime.

Local and deployed cannot drift, because neither of them states a route, a timeout, a table or a
variable of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


_BUCKET_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


class Setting(StrEnum):
    """A value that only the place of deployment knows; functions read it from their environment."""

    PROVIDER_URL = "provider-url"
    PROVIDER_API_KEY = "provider-api-key"


@dataclass(frozen=True)
class TableName:
    """The physical name of the table that the description calls `table`."""

    table: str


@dataclass(frozen=True)
class BucketName:
    """The physical name of the bucket that the description calls `bucket`."""

    bucket: str


EnvironmentValue = str | TableName | BucketName | Setting


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """A key attribute: its name and its DynamoDB type, `S` or `N`."""

    name: str
    type: str = "S"


@dataclass(frozen=True, kw_only=True)
class Index:
    """A global secondary index that projects the keys only."""

    name: str
    partition_key: Attribute
    sort_key: Attribute | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """An on-demand table. `name` is logical: no table has a fixed physical name."""

    name: str
    partition_key: Attribute
    ttl_attribute: str | None = None
    indexes: tuple[Index, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A private bucket, whose objects expire after so many days, or never.

    Only those whose keys begin with `expiring_prefix` do. `name` is logical, and becomes part of
    the physical one: lower-case letters, digits, hyphens.
    """

    name: str
    expire_after_days: int | None = None
    expiring_prefix: str = ""


@dataclass(frozen=True, kw_only=True)
class Route:
    """A method and a path template as in API Gateway's HTTP API: `GET /payments/{payment_id}`."""

    method: str
    path: str
    # A JSON body that the route accepts, for whoever tries it by hand.
    example_body: str = "{}"

    @property
    def key(self) -> str:
        """API Gateway's route key."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, kw_only=True)
class Function:
    """A Lambda function: what it is, what calls it, and what it is told.

    `handler` is importable as `module.attribute`, from the root of the project. `reads` and
    `writes` name the tables (as the description calls them) that the function may touch.
    """

    name: str
    handler: str
    timeout_s: int
    memory_mb: int = 512
    routes: tuple[Route, ...] = ()
    environment: Mapping[str, EnvironmentValue] = field(default_factory=dict[str, EnvironmentValue])
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    # The idempotency table that its decorated handlers reserve in, by its name here.
    reserves_in: str | None = None
    # The bucket for answers of theirs that no item holds, by its name here.
    keeps_answers_in: str | None = None


@dataclass(frozen=True, kw_only=True)
class Service:
    """A whole service. All faults of a description are reported at once, when it is created."""

    name: str
    functions: tuple[Function, ...]
    tables: tuple[Table, ...]
    buckets: tuple[Bucket, ...] = ()

    def __post_init__(self) -> None:
        faults = [
            *self._duplicates(),
            *self._unknown_tables(),
            *self._unknown_buckets(),
            *self._impossible_buckets(),
            *self._timeouts(),
        ]
        if faults:
            raise ValueError(
                f"the description of service {self.name!r} is wrong: " + "; ".join(faults)
            )

    def _duplicates(self) -> list[str]:
        names = [function.name for function in self.functions]
        tables = [table.name for table in self.tables]
        routes = [route.key for function in self.functions for route in function.routes]
        buckets = [bucket.name for bucket in self.buckets]
        kinds = (
            ("function", names),
            ("table", tables),
            ("bucket", buckets),
            ("route", routes),
        )
        return [
            f"{kind} {value!r} is named twice"
            for kind, values in kinds
            for value in sorted({value for value in values if values.count(value) > 1})
        ]

    def _unknown_tables(self) -> list[str]:
        known = {table.name for table in self.tables}
        return [
            f"function {function.name!r} names table {name!r}, which the service does not have"
            for function in self.functions
            for name in _tables_named_by(function)
            if name not in known
        ]

    def _unknown_buckets(self) -> list[str]:
        known = {bucket.name for bucket in self.buckets}
        return [
            f"function {function.name!r} names bucket {name!r}, which the service does not have"
            for function in self.functions
            for name in _buckets_named_by(function)
            if name not in known
        ]

    def _impossible_buckets(self) -> list[str]:
        names = [
            f"bucket {bucket.name!r} has a name that S3 would refuse: "
            "use lower-case letters, digits and hyphens"
            for bucket in self.buckets
            if not _BUCKET_NAME.fullmatch(bucket.name)
        ]
        return names + [
            f"bucket {bucket.name!r} expires after {bucket.expire_after_days} days: "
            "at least 1, or None for never"
            for bucket in self.buckets
            if bucket.expire_after_days is not None and bucket.expire_after_days < 1
        ]

    def _timeouts(self) -> list[str]:
        # An HTTP API gives up after 30 s while the function runs on: the client would never see the
        # first answer.
        return [
            f"function {function.name!r} has routes and a timeout of {function.timeout_s} s: "
            "at most 29 behind an HTTP API"
            for function in self.functions
            if function.routes and function.timeout_s > 29
        ]


def _buckets_named_by(function: Function) -> list[str]:
    referenced = [
        value.bucket for value in function.environment.values() if isinstance(value, BucketName)
    ]
    kept = [function.keeps_answers_in] if function.keeps_answers_in else []
    return sorted({*referenced, *kept})


def _tables_named_by(function: Function) -> list[str]:
    referenced = [
        value.table for value in function.environment.values() if isinstance(value, TableName)
    ]
    reserved = [function.reserves_in] if function.reserves_in else []
    return sorted({*referenced, *function.reads, *function.writes, *reserved})
