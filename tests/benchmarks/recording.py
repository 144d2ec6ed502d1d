"""Records what a contender sends in a case, and what DynamoDB answers, once, against moto.

A process of its own does it: moto stays in the clients of the process that loads it.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.benchmarks import contenders
from tests.benchmarks.cases import TABLE, Case, Context
from tests.benchmarks.environment import use_environment
from tests.benchmarks.transport import Player, Reply, Request, request_of, sending_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from botocore.awsrequest import AWSPreparedRequest, AWSResponse

    from tests.support.events import Event


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a handler, with what it sends and what is answered."""

    event: Event
    requests: tuple[Request, ...]
    replies: tuple[Reply, ...]


@dataclass(frozen=True, slots=True)
class Tape:
    """The recorded calls of one contender in one case."""

    contender: str
    calls: tuple[Call, ...]


def recorded(cases: Sequence[Case], count: int) -> dict[tuple[str, str], Tape]:
    """The tapes of `count` calls by the names of case and contender."""
    names = ("oncekey", "powertools")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=use_environment) as process:
        jobs = {
            (case.name, name): process.submit(_record, case, name, count)
            for case in cases
            for name in names
        }
        return {names: job.result() for names, job in jobs.items()}


def _record(case: Case, contender: str, count: int) -> Tape:
    from moto.dynamodb.models import dynamodb_backends

    dynamodb_backends.reset()
    moto = _Moto()
    calls: list[Call] = []
    nested: list[Event] = []

    def work(event: Event) -> dict[str, Any]:
        # The second call begins while the first one runs.
        if nested:
            calls.append(moto.call(handler, nested.pop()))
        return case.work(event)

    with sending_by(moto.send):
        _create_table(contender)
        handler = getattr(contenders, contender)(case, work)
        for event in case.events(count):
            if case.before == "running":
                nested.append(event)
            if case.before != "nothing":
                handler(event, Context())
            if case.before != "running":
                calls.append(moto.call(handler, event))
    return Tape(contender, tuple(calls))


def _create_table(contender: str) -> None:
    import boto3

    from infra.service_resources import IDEMPOTENCY
    from oncekey_local.store.tables import create_table_request

    request = create_table_request(TABLE, IDEMPOTENCY)
    if contender == "powertools":
        key = {"AttributeName": "id"}
        request = {
            "TableName": TABLE,
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{**key, "KeyType": "HASH"}],
            "AttributeDefinitions": [{**key, "AttributeType": "S"}],
        }
    boto3.client("dynamodb").create_table(**request)


class _Moto:
    """Answers requests by moto, and notes both."""

    def __init__(self) -> None:
        self._player = Player()
        self._exchanges: list[tuple[Request, Reply]] = []

    def send(self, prepared: AWSPreparedRequest) -> AWSResponse:
        """In place of `URLLib3Session.send`."""
        from moto.core.models import botocore_stubber

        answer = botocore_stubber.process_request(prepared)
        assert answer is not None
        status, _, body = answer
        reply = Reply(status, body.encode() if isinstance(body, str) else bytes(body))
        self._exchanges.append((request_of(prepared), reply))
        self._player.put_in([reply])
        return self._player.send(prepared)

    def call(self, handler: contenders.Handler, event: Event) -> Call:
        """One call of `handler`, with all that it exchanges."""
        self._exchanges = []
        handler(event, Context())
        requests, replies = zip(*self._exchanges, strict=True)
        return Call(event, requests, replies)
