"""Records what a contender sends in a case, and what DynamoDB answers, once, against moto.

A process of its own does it: moto stays in the clients of the process that loads it.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from functools import cache, reduce
from operator import add
from typing import TYPE_CHECKING, Any

from tests.benchmarks import contenders, units
from tests.benchmarks.cases import OUTBOX, PAYMENTS, TABLE, Case, Context
from tests.benchmarks.environment import in_fresh_process
from tests.benchmarks.transport import Player, Reply, Request, request_of, sending_by
from tests.benchmarks.units import Units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from botocore.awsrequest import AWSPreparedRequest, AWSResponse

    from tests.support.events import Event


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a handler: what it sends, what is answered, and what that costs."""

    event: Event
    requests: tuple[Request, ...]
    replies: tuple[Reply, ...]
    units: Units

    @property
    def sent_bytes(self) -> int:
        """The bytes of its requests."""
        return sum(request.sent_bytes for request in self.requests)

    @property
    def received_bytes(self) -> int:
        """The bytes of the replies."""
        return sum(len(reply.wire()) for reply in self.replies)


Tapes = dict[tuple[str, str], tuple[Call, ...]]


def recorded(cases: Sequence[Case], count: int) -> Tapes:
    """`count` calls of each library in each case, by the names of both."""
    return in_fresh_process("sdk", _recorded, cases, count)


def _recorded(cases: Sequence[Case], count: int) -> Tapes:
    return {
        (case.name, name): record(case, name, count)
        for case in cases
        for name in ("oncekey", "powertools")
    }


def record(case: Case, contender: str, count: int) -> tuple[Call, ...]:
    """The calls of one contender in one case."""
    calls: list[Call] = []
    nested: list[Event] = []

    def on_run(event: Event) -> None:
        # The second call begins while the first one runs.
        if nested:
            calls.append(moto.call(handler, nested.pop()))

    with moto_with_tables("pk" if contender == "oncekey" else "id") as moto:
        handler = getattr(contenders, contender)(case, on_run)
        for event in case.events(count):
            if case.before == "running":
                nested.append(event)
            if case.before != "nothing":
                handler(event, Context())
            if case.before != "running":
                calls.append(moto.call(handler, event))
    return tuple(calls)


@contextlib.contextmanager
def moto_with_tables(key: str = "pk") -> Iterator[Moto]:
    """Every request of botocore goes to moto, which has the tables and the queue of the work.

    `key` is that of the idempotency table. With `pk` it has oncekey's index.
    """
    from moto.dynamodb.models import dynamodb_backends
    from moto.sqs.models import sqs_backends

    from infra.service_resources import IDEMPOTENCY
    from oncekey_local.store.tables import create_table_request

    dynamodb_backends.reset()
    sqs_backends.reset()
    keys = {TABLE: key, OUTBOX: "id", PAYMENTS: "pk"}
    moto = Moto(keys)
    with sending_by(moto.send):
        moto.client("sqs").create_queue(QueueName="payments")
        for table, name in keys.items():
            request: dict[str, Any] = {
                "TableName": table,
                "BillingMode": "PAY_PER_REQUEST",
                "KeySchema": [{"AttributeName": name, "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"}],
            }
            if table == TABLE and key == "pk":
                request = create_table_request(TABLE, IDEMPOTENCY)
            moto.client("dynamodb").create_table(**request)
        yield moto


class Moto:
    """Answers requests by moto, and notes both and, for the first call, what they cost."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        import boto3

        self.client: Callable[[str], Any] = cache(boto3.client)
        self._keys = keys
        self._player = Player()
        self._exchanges: list[tuple[Request, Reply]] = []
        self._units: Units | None = None

    def noted(self, action: Callable[[], object]) -> list[tuple[Request, Reply]]:
        """What `action` exchanges."""
        self._exchanges = []
        action()
        return list(self._exchanges)

    def call(self, handler: Callable[[Event, Any], Any], event: Event) -> Call:
        """One call of `handler`, with all that it exchanges."""
        is_first = self._units is None
        with sending_by(self._send_and_price if is_first else self.send):
            requests, replies = zip(*self.noted(lambda: handler(event, Context())), strict=True)
        assert self._units is not None
        return Call(event, requests, replies, self._units)

    def send(self, prepared: AWSPreparedRequest) -> AWSResponse:
        """In place of `URLLib3Session.send`."""
        from moto.core.models import botocore_stubber

        answer = botocore_stubber.process_request(prepared)
        assert answer is not None
        status, _, body = answer
        reply = Reply(status, body.encode() if isinstance(body, str) else bytes(body))
        self._exchanges.append((request_of(prepared), reply))
        self._player.load([reply])
        return self._player.send(prepared)

    def _send_and_price(self, prepared: AWSPreparedRequest) -> AWSResponse:
        operation, keys = _touched(request_of(prepared), self._keys)
        before = [self._item(table, key) for table, key in keys]
        answer = self.send(prepared)
        after = [self._item(table, key) for table, key in keys]
        times = 2 if operation == "TransactWriteItems" else 1
        costs = [
            units.read(old) if operation == "GetItem" else units.written(old, new, times=times)
            for old, new in zip(before, after, strict=True)
        ]
        self._units = reduce(add, costs, self._units or Units())
        return answer

    def _item(self, table: str, key: Mapping[str, Any]) -> Mapping[str, Any] | None:
        with sending_by(self.send):
            answer = self.client("dynamodb").get_item(TableName=table, Key=key)
        # Looking is no part of the call.
        self._exchanges.pop()
        item: Mapping[str, Any] | None = answer.get("Item")
        return item


def _touched(
    request: Request, keys: Mapping[str, str]
) -> tuple[str, list[tuple[str, Mapping[str, Any]]]]:
    """The operation, and the table and the key of each item that it reads or writes."""
    asked = json.loads(request.body)
    each_one = [asked]
    if request.operation == "TransactWriteItems":
        each_one = [next(iter(each.values())) for each in asked["TransactItems"]]
    touched: list[tuple[str, Mapping[str, Any]]] = []
    for each in each_one:
        name = keys[each["TableName"]]
        touched.append((each["TableName"], {name: (each.get("Key") or each["Item"])[name]}))
    return request.operation, touched
