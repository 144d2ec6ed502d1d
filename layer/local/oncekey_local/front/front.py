"""The HTTP front: it acts like API Gateway's HTTP API between a client and a function."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote

from aiohttp import web

from oncekey_local.bodies import TooLarge, Unreadable, read_body
from oncekey_local.console.mount import CONSOLE_PREFIX
from oncekey_local.front import cross_origin, http_api_response, tokens
from oncekey_local.front.control import CONTROL_PREFIX
from oncekey_local.front.http_api_event import (
    MAX_PAYLOAD_BYTES,
    HttpRequest,
    Reception,
    event_bytes,
)
from oncekey_local.front.routing import Match, Router
from oncekey_local.functions.runtime_api import OutcomeKind
from oncekey_local.identifiers import new_id, new_trace_root, now_ms
from oncekey_local.log import log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from oncekey_local.console.mount import MountedConsole
    from oncekey_local.description import Service
    from oncekey_local.events.pumps import Invoke
    from oncekey_local.front.control import Control
    from oncekey_local.front.http_api_response import HttpResponse

# Where the service's document is, unless the service has such a route itself.
OPENAPI_PATH = "/openapi.json"
# API Gateway stops waiting for a function after this, even if the function is still running.
INTEGRATION_TIMEOUT_S = 30
# A client that sends its body more slowly than this holds a connection for nothing.
BODY_TIMEOUT_S = 30
# Headers that the gateway always sets itself.
_GATEWAY_HEADERS = frozenset(
    {"x-amzn-trace-id", "x-forwarded-for", "x-forwarded-port", "x-forwarded-proto"}
)

_OUTCOMES = {
    OutcomeKind.TIMED_OUT: http_api_response.SERVICE_UNAVAILABLE,
    OutcomeKind.FUNCTION_ERROR: http_api_response.INTERNAL_SERVER_ERROR,
    OutcomeKind.DIED: http_api_response.INTERNAL_SERVER_ERROR,
    OutcomeKind.NOT_STARTED: http_api_response.INTERNAL_SERVER_ERROR,
}


class Front:
    """Answers every request to `oncekey dev`."""

    def __init__(
        self,
        service: Service,
        invoke: Mapping[str, Invoke],
        control: Control,
        document: Callable[[], Awaitable[HttpResponse]] | None = None,
        console: MountedConsole | None = None,
    ) -> None:
        self._router = Router(service)
        self._cors = service.cors
        self._invoke = invoke
        self._control = control
        self._document = document
        self._console = console

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request.

        Whatever a client sends, the answer is one that API Gateway could give.
        """
        raw_path, raw_query = _target(request)
        if raw_path.startswith(CONTROL_PREFIX):
            return await self._control.handle(request, raw_path, raw_query)
        if self._console and f"{raw_path}/".startswith(CONSOLE_PREFIX):
            return await self._console.handle(request, raw_path)
        match = self._router.match(request.method, raw_path)
        if match is None:
            answer = cross_origin.preflight(self._cors, request.method, request.headers)
            if self._document and (request.method, raw_path) == ("GET", OPENAPI_PATH):
                answer = await self._document()
            return self._web_response(answer or http_api_response.NOT_FOUND, request, {})
        request_id = new_id()
        begun = asyncio.get_running_loop().time()
        answer = await self._answer(request, raw_path, raw_query, match, request_id)
        elapsed_ms = (asyncio.get_running_loop().time() - begun) * 1000
        line = f"{match.route.key} {answer.status} {elapsed_ms:.0f} ms {request_id}"
        log(f"{line} {http_api_response.remark_on(answer.headers, answer.body)}".rstrip())
        return self._web_response(answer, request, {"apigw-requestid": request_id})

    def _web_response(
        self, answer: HttpResponse, request: web.BaseRequest, extra: Mapping[str, str]
    ) -> web.Response:
        whole = cross_origin.with_cors(self._cors, answer, request.method, request.headers)
        response = web.Response(status=whole.status, body=whole.body, headers=extra)
        for name, value in whole.headers:
            if name == "content-type":
                response.headers["content-type"] = value
            else:
                response.headers.add(name, value)
        return response

    async def _answer(
        self, request: web.BaseRequest, raw_path: str, raw_query: str, match: Match, request_id: str
    ) -> HttpResponse:
        try:
            token = request.headers.get("Authorization")
            claims = tokens.verify(token) if match.route.authorized else None
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await read_body(request, limit_bytes=MAX_PAYLOAD_BYTES)
        except tokens.Unauthorized:
            return http_api_response.UNAUTHORIZED
        except TooLarge:
            return http_api_response.TOO_LARGE
        except Unreadable:
            return http_api_response.BAD_REQUEST
        except TimeoutError:
            return http_api_response.REQUEST_TIMEOUT
        reception = Reception(
            route_key=match.route.key,
            path_parameters=match.parameters,
            claims=claims,
            request_id=request_id,
            time_ms=now_ms(),
            domain_name=request.host.partition(":")[0],
        )
        event = event_bytes(_http_request(request, raw_path, raw_query, body), reception)
        if len(event) > MAX_PAYLOAD_BYTES:
            return http_api_response.TOO_LARGE
        return await self._run(match.function.name, event)

    async def _run(self, function: str, event: bytes) -> HttpResponse:
        try:
            async with asyncio.timeout(INTEGRATION_TIMEOUT_S):
                outcome = await self._invoke[function](event)
        except TimeoutError:
            # As API Gateway. The function goes on, or waits for a sandbox, and its end is not seen.
            log(f"[{function}] no answer within {INTEGRATION_TIMEOUT_S:g} s: its client got 503")
            return http_api_response.SERVICE_UNAVAILABLE
        if outcome.kind is not OutcomeKind.RESULT:
            return _OUTCOMES[outcome.kind]
        try:
            return http_api_response.response(outcome.payload)
        except http_api_response.InvalidResponse as error:
            log(f"[{function}] returned no valid response: {error}")
            return http_api_response.INTERNAL_SERVER_ERROR


def _target(request: web.BaseRequest) -> tuple[str, str]:
    """Path and query as they were sent, in ASCII.

    Other bytes, which the client should have percent-encoded, are encoded here.
    """
    sent = request.raw_path.encode("utf-8", "surrogateescape")
    path, _, query = quote(sent, safe=bytes(range(0x21, 0x7F))).partition("?")
    return path, query.partition("#")[0]


def _http_request(
    request: web.BaseRequest, raw_path: str, raw_query: str, body: bytes
) -> HttpRequest:
    source_ip = request.remote or ""
    sent = [
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers
    ]
    forwarded = [value for name, value in sent if name.lower() == "x-forwarded-for"]
    headers = [(name, value) for name, value in sent if name.lower() not in _GATEWAY_HEADERS]
    headers += [
        ("x-amzn-trace-id", new_trace_root()),
        ("x-forwarded-for", ", ".join([*forwarded, source_ip])),
        ("x-forwarded-port", request.host.partition(":")[2] or "80"),
        ("x-forwarded-proto", "http"),
    ]
    return HttpRequest(
        method=request.method,
        raw_path=raw_path,
        raw_query=raw_query,
        protocol=f"HTTP/{request.version.major}.{request.version.minor}",
        headers=headers,
        body=body,
        source_ip=source_ip,
    )
