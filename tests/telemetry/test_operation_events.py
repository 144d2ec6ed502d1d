"""What an author hears of calls that are no plain runs, by `on_event=`."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from oncekey import (
    ConfigurationError,
    InProgress,
    KeyReused,
    OperationEvent,
    OutcomeUnknown,
    idempotent,
    idempotent_function,
    single_tenant,
)
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.asgi_apps import Service as AppService
from tests.support.events import load, with_body
from tests.support.protected import Protected
from tests.support.routes import Service as RoutedService

POST = load("apigw_http_v2_post")
# The default lease, its margin, and a moment.
LEASE_IS_OVER_MS = 60_000 + 5_000 + 1


class Heard:
    """A function, and what is heard of it."""

    def __init__(self, **options: Any) -> None:
        self.events: list[OperationEvent] = []
        self.runs = 0
        self.then: Any = lambda: "done"
        self.store, self.clock = MemoryStore(), ManualClock()
        self.call = self._protected(options)

    def _protected(self, options: dict[str, Any]) -> Any:
        @idempotent_function(
            operation="heard",
            key=lambda key, what: key,
            tenant=single_tenant(),
            fingerprint=lambda key, what: what,
            store=self.store,
            clock=self.clock,
            on_event=self.events.append,
            **options,
        )
        def function(key: str, what: int) -> Any:
            self.runs += 1
            return self.then()

        return function

    @property
    def kinds(self) -> list[str]:
        """The kinds of what was heard."""
        return [event.kind for event in self.events]


class Killed(BaseException):
    """What a process ends by."""


def killed() -> None:
    """An ending that nobody records."""
    raise Killed


@pytest.mark.fault("K11.8")
def test_a_replay_of_a_function_is_told_from_a_run(caplog: pytest.LogCaptureFixture) -> None:
    """A run is silent. Each replay is heard, with the operation that it is of, and is one line of
    the log.

    Red when a replay returns its result and nothing else.
    """
    heard = Heard()
    with caplog.at_level(logging.DEBUG, logger="oncekey"):
        assert heard.call("a", 1) == "done"
        assert heard.events == []
        assert heard.call("a", 1) == heard.call("a", 1) == "done"

    (record,) = heard.store.records.values()
    event = OperationEvent(
        kind="replay", operation="heard", operation_id=record.operation_id, attempt=1
    )
    assert heard.events == [event, event]
    assert heard.runs == 1
    said = [vars(each)["oncekey_event"] for each in caplog.records]
    assert said.count("replayed") == 2


@pytest.mark.fault("K11.8")
def test_refusals_are_heard_with_their_kind() -> None:
    """A key that is in use, one of another call, and an outcome that is not known are heard; of an
    attempt that ends unknown its own caller hears as well.

    Red when a refusal is raised without a word, or under another's kind.
    """
    heard = Heard()

    def calls_itself() -> str:
        with pytest.raises(InProgress):
            heard.call("a", 1)
        return "done"

    heard.then = calls_itself
    heard.call("a", 1)
    assert heard.kinds == ["conflict"]

    with pytest.raises(KeyReused):
        heard.call("a", 2)
    assert heard.kinds == ["conflict", "key-reused"]

    heard.then = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        heard.call("b", 1)
    with pytest.raises(OutcomeUnknown):
        heard.call("b", 1)
    assert heard.kinds == ["conflict", "key-reused", "unknown", "unknown"]


@pytest.mark.fault("K11.8")
def test_a_takeover_is_heard_with_the_attempt_that_goes_on() -> None:
    """An attempt that goes on in place of a dead one is heard before it runs, under its own number;
    one that runs again after a failure is none.

    Red when a takeover looks like a first run.
    """
    heard = Heard(effects="repeatable")
    write = heard.store.write
    heard.then = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        heard.call("failed", 1)
    heard.then = lambda: "done"
    heard.call("failed", 1)
    assert heard.events == []

    # The process dies: its ending is never written.
    def dies() -> None:
        heard.store.write = lambda _: (_ for _ in ()).throw(Killed)  # type: ignore[method-assign,assignment]
        raise Killed

    heard.then = dies
    with pytest.raises(Killed):
        heard.call("a", 1)
    heard.store.write = write  # type: ignore[method-assign]
    heard.clock.advance(LEASE_IS_OVER_MS)
    heard.events.clear()

    heard.then = lambda: [event.kind for event in heard.events]
    assert heard.call("a", 1) == ["takeover"]
    assert [event.attempt for event in heard.events] == [2]


@pytest.mark.fault("K11.8")
def test_http_operations_are_heard_in_the_same_way() -> None:
    """A handler's replays and refusals are heard like a function's, sync and async.

    Red when the option is a function's alone.
    """
    events: list[OperationEvent] = []
    service = Protected(on_event=events.append)
    for event in (POST, POST, with_body(POST, '{"other":1}')):
        service.send(event)
    assert [each.kind for each in events] == ["replay", "key-reused"]

    @idempotent(
        operation="heard later",
        tenant=single_tenant(),
        store=MemoryStore(),
        on_event=events.append,
    )
    async def handler(event: Any, context: Any) -> dict[str, Any]:
        return {"statusCode": 200}

    async def twice() -> None:
        await handler(POST, None)
        await handler(POST, None)

    events.clear()
    asyncio.run(twice())
    assert [each.kind for each in events] == ["replay"]


@pytest.mark.fault("K11.8")
def test_a_hook_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """What the hook raises is logged without its text, and the caller gets its answer.

    Red when a listener breaks the call that it listens to.
    """

    def raises(event: OperationEvent) -> None:
        raise ValueError("4242")

    heard = Heard()
    function = idempotent_function(
        operation="raises", key="@", tenant=single_tenant(), store=heard.store, on_event=raises
    )(lambda key: key)

    assert function("a") == function("a") == "a"
    assert "on_event of raises raised ValueError at replay" in caplog.text
    assert "4242" not in caplog.text


async def _later(event: OperationEvent) -> None:
    """Nobody awaits it."""


@pytest.mark.fault("K11.8")
@pytest.mark.parametrize("decorator", [idempotent, idempotent_function])
@pytest.mark.parametrize(
    ("hook", "fault"),
    [(1, "on_event is no callable"), (print.__class__, "no callable"), (_later, "async function")],
    ids=["number", "class", "async"],
)
def test_a_hook_that_cannot_hear_is_refused(decorator: Any, hook: Any, fault: str) -> None:
    """What is no plain callable is refused when it is decorated.

    Red when the first replay shows it.
    """
    options = {"key": "@"} if decorator is idempotent_function else {}

    with pytest.raises(ConfigurationError, match=fault):
        decorator(operation="x", tenant=single_tenant(), on_event=hook, **options)


@pytest.mark.fault("K11.8")
def test_the_routes_of_a_resolver_and_of_an_app_are_heard_in_the_same_way() -> None:
    """The middlewares for Powertools and for ASGI apps pass the option on, and the event names the
    route.

    Red when a middleware drops the option.
    """
    events: list[OperationEvent] = []
    resolver, app = RoutedService(), AppService(on_event=events.append)
    resolver.app.use(middlewares=[resolver.protect(on_event=events.append)])

    def answer() -> dict[str, Any]:
        return {}

    resolver.app.post("/payments")(answer)
    app.app.post("/payments")(answer)
    for service in (resolver, app):
        service.send(POST)
        service.send(POST)

    assert [(each.kind, each.operation) for each in events] == [("replay", "POST /payments")] * 2
