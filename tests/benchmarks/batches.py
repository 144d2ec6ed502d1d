"""The functions that work in batches: relay, worker and reconciler.

What each run exchanges is recorded against moto, as for the cases, and played back. The first run
of a process is recorded apart from the next, because it may ask for more.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.benchmarks.cases import OUTBOX, Context
from tests.benchmarks.environment import ENVIRONMENT, in_fresh_process
from tests.benchmarks.suite import source_of_replies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from oncekey import Question
    from oncekey.outbox import Delivered
    from oncekey.settlement.resolvers import Finding
    from tests.benchmarks.recording import Moto
    from tests.benchmarks.transport import Reply, Source

# How many items one batch has: of a stream's, a queue's and of due records.
ITEMS = {"relay": 100, "worker": 10, "reconciler": 50}
_QUEUE_URL = ENVIRONMENT["ONCEKEY_QUEUE_URL"]
_NOW_MS, _LATER_MS, _RUN_MS = 1_796_000_000_000, 1_796_001_000_000, 50_000


@dataclass(frozen=True)
class Batch:
    """One batch: its event, the recorded replies, and the number of requests by operation."""

    event: Any
    at_first: tuple[Reply, ...]
    replies: tuple[Reply, ...]
    requests: Mapping[str, int]


@dataclass(frozen=True)
class Throughput:
    """Items a second of CPU time, the items of a batch, and the requests for a batch."""

    per_second: float
    items: int
    requests: Mapping[str, int]


def throughputs(runs: int) -> dict[str, Throughput]:
    """The throughput of each function, over `runs` batches on the stub."""
    batches = recorded_batches()
    # Other processes, without moto.
    return {
        name: in_fresh_process("sdk", _throughput, name, batch, runs)
        for name, batch in batches.items()
    }


def recorded_batches() -> dict[str, Batch]:
    """One batch of each function, recorded in a process of its own."""
    return in_fresh_process("sdk", _recorded)


def _recorded() -> dict[str, Batch]:
    # Without a log line for each attempt that is made to fail.
    logging.disable()
    return {name: record(name) for name in ITEMS}


def record(name: str) -> Batch:
    """One batch of the function `name`."""
    from tests.benchmarks.recording import moto_with_tables

    with moto_with_tables() as moto:
        act = _ACTORS[name]()
        first = _EVENTS[name](moto, 0)
        at_first = moto.noted(lambda: act(first))
        second = _EVENTS[name](moto, 1)
        noted = moto.noted(lambda: act(second))
    return Batch(
        event=second,
        at_first=tuple(reply for _, reply in at_first),
        replies=tuple(reply for _, reply in noted),
        requests=Counter(request.operation for request, _ in noted),
    )


def play(name: str, batch: Batch, source: Source) -> Callable[[], None]:
    """A call that works on `batch` once more, after the first time.

    Raises:
        AssertionError: it does not end as it was recorded.
    """
    act = _ACTORS[name]()

    def once(replies: tuple[Reply, ...]) -> None:
        source.load(replies)
        act(batch.event)
        assert source.is_used_up(), name

    once(batch.at_first)
    return lambda: once(batch.replies)


def _throughput(name: str, batch: Batch, runs: int) -> Throughput:
    taken_ns = []
    with source_of_replies("stub") as source:
        again = play(name, batch, source)
        for _ in range(runs):
            begun_ns = time.process_time_ns()
            again()
            taken_ns.append(time.process_time_ns() - begun_ns)
    return Throughput(1e9 * ITEMS[name] / median(taken_ns), ITEMS[name], batch.requests)


def _relay() -> Callable[[Any], None]:
    from oncekey.outbox import OutboxRelay

    relay = OutboxRelay()

    def act(event: Any) -> None:
        assert relay(event, Context()) == {"batchItemFailures": []}

    return act


def _worker() -> Callable[[Any], None]:
    from oncekey import idempotent_function
    from oncekey.outbox import Worker, delivered

    @idempotent_function(
        operation="payment.requested",
        key=lambda message, _: message.id,
        tenant=lambda message, _: message.tenant,
    )
    def charge(message: Delivered, context: object) -> str:
        return "succeeded"

    worker = Worker(lambda record, context: charge(delivered(record["body"]), context))

    def act(event: Any) -> None:
        assert worker(event, Context()) == {"batchItemFailures": []}

    return act


def _reconciler() -> Callable[[Any], None]:
    from oncekey import Completed, resolver
    from oncekey.reconciler import Reconciler
    from oncekey.testing import ManualClock

    @resolver("POST /charges")
    def what_became_of(question: Question) -> Finding:
        return Completed({"statusCode": 201, "body": '{"id":"ch_1"}'})

    def act(_event: object) -> None:
        reconciler = Reconciler(resolvers=(what_became_of,), clock=ManualClock(_LATER_MS))
        assert reconciler.run(_LATER_MS + _RUN_MS).settled == ITEMS["reconciler"]

    return act


def _stream(moto: Moto, number: int) -> dict[str, Any]:
    """A stream's event with messages that are in the outbox."""
    from oncekey.store.dynamodb.outbox import message_item

    items = [message_item(message) for message in _messages(number, ITEMS["relay"])]
    for item in items:
        moto.client("dynamodb").put_item(TableName=OUTBOX, Item=item)
    changes = [{"NewImage": item, "SequenceNumber": str(at)} for at, item in enumerate(items)]
    return {"Records": [{"eventName": "INSERT", "dynamodb": change} for change in changes]}


