"""The Lambda event and context of an ASGI request, from whatever called the app.

Mangum puts the event and the context into the scope. Lambda Web Adapter sends the request context
and the deadline in headers, which replace a client's headers of the same name. Nothing else proves
that they come from it.
https://mangum.fastapiexpert.com/adapter/
https://awslabs.github.io/aws-lambda-web-adapter/features/request-context.html
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from oncekey.environment import environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping

    from oncekey.clock import Clock

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_REQUEST_CONTEXT, _LAMBDA_CONTEXT = "x-amzn-request-context", "x-amzn-lambda-context"


class ClientGoneError(Exception):
    """The client closed the connection before its request had arrived."""


class Invocation:
    """The event and the context of a request, and the `receive` with which the app reads it."""

    def __init__(self, event: dict[str, Any], context: object, receive: Receive) -> None:
        self.event = event
        self.context = context
        self.receive = receive


class _Deadline:
    """The part of a Lambda context that the layer needs."""

    def __init__(self, deadline_ms: int, clock: Clock) -> None:
        self._deadline_ms = deadline_ms
        self._clock = clock

    def get_remaining_time_in_millis(self) -> int:
        """The remaining time of this invocation."""
        return self._deadline_ms - self._clock.now_ms()


async def invocation_of(
    scope: Scope, receive: Receive, clock: Clock, *, has_adapter: bool
) -> Invocation:
    """The invocation that the request is a part of.

    Its request context has the scope as the member `asgi`. `has_adapter` says that all requests in
    Lambda come through Lambda Web Adapter.

    Raises:
        ClientGoneError: the client closed the connection.
    """
    event = scope.get("aws.event")
    if event is not None:
        context = {**(event.get("requestContext") or {}), "asgi": scope}
        return Invocation({**event, "requestContext": context}, scope.get("aws.context"), receive)
    body = await _body(receive)
    lines = _header_lines(scope)
    # Without the adapter, and outside Lambda, a client may send these headers itself.
    is_adapted = has_adapter and "AWS_LAMBDA_FUNCTION_NAME" in environment().variables
    request_context = _json(lines.pop(_REQUEST_CONTEXT, "")) if is_adapted else {}
    lambda_context = _json(lines.pop(_LAMBDA_CONTEXT, "")) if is_adapted else {}
    return Invocation(
        _event(scope, lines, body, request_context),
        _context(lambda_context, clock),
        _again(body, receive),
    )


def _event(
    scope: Scope, lines: dict[str, str], body: bytes, context: Mapping[str, Any]
) -> dict[str, Any]:
    raw_path: bytes | None = scope.get("raw_path")
    path = quote(scope["path"]) if raw_path is None else raw_path.decode("latin-1")
    http = {"method": scope["method"], "path": path}
    return {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": scope.get("query_string", b"").decode("latin-1"),
        "headers": lines,
        "requestContext": {**context, "http": http, "asgi": scope},
        "body": base64.b64encode(body).decode("ascii"),
        "isBase64Encoded": True,
    }


def _context(lambda_context: Mapping[str, Any], clock: Clock) -> _Deadline | None:
    deadline_ms = lambda_context.get("deadline", lambda_context.get("deadline_ms"))
    return _Deadline(deadline_ms, clock) if isinstance(deadline_ms, int) else None


def _header_lines(scope: Scope) -> dict[str, str]:
    # Lines of one name are joined by commas, as in payload 2.0.
    lines: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        lines[name] = f"{lines[name]},{value}" if name in lines else value
    return lines


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def staying(receive: Receive) -> Receive:
    """`receive` for an app whose client seems to stay until the app has ended.

    The answer is stored for the retry of a client that has gone. Starlette cuts a stream short as
    soon as it hears of that, and the retry would get a part of the answer.
    """

    async def received() -> MutableMapping[str, Any]:
        message = await receive()
        if message["type"] == "http.disconnect":
            await asyncio.Event().wait()
        return message

    return received


def _again(body: bytes, receive: Receive) -> Receive:
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> MutableMapping[str, Any]:
        return messages.pop() if messages else await receive()

    return received
