"""What one request costs in DynamoDB's units, computed from the items that the layer writes.

The items are made by the layer's own code, with names, keys and tenants of usual lengths.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.http.answer import stored_form
from oncekey.http.event import Shape
from oncekey.record.identity import Identity
from oncekey.record.message import Message
from oncekey.record.policy import Encoding, Policy
from oncekey.record.record import Due, Effects, Record, Status
from oncekey.record.steps import FinishedStep, Steps
from oncekey.record.stored_answer import Place, place_answer
from oncekey.store.dynamodb.codec import attribute_values
from oncekey.store.dynamodb.outbox import message_item
from oncekey.store.dynamodb.sizes import item_bytes
from oncekey.store.dynamodb.transaction import companion_item
from oncekey.value import replace

if TYPE_CHECKING:
    from oncekey.record.stored_answer import StoredAnswer

WRITE_UNIT_BYTES, READ_UNIT_BYTES = 1_024, 4_096
# DynamoDB bills every write of a transaction twice.
_TRANSACTION = 2
# The pointer from a job's operation_id to its record is one item of less than a unit.
_POINTER_UNITS, _POINTER_BYTES = 1, 250
# What DynamoDB adds to the size of each item that it stores.
_OVERHEAD_BYTES = 100
_STEP_RESULT = '{"id": "ch_00000000000000000000"}'
_NOW_MS = 1_800_000_000_000
_ID = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True, kw_only=True)
class Units:
    """Units of one request: those of the table, and those of its index."""

    read: float = 0
    write: float = 0
    index: float = 0

    def __add__(self, other: Units) -> Units:
        return Units(
            read=self.read + other.read,
            write=self.write + other.write,
            index=self.index + other.index,
        )

    def times(self, number: float) -> Units:
        """The units of `number` such requests."""
        return Units(read=number * self.read, write=number * self.write, index=number * self.index)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What clients do, and how the operation is declared.

    Attributes:
        rps: first requests a second, on average over a month.
        peak_rps: the same in the busiest seconds.
        answer: the body of an answer.
        duplicates: repeats for each first request: 0.02 is one in fifty.
        retention_s: how long answers are replayed.
        steps: steps of recorded effects, each without `idempotent=True`.
        idempotent_steps: steps with it.
        messages: messages that are published with the answer.
        message_bytes: the payload of a message.
        queued: whether the operation is a job (`mode="queued"`).
        request_bytes: the event of a request, which a job's message carries.
        limits: how many of `new_keys` and `active_keys` the quota has.
        quota_shards: the quota's `shards`.
        largest_tenant: the share of all requests that the largest tenant sends.
        busiest_key: how often a second one key is repeated at worst.
        shards: ONCEKEY_DUE_SHARDS; 0 is no index.
    """

    rps: float
    peak_rps: float
    answer: str
    duplicates: float
    retention_s: int
    steps: int = 0
    idempotent_steps: int = 0
    messages: int = 0
    message_bytes: int = 500
    queued: bool = False
    request_bytes: int = 1_500
    limits: int = 0
    quota_shards: int = 1
    largest_tenant: float = 1.0
    busiest_key: float = 10.0
    shards: int = 16

    @property
    def needs_index(self) -> bool:
        """Whether the layer refuses to run this without the index."""
        return self.queued or self.steps + self.idempotent_steps + self.messages > 0