def _delivery(moto: Moto, number: int) -> dict[str, Any]:
    """A queue's event with messages that it has just delivered."""
    from oncekey.outbox.envelope import sealed

    for message in _messages(number, ITEMS["worker"]):
        moto.client("sqs").send_message(QueueUrl=_QUEUE_URL, MessageBody=sealed(message))
    received = moto.client("sqs").receive_message(QueueUrl=_QUEUE_URL, MaxNumberOfMessages=10)
    records = [
        {
            "messageId": each["MessageId"],
            "receiptHandle": each["ReceiptHandle"],
            "body": each["Body"],
            "attributes": {"ApproximateReceiveCount": "1"},
        }
        for each in received["Messages"]
    ]
    return {"Records": records}


def _due(moto: Moto, number: int) -> None:
    """Records in doubt, whose attempts have raised."""
    from oncekey import idempotent, single_tenant
    from oncekey.testing import ManualClock
    from tests.support.events import load, with_key

    def charge(event: object, context: object) -> dict[str, Any]:
        raise TimeoutError

    protect = idempotent(
        operation="POST /charges", tenant=single_tenant(), clock=ManualClock(_NOW_MS)
    )
    protected = protect(charge)
    for at in range(ITEMS["reconciler"]):
        event = with_key(load("apigw_http_v2_post"), f"charge-{number}-of-number-{at:04d}")
        with contextlib.suppress(TimeoutError):
            protected(event, None)


def _messages(number: int, count: int) -> list[Any]:
    from oncekey.record.message import Message

    return [
        Message(
            id=f"6a1b9a0e-3d0c-4d3c-8f6b-{number:04d}{at:08d}",
            topic="payment.requested",
            payload='{"payment_id":"6a1b9a0e-3d0c-5d3c-8f6b-0d8e2c7a4b11","amount":1200}',
            operation_id="6a1b9a0e-3d0c-4d3c-8f6b-0d8e2c7a4b11",
            operation="POST /payments",
            tenant="tenant-1",
            created_at_ms=_NOW_MS,
            sequence=at,
        )
        for at in range(count)
    ]


_ACTORS = {"relay": _relay, "worker": _worker, "reconciler": _reconciler}
_EVENTS: dict[str, Callable[[Moto, int], Any]] = {
    "relay": _stream,
    "worker": _delivery,
    "reconciler": _due,
}
