"""The Lambda Runtime API for the sandboxes of this machine, each on a port of its own.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from aiohttp import web

from oncekey_local.bodies import TooLarge, Unreadable, read_body
from oncekey_local.front.http_api_event import MAX_PAYLOAD_BYTES
from oncekey_local.identifiers import new_segment_id, new_trace_root
from oncekey_local.processes import LOOPBACK, listening_socket

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOT = "/2018-06-01/runtime/"
_INVOCATION = f"{_ROOT}invocation/"


class OutcomeKind(StrEnum):
    """How an invocation ended."""

    RESULT = "result"
    FUNCTION_ERROR = "function-error"
    TIMED_OUT = "timed-out"
    DIED = "died"
    NOT_STARTED = "not-started"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an invocation ended, and the JSON that the function returned if it did."""

    kind: OutcomeKind
    payload: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One invocation as a sandbox gets it."""

    request_id: str
    event: bytes
    deadline_ms: int
    function_arn: str


@dataclass(frozen=True, kw_only=True)
class Listener:
    """What a sandbox's owner wants to hear from it.

    `on_poll`: it asks for work. `on_outcome`: the assignment of this request id has ended; false if
    there is no such.
    """

    on_poll: Callable[[], None]
    on_outcome: Callable[[str, Outcome], bool]


class Endpoint:
    """One sandbox's side of the API."""

    def __init__(self, address: str, site: web.SockSite, listener: Listener) -> None:
        self.address = address
        self.listener = listener
        self._site = site
        self._next: asyncio.Future[Assignment | None] | None = None

    def hand_over(self, assignment: Assignment) -> None:
        """Answers the sandbox's open poll. There must be one."""
        assert self._next is not None
        self._next.set_result(assignment)
        self._next = None

    async def poll(self) -> Assignment | None:
        """Waits for work; None when the endpoint is closed instead."""
        work: asyncio.Future[Assignment | None] = asyncio.get_running_loop().create_future()
        self._next = work
        self.listener.on_poll()  # may hand over at once
        return await work

    async def close(self) -> None:
        """Stops listening; a poll that is open is answered with nothing."""
        if self._next and not self._next.done():
            self._next.set_result(None)
        await self._site.stop()


class RuntimeApi:
    """All endpoints, served by the one event loop of `oncekey dev`."""

    def __init__(self) -> None:
        self._endpoints: dict[int, Endpoint] = {}
        server = web.Server(self._handle, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.2)

    async def start(self) -> None:
        """Must have returned before the first `open`."""
        await self._runner.setup()

    async def open(self, listener: Listener) -> Endpoint:
        """A new endpoint that listens when this returns."""
        sock = listening_socket(0, purpose="runtime API")
        port: int = sock.getsockname()[1]
        site = web.SockSite(self._runner, sock)
        self._endpoints[port] = Endpoint(f"{LOOPBACK}:{port}", site, listener)
        await site.start()
        return self._endpoints[port]

    async def close(self, endpoint: Endpoint) -> None:
        """Closes one endpoint."""
        self._endpoints = {
            port: other for port, other in self._endpoints.items() if other is not endpoint
        }
        await endpoint.close()

    async def stop(self) -> None:
        """Stops everything; the sandboxes must be gone."""
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        port = request.transport.get_extra_info("sockname")[1] if request.transport else 0
        endpoint = self._endpoints.get(port)
        if endpoint is None:
            return _refusal(410, "this sandbox is gone")
        if request.method == "GET" and request.path == f"{_INVOCATION}next":
            return _next_response(await endpoint.poll())
        if request.method == "POST" and request.path == f"{_ROOT}init/error":
            # The client has logged it already, and ends; its end is what counts.
            with contextlib.suppress(Unreadable, TooLarge):
                await read_body(request, limit_bytes=MAX_PAYLOAD_BYTES)
            return _accepted()
        if request.method == "POST" and request.path.startswith(_INVOCATION):
            request_id, _, what = request.path.removeprefix(_INVOCATION).partition("/")
            return await _take_outcome(request, endpoint, request_id, what)
        return _refusal(404, "there is no such path in the Runtime API")


async def _take_outcome(
    request: web.BaseRequest, endpoint: Endpoint, request_id: str, what: str
) -> web.Response:
    if what not in {"response", "error"}:
        return _refusal(404, "an invocation has a response or an error")
    kind = OutcomeKind.RESULT if what == "response" else OutcomeKind.FUNCTION_ERROR
    try:
        outcome = Outcome(
            kind=kind, payload=await read_body(request, limit_bytes=MAX_PAYLOAD_BYTES)
        )
    except TooLarge:
        endpoint.listener.on_outcome(request_id, Outcome(kind=OutcomeKind.FUNCTION_ERROR))
        return _refusal(413, f"a result is at most {MAX_PAYLOAD_BYTES} bytes")
    except Unreadable:
        return _refusal(400, "a result must arrive whole")  # the sandbox's end says the rest
    if not endpoint.listener.on_outcome(request_id, outcome):
        return _refusal(400, "this sandbox is not working on that request")
    return _accepted()


def _next_response(assignment: Assignment | None) -> web.Response:
    if assignment is None:
        return _refusal(410, "this sandbox is gone")
    # Without the trace id or the content type, the native client crashes with a segmentation fault.
    headers = {
        "Lambda-Runtime-Aws-Request-Id": assignment.request_id,
        "Lambda-Runtime-Deadline-Ms": str(assignment.deadline_ms),
        "Lambda-Runtime-Invoked-Function-Arn": assignment.function_arn,
        "Lambda-Runtime-Trace-Id": f"{new_trace_root()};Parent={new_segment_id()};Sampled=0",
        "Content-Type": "application/json",
    }
    return web.Response(body=assignment.event, headers=headers)


def _accepted() -> web.Response:
    return web.Response(status=202, body=b'{"status":"OK"}', content_type="application/json")


def _refusal(status: int, message: str) -> web.Response:
    body = json.dumps({"errorType": "RuntimeApi", "errorMessage": message}).encode()
    return web.Response(status=status, body=body, content_type="application/json")
