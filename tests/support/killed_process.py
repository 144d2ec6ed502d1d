"""Handlers in processes that are killed at a given call, and the world that such a one leaves."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import boto3

from infra.service_resources import IDEMPOTENCY, PAYMENTS
from oncekey.store.dynamodb.author_writes import python_values
from oncekey_local.description import Attribute, Table
from oncekey_local.functions.environment import PROVIDER_API_KEY, REGION
from oncekey_local.processes import clean_environment
from oncekey_local.store.tables import create_table_request
from tests.support.forked_processes import Forks, Run, connection, running_forks, running_store
from tests.support.killed_functions import BUSINESS_TABLE
from tests.support.provider import Provider, running_provider

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

    from tests.support.tripwire import Stop

RECORDS_TABLE = "records"
OUTBOX_TABLE = "outbox"
BUCKET = "responses"
TABLES = {
    RECORDS_TABLE: IDEMPOTENCY,
    BUSINESS_TABLE: PAYMENTS,
    OUTBOX_TABLE: Table(name=OUTBOX_TABLE, partition_key=Attribute(name="id")),
}
# Beyond any lease and grace together, and far below the retention.
_LATER_MS = 600_000
_CHILD = "tests.support.recorded_child"

Item = dict[str, Any]
W = TypeVar("W", bound="World")


def empty(client: DynamoDBClient, name: str, table: Table) -> None:
    """The table is there, and nothing is in it. To make it anew takes ten times as long."""
    key = [each.name for each in (table.partition_key, table.sort_key) if each is not None]
    try:
        items = client.scan(TableName=name, ConsistentRead=True)["Items"]
    except client.exceptions.ResourceNotFoundException:
        client.create_table(**create_table_request(name, table))
        return
    for item in items:
        client.delete_item(TableName=name, Key={attribute: item[attribute] for attribute in key})


@dataclass
class World:
    """A store, a provider, a clock, and a process that forks one for each invocation."""

    store_url: str
    provider: Provider
    forks: Forks

    def forget(self) -> None:
        """Empty tables, a provider that knows nothing, and the real time."""
        for name, table in TABLES.items():
            empty(self._dynamodb, name, table)
        self.provider.reset()
        self.forks.set_clock(0)

    def later(self, by_ms: int = _LATER_MS) -> None:
        """Later for every process, by default so much that leases and graces of now are over."""
        self.forks.advance_clock(by_ms)

    def invoke(self, handler: str, key: str, stop: Stop | None = None, **options: bool) -> Run:
        """A process that carries out one request; with `holds_clock`, time stands still in it."""
        order = {"handler": handler, "key": key, "holds_clock": False, "pk": None, **options}
        return self.forks.start("invoke", order, stop)

    def settle(self, stop: Stop | None = None) -> Run:
        """A process that settles the record, as the reconciler does."""
        order = {"pk": self.record()["pk"], "holds_clock": False}
        return self.forks.start("settle", order, stop)

    def resume(self, stopped: Run) -> Run:
        """Let a process that is stopped go on to its end; only what it does from then on."""
        return self.forks.resume(stopped)

    def records(self) -> list[Item]:
        """The records, without what is kept beside them."""
        return [item for item in self.items(RECORDS_TABLE) if "status" in item]

    def record(self) -> Item:
        """The only record."""
        (record,) = self.records()
        return record

    def items(self, table: str) -> list[Item]:
        """Everything in a table, as Python values."""
        items = self._dynamodb.scan(TableName=table, ConsistentRead=True)["Items"]
        return [python_values(item) or {} for item in items]

    def message(self) -> tuple[Item, Any]:
        """The only message of the outbox and its payload, from wherever it is."""
        (message,) = self.items(OUTBOX_TABLE)
        if "payload" in message:
            return message, json.loads(message["payload"])
        payload_ref = message["payload_ref"]
        data = self._s3.get_object(Bucket=BUCKET, Key=payload_ref["name"])["Body"].read()
        assert hashlib.sha256(data).hexdigest() == payload_ref["digest"]
        return message, json.loads(data)

    def everything(self) -> dict[str, Any]:
        """What store and provider hold, to compare with later."""
        tables = {name: sorted(self.items(name), key=repr) for name in TABLES}
        return {**tables, "provider": self.provider.payment_intents()}

    @cached_property
    def _dynamodb(self) -> DynamoDBClient:
        client: DynamoDBClient = boto3.client("dynamodb", **connection(self.store_url))
        return client

    @cached_property
    def _s3(self) -> S3Client:
        client: S3Client = boto3.client("s3", **connection(self.store_url))
        return client

    def make_bucket(self) -> None:
        """The bucket, which `forget` leaves as it is: its objects have names of their own."""
        self._s3.create_bucket(Bucket=BUCKET)


def world(transport: str = "sdk") -> AbstractContextManager[World]:
    """Servers and the parent of the processes; all end with the block, or with this process.

    The processes use this transport.
    """
    return world_of(World, _CHILD, transport)


@contextlib.contextmanager
def world_of(kind: type[W], child: str, transport: str = "sdk") -> Iterator[W]:
    """The same of another kind, whose processes run the module `child`."""
    with (
        tempfile.TemporaryDirectory() as name,
        running_provider() as provider,
        running_store() as store_url,
        running_forks(child, Path(name), _environment(store_url, provider, transport)) as forks,
    ):
        made = kind(store_url, provider, forks)
        made.make_bucket()
        made.forget()
        yield made


def _environment(store_url: str, provider: Provider, transport: str) -> dict[str, str]:
    return clean_environment() | {
        "AWS_ENDPOINT_URL": store_url,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "ONCEKEY_TABLE": RECORDS_TABLE,
        "ONCEKEY_TRANSPORT": transport,
        "ONCEKEY_OUTBOX_TABLE": OUTBOX_TABLE,
        "ONCEKEY_RESPONSE_BUCKET": BUCKET,
        # A busy machine must not make a call count twice.
        "ONCEKEY_STORE_TIMEOUT_MS": "20000",
        "PROVIDER_URL": provider.url,
        "PROVIDER_API_KEY": PROVIDER_API_KEY,
    }
