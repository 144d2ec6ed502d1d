"""FastAPI apps behind Mangum to send sample events to, with a store and a clock of their own."""

from __future__ import annotations

import asyncio
import base64
import copy
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from mangum import Mangum

from oncekey import single_tenant
from oncekey.asgi import IdempotencyMiddleware
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.protected import Answer, Context, Sender, headers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping, Sequence


@contextmanager
def event_loop() -> Iterator[None]:
    """An event loop for Mangum, which runs the app in the current one."""
    with asyncio.Runner() as runner:
        asyncio.set_event_loop(runner.get_loop())
        yield


class Service(Sender):
    """An app whose routes are protected; `send` is one invocation through Mangum."""

    def __init__(self, app: Any = None, **options: Any) -> None:
        self.clock = ManualClock()
        # Whether the conditions of writes hold.
        self.holds = True
        self.store = MemoryStore(holds=lambda _write: self.holds)
        self.runs: list[Any] = []
        # What the last `call` was sent.
        self.sent: list[Any] = []
        self.app: FastAPI = app or FastAPI(openapi_url=None)
        given: dict[str, Any] = {"tenant": single_tenant(), **options}
        self.app.add_middleware(IdempotencyMiddleware, store=self.store, clock=self.clock, **given)

    def send(self, event: Mapping[str, Any], *, timeout_ms: int = 10_000) -> Answer:
        """One invocation."""
        context: Any = Context(self.clock, self.clock.now_ms() + timeout_ms)
        with event_loop():
            answer: Answer = Mangum(self.app, lifespan="off")(copy.deepcopy(dict(event)), context)
        if answer["isBase64Encoded"] and "problem" in headers_of(answer)["content-type"]:
            # Mangum does not know this type as text. The gateway decodes it.
            answer["body"] = base64.b64decode(answer["body"]).decode()
        return answer

    def call(
        self,
        headers: Mapping[str, str],
        body: bytes = b"{}",
        path: str = "/payments",
        *,
        leaves: bool = False,
        offers: Sequence[str] = (),
    ) -> Answer:
        """One POST over ASGI, as a server on a port makes it of what it received.

        The client `leaves` as soon as it has sent its request. The server `offers` extensions.
        """
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "extensions": {name: {} for name in offers},
            "headers": [(n.lower().encode(), v.encode()) for n, v in headers.items()],
        }
        parts = [body[:1], body[1:]]
        sent = self.sent = []

        async def receive() -> dict[str, Any]:
            if not parts and leaves:
                return {"type": "http.disconnect"}
            if not parts:
                # The client stays connected.
                await asyncio.Event().wait()
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        asyncio.run(self.app(scope, receive, send))
        return {
            "statusCode": sent[0]["status"],
            "headers": {name.decode(): value.decode() for name, value in sent[0]["headers"]},
            "body": b"".join(message["body"] for message in sent[1:]).decode(),
        }
