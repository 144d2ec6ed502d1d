"""The operation's keys in Powertools' log lines and traces."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from aws_lambda_powertools import Logger, Tracer

from oncekey import current_operation, idempotent_function, single_tenant
from oncekey.powertools import operation_keys
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.events import load
from tests.support.routes import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

POST = load("apigw_http_v2_post")
_numbers = itertools.count()
KEYS = ("operation", "operation_id", "attempt", "idempotency_key")


class Lines:
    """A Logger of Powertools' and what it has written."""

    def __init__(self) -> None:
        self._written = io.StringIO()
        # Loggers of one service write to one stream, so each test has a service of its own.
        self.logger = Logger(service=f"payments {next(_numbers)}", stream=self._written)

    @property
    def keys(self) -> list[dict[str, Any]]:
        """The operation's keys in each line."""
        lines = map(json.loads, self._written.getvalue().splitlines())
        return [{name: line[name] for name in KEYS if name in line} for line in lines]


class Segment:
    """A provider of traces that keeps the annotations."""

    def __init__(self) -> None:
        self.annotations: dict[str, Any] = {}

    @contextmanager
    def in_subsegment(self, name: str) -> Iterator[Segment]:
        """As X-Ray's."""
        yield self

    def put_annotation(self, key: str, value: Any) -> None:
        """As X-Ray's."""
        self.annotations[key] = value


def test_the_lines_of_a_route_name_its_operation_and_no_other_lines_do() -> None:
    """The keys are the record's, on each line of the route, and gone after it."""
    service, lines = Service(), Lines()
    service.app.use(middlewares=[service.protect()])

    @service.app.post("/payments")
    @operation_keys(logger=lines.logger)
    def create() -> dict[str, Any]:
        lines.logger.info("within")
        return {}

    service.send(POST)
    lines.logger.info("after")

    record = service.record
    within = ("POST /payments", record.operation_id, 1, record.key)
    assert lines.keys == [dict(zip(KEYS, within, strict=True)), {}]


def test_a_key_that_the_table_must_not_contain_is_in_no_line() -> None:
    """With `store_raw_key=False` the log has the operation's id only, also if the route raises."""
    service, lines = Service(), Lines()
    service.app.use(middlewares=[service.protect(store_raw_key=False)])

    @service.app.post("/payments")
    @operation_keys(logger=lines.logger)
    def create() -> dict[str, Any]:
        lines.logger.info(current_operation().key_for_logs)
        raise TimeoutError

    try:
        service.send(POST)
    except TimeoutError:
        lines.logger.info("after")

    assert [set(keys) for keys in lines.keys] == [{"operation", "operation_id", "attempt"}, set()]


def test_tasks_at_once_and_functions_in_functions_keep_their_own_keys() -> None:
    """Records that are worked on at the same time do not get each other's ids, and an outer
    operation's keys come back after an inner one.
    """
    lines, store, clock = Lines(), MemoryStore(), ManualClock()
    both_run = asyncio.Barrier(2)

    def protect(name: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
        return idempotent_function(
            operation=name, key="key", tenant=single_tenant(), store=store, clock=clock
        )

    @protect("inner")
    @operation_keys(logger=lines.logger)
    def inner(key: dict[str, str]) -> None:
        lines.logger.info("inner")

    @protect("outer")
    @operation_keys(logger=lines.logger)
    async def outer(key: dict[str, str]) -> None:
        await both_run.wait()
        inner(key)
        lines.logger.info("outer")

    async def both() -> None:
        await asyncio.gather(outer({"key": "a"}), outer({"key": "b"}))

    asyncio.run(both())

    named = [(keys["operation"], keys["idempotency_key"]) for keys in lines.keys]
    assert sorted(named) == [("inner", "a"), ("inner", "b"), ("outer", "a"), ("outer", "b")]


def test_an_inner_operation_does_not_get_the_key_of_the_outer_one() -> None:
    """A line of an operation that keeps its key out of the log has no other operation's key.

    Red when the outer operation's key stays in the lines of the inner one.
    """
    lines, store = Lines(), MemoryStore()

    @idempotent_function(
        operation="inner", key="key", tenant=single_tenant(), store=store, store_raw_key=False
    )
    @operation_keys(logger=lines.logger)
    def inner(_named: dict[str, str]) -> None:
        lines.logger.info("inner")

    @idempotent_function(operation="outer", key="key", tenant=single_tenant(), store=store)
    @operation_keys(logger=lines.logger)
    def outer(_named: dict[str, str]) -> None:
        inner({"key": "b"})
        lines.logger.info("outer")

    outer({"key": "a"})

    named = [(keys["operation"], keys.get("idempotency_key")) for keys in lines.keys]
    assert named == [("inner", None), ("outer", "a")]


def test_a_trace_is_annotated_with_the_operation() -> None:
    """The segment can be found by the operation's id and key."""
    segment: Any = Segment()
    tracer = Tracer(service="payments", provider=segment, disabled=False, auto_patch=False)
    service = Service()
    service.app.use(middlewares=[service.protect()])
    service.app.post("/payments")(operation_keys(tracer=tracer)(dict))

    service.send(POST)

    assert segment.annotations == {
        "operation": "POST /payments",
        "operation_id": service.record.operation_id,
        "attempt": 1,
        "idempotency_key": service.record.key,
    }