class Items:
    """The items that one request of a workload leaves, and what writing and reading them costs."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        record = _record(workload)
        self.reserved_bytes = _size(record)
        answer = {"statusCode": 201, "headers": {}, "body": workload.answer}
        response, blob = place_answer(
            stored_form(answer, Shape.PAYLOAD_2),
            _ended(record, workload, None),
            expires_at_s=_NOW_MS // 1000,
            has_bucket=True,
        )
        self.record_bytes = _size(_ended(record, workload, response))
        self.companion_bytes = self.object_bytes = 0
        if blob is not None and blob.at.place is Place.ITEM:
            self.companion_bytes = item_bytes(companion_item(blob))
        elif blob is not None:
            self.object_bytes = len(blob.data)

    @property
    def stored_bytes(self) -> int:
        """What the table stores for one key until it expires."""
        pointer = _POINTER_BYTES if self._workload.queued else 0
        items = [self.record_bytes, self.companion_bytes, pointer]
        return sum(size + _OVERHEAD_BYTES for size in items if size)

    @property
    def outbox_writes(self) -> int:
        """The units of the outbox table: each message is written in a transaction, and deleted."""
        load = self._workload
        messages = load.messages * write_units(_message_bytes(load.message_bytes))
        job = write_units(_message_bytes(load.request_bytes)) if load.queued else 0
        return (_TRANSACTION + 1) * (messages + job)

    def first(self) -> Units:
        """A first request, with everything until it is answered and its messages are sent."""
        load = self._workload
        reserve, record = write_units(self.reserved_bytes), write_units(self.record_bytes)
        index = 2  # into the index, and out of it
        read, write = 0, self.outbox_writes
        if load.limits:
            # The counters are read, and changed in the transaction that reserves the key.
            read += 1
            write += _TRANSACTION * load.limits
        if load.queued:
            write += _TRANSACTION * (reserve + _POINTER_UNITS)
            # The worker reads the record and begins it, which moves its entry of the index.
            read, write, index = read + 1, write + record, index + 2
        else:
            write += _TRANSACTION * reserve if load.limits else reserve
        write += record * (2 * load.steps + load.idempotent_steps)
        companion = write_units(self.companion_bytes) if self.companion_bytes else 0
        # Recorded effects end in one transaction, if there is anything to write but the record.
        is_transaction = load.messages or (load.needs_index and companion)
        write += (_TRANSACTION if is_transaction else 1) * (record + companion)
        return Units(read=read, write=write, index=index if load.shards else 0)

    def duplicate(self) -> Units:
        """A repeat of an answered request."""
        record = self.record_bytes
        read = read_units(self.companion_bytes) if self.companion_bytes else 0
        if self._workload.limits:
            return Units(read=read + read_units(record))
        # A refused write is billed by the size of the record. That of a job is a transaction, with
        # the message and the pointer, which are not there.
        write = write_units(record)
        return Units(
            read=read, write=_TRANSACTION * (write + 2) if self._workload.queued else write
        )


def write_units(size: int) -> int:
    """The units of a write of an item of this size."""
    return max(1, -(-size // WRITE_UNIT_BYTES))


def read_units(size: int) -> int:
    """The units of a strongly consistent read."""
    return max(1, -(-size // READ_UNIT_BYTES))


def body_of(size: int) -> str:
    """A body of `size` bytes that compresses to about half, as dense JSON does."""
    # Hexadecimal digits carry four bits each. The same ones every time.
    noise = random.Random(size)  # noqa: S311 -- no secret
    return noise.randbytes(size // 2).hex() + "0" * (size % 2)


def _record(workload: Workload) -> Record:
    """The record of a new key, with the steps that it will have."""
    identity = Identity(tenant="tenant-00000001", operation="POST /payments", key=_ID)
    is_recorded = workload.steps + workload.idempotent_steps + workload.messages > 0
    return Record(
        pk=identity.pk,
        status=Status.IN_PROGRESS,
        rev=1,
        tenant=identity.tenant,
        operation=identity.operation,
        operation_id=_ID,
        fingerprint="f1:" + "0" * 43,
        owner=_ID,
        attempt=1,
        effects=Effects.RECORDED if is_recorded else Effects.UNRECORDED,
        created_at_ms=_NOW_MS,
        key=identity.key,
        lease_until_ms=_NOW_MS,
        due=Due(shard=identity.due_shard(workload.shards), at_ms=_NOW_MS),
    )


def _ended(record: Record, workload: Workload, response: StoredAnswer | None) -> Record:
    steps = tuple(
        FinishedStep(name=f"step-{place}", position=place, at_ms=_NOW_MS, result=_STEP_RESULT)
        for place in range(workload.steps + workload.idempotent_steps)
    )
    return replace(
        record,
        status=Status.COMPLETED,
        lease_until_ms=None,
        due=None,
        completed_at_ms=_NOW_MS,
        expires_at_s=_NOW_MS // 1000,
        steps=Steps(finished=steps),
        response=response,
        response_version=1,
        policy=Policy(
            encoding=Encoding.HTTP, retention_s=workload.retention_s, is_queued=workload.queued
        ),
    )


def _size(record: Record) -> int:
    return item_bytes(attribute_values(record))


def _message_bytes(payload_bytes: int) -> int:
    return item_bytes(
        message_item(
            Message(
                id=_ID,
                topic="payment.requested",
                payload="0" * payload_bytes,
                operation_id=_ID,
                operation="POST /payments",
                tenant="tenant-00000001",
                created_at_ms=_NOW_MS,
            )
        )
    )
