"""A protected handler to send sample events to, with scripted answers and counted runs."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey import idempotent, single_tenant
from oncekey.testing.memory import ManualClock, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from oncekey import Operation
    from oncekey.store.store import Store

Answer = dict[str, Any]
_OURS = frozenset({"idempotency-key", "idempotency-expires", "idempotent-replayed"})

# One sample event of each shape, and one more with a body in base64.
SHAPES = [
    "apigw_http_v2_post",
    "apigw_http_v2_base64_post",
    "apigw_rest_v1_post",
    "alb_post",
    "alb_multi_value_post",
    "function_url_post",
]


@dataclass
class Context:
    """A Lambda context that has this much time left, by the clock of the test."""

    clock: ManualClock
    deadline_ms: int

    def get_remaining_time_in_millis(self) -> int:
        """As in Lambda."""
        return self.deadline_ms - self.clock.now_ms()


class Sender(ABC):
    """What tests ask of any protected service."""

    store: Any

    @abstractmethod
    def send(self, event: Mapping[str, Any]) -> Answer:
        """One invocation."""

    @property
    def operations(self) -> list[str]:
        """The names of the operations that have records."""
        return [record.operation for record in self.store.records.values()]

    @property
    def record(self) -> Any:
        """The only record."""
        (record,) = self.store.records.values()
        return record

    def replays(self, event: Mapping[str, Any]) -> tuple[Answer, bool]:
        """The first answer to `event`, and whether the second is its replay."""
        first, second = self.send(event), self.send(event)
        is_repeated = is_replay(second)
        assert not is_repeated or second["body"] == first["body"]
        return first, is_repeated


class Protected:
    """A handler under `@idempotent`, on a clock and a store of its own unless others are given.

    `then` replaces what the handler does; without it, it answers 201 with the number of the run.
    """

    def __init__(
        self,
        *,
        store: Store | None = None,
        clock: ManualClock | None = None,
        timeout_ms: int = 10_000,
        **options: Any,
    ) -> None:
        # Two clocks draw the same operation ids: handlers on one store share one.
        self.clock = clock or ManualClock()
        self.store: Any = store or MemoryStore()
        self.runs: list[Operation] = []
        self.then: Callable[[Mapping[str, Any], Operation], Any] | None = None
        self._timeout_ms = timeout_ms
        options = {"operation": "POST /payments", "tenant": single_tenant(), **options}

        @idempotent(store=self.store, clock=self.clock, **options)
        def handler(event: dict[str, Any], context: object, op: Operation) -> Any:
            self.runs.append(op)
            if self.then is not None:
                return self.then(event, op)
            return {
                "statusCode": 201,
                "headers": {"Location": "/payments/1"},
                "body": json.dumps({"run": len(self.runs)}),
            }

        self.handler = handler

    def context(self) -> Context:
        """The context of an invocation that begins now."""
        return Context(self.clock, self.clock.now_ms() + self._timeout_ms)

    def send(self, event: Mapping[str, Any]) -> Answer:
        """One invocation."""
        answer: Answer = self.handler(dict(event), self.context())
        return answer


def headers_of(answer: Answer) -> dict[str, str]:
    """The headers by lower-case name, wherever the shape keeps them."""
    many = answer.get("multiValueHeaders") or {}
    flat = {name: ", ".join(values) for name, values in many.items()} | (
        answer.get("headers") or {}
    )
    return {name.lower(): value for name, value in flat.items()}


def problem_of(answer: Answer) -> tuple[int, str, bool]:
    """Status, code and retryable of a problem answer, after checking its form."""
    assert headers_of(answer)["content-type"] == "application/problem+json"
    body = json.loads(answer["body"])
    assert set(body) == {"type", "title", "status", "detail", "retryable"}
    assert body["status"] == answer["statusCode"]
    return answer["statusCode"], body["type"].rpartition(":")[2], body["retryable"]


def records(service: Protected) -> list[Any]:
    """What the service's store holds."""
    return list(service.store.records.values())


def while_running(service: Protected, event: dict[str, Any], then: Any) -> Any:
    """Send `event`, and call `then` while its handler runs; what `then` returns."""
    seen = []

    def handler(_event: object, _op: object) -> dict[str, Any]:
        service.then = None
        seen.append(then())
        return {"statusCode": 201, "body": '{"the first": true}'}

    service.then = handler
    service.send(event)
    return seen[0]


def answers(status: int, body: str = "{}") -> Callable[[Mapping[str, Any], Operation], Answer]:
    """A handler that answers so."""
    return lambda _event, _op: {"statusCode": status, "body": body}


def fails(error: BaseException) -> Callable[[Mapping[str, Any], Operation], Answer]:
    """A handler that raises `error`."""

    def handler(_event: object, _op: object) -> Answer:
        raise error

    return handler


def is_replay(answer: Answer) -> bool:
    """Whether the answer says that it is one."""
    return headers_of(answer).get("idempotent-replayed") == "true"


def without_ours(answer: Answer) -> Answer:
    """`answer` without the headers that the layer itself adds."""
    bare = dict(answer)
    for member in ("headers", "multiValueHeaders"):
        if member in bare:
            bare[member] = {
                name: value for name, value in bare[member].items() if name.lower() not in _OURS
            }
    return bare
