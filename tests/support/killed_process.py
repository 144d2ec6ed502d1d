"""Handlers in processes that are killed at a given call, and the world that such a process leaves.

Store and provider are real servers, so a call that was sent takes effect whatever becomes of its
sender.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import boto3
from botocore.config import Config

from infra.service import IDEMPOTENCY, PAYMENTS
from oncekey.dynamodb_writes import python_values
from oncekey_local.description import Attribute, Table
from oncekey_local.environment import PROVIDER_API_KEY, REGION
from oncekey_local.processes import clean_environment
from oncekey_local.store import READY
from oncekey_local.tables import create_table_request
from tests.support.dev_service import ROOT
from tests.support.killed_functions import BUSINESS_TABLE
from tests.support.provider import Provider, running_provider

if TYPE_CHECKING:
    from collections.abc import Iterator

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

Item = dict[str, Any]
W = TypeVar("W", bound="World")


@dataclass(frozen=True)
class Run:
    """One process: how it ended, and what its journal says."""

    what: str
    pid: int
    ended: str
    journal: Path
    events: tuple[dict[str, Any], ...]

    @property
    def calls(self) -> tuple[str, ...]:
        """The names of the calls that it came to, sent or about to be."""
        return tuple(event["call"] for event in self.events if event["event"] == "sending")

    @property
    def ran(self) -> tuple[str, ...]:
        """The steps that it ran."""
        return tuple(event["step"] for event in self.events if event["event"] == "ran")

    @property
    def keys(self) -> set[str]:
        """The idempotency keys that it showed the provider."""
        return {event["key"] for event in self.events if event.get("key")}

    @property
    def last_moment(self) -> tuple[str, int, str]:
        """Where its journal ends: before or after which call, and that call's name."""
        event = self.events[-1]
        when = {"sending": "before", "answered": "after"}.get(event["event"], event["event"])
        return when, event.get("number", 0), event.get("call", "")

    @property
    def answer(self) -> Any:
        """What the handler answered, or what became of the settlement."""
        assert self.ended == "exit 0", self
        return self.events[-1]["answer"]

    @property
    def code(self) -> str | None:
        """The code of the problem that it answered, if it is one."""
        if self.what != "invoke" or self.ended != "exit 0" or self.answer["statusCode"] < 400:
            return None
        code: str = json.loads(self.answer["body"])["type"].rpartition(":")[2]
        return code


@dataclass
class World:
    """A store, a provider, a clock, and a process that forks one for each invocation."""

    store_url: str
    provider: Provider
    folder: Path
    parent: subprocess.Popen[str]
    _journals: int = 0

    def forget(self) -> None:
        """Empty tables, a provider that knows nothing, and the real time."""
        for name, table in TABLES.items():
            with contextlib.suppress(self._dynamodb.exceptions.ResourceNotFoundException):
                self._dynamodb.delete_table(TableName=name)
            self._dynamodb.create_table(**create_table_request(name, table))
        self.provider.reset()
        clock_file(self.folder).write_text("0")

    def later(self, duration_ms: int = _LATER_MS) -> None:
        """Later for every process, by default so much that leases and graces of now are over."""
        clock = clock_file(self.folder)
        clock.write_text(str(int(clock.read_text()) + duration_ms))

    def invoke(self, handler: str, key: str, stop: Stop | None = None, **options: bool) -> Run:
        """A process that carries out one request; with `holds_clock`, time stands still in it."""
        order = {"handler": handler, "key": key, "holds_clock": False, "pk": None, **options}
        return self._started("invoke", order, stop)

    def settle(self, stop: Stop | None = None) -> Run:
        """A process that settles the record, as the reconciler does."""
        order = {"pk": self.record()["pk"], "holds_clock": False}
        return self._started("settle", order, stop)

    def resume(self, stopped: Run) -> Run:
        """Let a process that is stopped go on to its end; only what it does from then on."""
        run = self._ordered(stopped.what, stopped.journal, {"continue": stopped.pid})
        return replace(run, events=run.events[len(stopped.events) :])

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
        claim = message["claim"]
        data = self._s3.get_object(Bucket=BUCKET, Key=claim["name"])["Body"].read()
        assert hashlib.sha256(data).hexdigest() == claim["digest"]
        return message, json.loads(data)

    def everything(self) -> dict[str, Any]:
        """What store and provider hold, to compare with later."""
        tables = {name: sorted(self.items(name), key=repr) for name in TABLES}
        return {**tables, "provider": self.provider.payment_intents()}

    def _started(self, what: str, order: dict[str, Any], stop: Stop | None) -> Run:
        self._journals += 1
        journal = self.folder / f"{self._journals}.journal"
        whole = {
            **order,
            "continue": 0,
            "journal": str(journal),
            "stop": stop and asdict(stop),
        }
        return self._ordered(what, journal, whole)

    def _ordered(self, what: str, journal: Path, order: dict[str, Any]) -> Run:
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        self.parent.stdin.write(json.dumps(order) + "\n")
        self.parent.stdin.flush()
        reply = json.loads(self.parent.stdout.readline())
        events = [json.loads(line) for line in journal.read_text().splitlines()]
        return Run(what, reply["pid"], reply["ended"], journal, tuple(events))

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


@contextlib.contextmanager
def world() -> Iterator[World]:
    """The world of recorded operations that are carried out, and of settlements."""
    with world_of(World, "tests.support.recorded_child") as made:
        yield made


@contextlib.contextmanager
def world_of(kind: type[W], child: str) -> Iterator[W]:
    """Servers and the parent of the processes; all end with the block, or with this process."""
    with (
        tempfile.TemporaryDirectory() as name,
        running_provider() as provider,
        _running_store() as store_url,
        _running_parent(child, Path(name), store_url, provider) as parent,
    ):
        made = kind(store_url, provider, Path(name), parent)
        made.make_bucket()
        made.forget()
        yield made


def clock_file(folder: Path) -> Path:
    """The file that says how much later it is than in reality."""
    return folder / "clock"


@contextlib.contextmanager
def _running_store() -> Iterator[str]:
    command = [sys.executable, "-m", "oncekey_local.child", str(os.getpid())]
    command += ["oncekey_local.store", "--port", "0"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(READY), line
        try:
            yield line.removeprefix(READY).strip()
        finally:
            process.kill()


@contextlib.contextmanager
def _running_parent(
    child: str, folder: Path, store_url: str, provider: Provider
) -> Iterator[subprocess.Popen[str]]:
    environment = clean_environment() | {
        "AWS_ENDPOINT_URL": store_url,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "ONCEKEY_TABLE": RECORDS_TABLE,
        "ONCEKEY_OUTBOX_TABLE": OUTBOX_TABLE,
        "ONCEKEY_RESPONSE_BUCKET": BUCKET,
        # A busy machine must not make a call count twice.
        "ONCEKEY_STORE_TIMEOUT_MS": "20000",
        "PROVIDER_URL": provider.url,
        "PROVIDER_API_KEY": PROVIDER_API_KEY,
        "CLOCK_FILE": str(clock_file(folder)),
    }
    # A group of its own, so that what is stopped in it ends as well.
    with subprocess.Popen(
        [sys.executable, "-m", child],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def connection(store_url: str) -> dict[str, Any]:
    """How a client of the test reaches the store; it repeats nothing by itself."""
    return {
        "endpoint_url": store_url,
        "region_name": REGION,
        "aws_access_key_id": "local",
        "aws_secret_access_key": "local",
        "config": Config(retries={"total_max_attempts": 1}),
    }
