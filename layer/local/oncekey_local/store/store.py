"""The local DynamoDB, SQS and S3: moto, behind an HTTP server that can fail the way a network does.

`python -m oncekey_local.store.store --port S` prints one line when it answers. `POST /_faults` sets
faults, `GET` shows them. `POST /_permissions` says what each function may do.

moto's conditional writes are not atomic between threads, and its transactions lose other callers'
writes. Here every request runs to its end on the only thread there is, so each is atomic.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aiohttp import web

from oncekey_local.arguments import port
from oncekey_local.bodies import TooLarge, Unreadable, read_body
from oncekey_local.log import log
from oncekey_local.processes import LOOPBACK, listening_socket
from oncekey_local.server_guards import lower_case
from oncekey_local.server_log import keep_requests_out_of_the_log
from oncekey_local.store import long_poll, wsgi
from oncekey_local.store.engines import is_of_a_queue, is_receive, is_write, moto_engines
from oncekey_local.store.faults import Faults
from oncekey_local.store.permissions import PERMISSIONS_PATH, Permissions
from oncekey_operator.console.guards import foreign

if TYPE_CHECKING:
    from oncekey_local.store.engines import Engines

READY = "oncekey store: listening on "
FAULTS_PATH = "/_faults"
# DynamoDB's own limit for a request is 16 MB. S3's is 5 GB, which would have to fit into memory.
_MAX_REQUEST_BYTES = 256 * 1024 * 1024


class Store:
    """Answers the requests of DynamoDB, its streams, SQS and S3, as its faults let it."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._faults = Faults()
        self._messages = long_poll.Arrivals()
        self._changes = long_poll.Arrivals()
        self._permissions = Permissions()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request, or closes its connection instead."""
        if request.path in {FAULTS_PATH, PERMISSIONS_PATH}:
            return await self._handle_own(request)
        if self._faults.down:
            return _hang_up(request)
        try:
            body = await read_body(request, limit_bytes=_MAX_REQUEST_BYTES)
        except TooLarge:
            return web.json_response({"__type": "RequestEntityTooLarge"}, status=413)
        except Unreadable:
            return web.json_response({"__type": "SerializationException"}, status=400)
        if self._faults.delay_ms:
            await asyncio.sleep(self._faults.delay_ms / 1000)
        if refused := self._permissions.refusal(request, body):
            answer, line = refused
            log(line)
            return answer
        if is_receive(request):
            return await self._receive(request, body)
        if wait_s := request.headers.get(long_poll.WAIT_HEADER):
            return await self._read_stream(request, body, float(wait_s))
        # Decided before the write: a fault switched on meanwhile concerns the requests after this
        # one.
        lost = is_write(request) and self._faults.lose_answers > 0
        if lost:
            self._faults.lose_answers -= 1
        answer = self._apply(request, body)
        if is_write(request):
            (self._messages if is_of_a_queue(request) else self._changes).announce()
        return _hang_up(request) if lost else answer

    async def _receive(self, request: web.BaseRequest, body: bytes) -> web.Response:
        asked, wait_s, queue = long_poll.without_wait(body)
        answer = await long_poll.answer_with(
            "Messages",
            lambda: self._apply(request, asked),
            wait_s,
            self._messages,
            comes_with_time=lambda: self._engines.has_messages(queue),
            is_over=lambda: self._is_over(request),
        )
        return answer or _hang_up(request)

    async def _read_stream(
        self, request: web.BaseRequest, body: bytes, wait_s: float
    ) -> web.Response:
        answer = await long_poll.answer_with(
            "Records",
            lambda: self._apply(request, body),
            wait_s,
            self._changes,
            is_over=lambda: self._is_over(request),
        )
        return answer or _hang_up(request)

    def _is_over(self, request: web.BaseRequest) -> bool:
        # A message for somebody who has left would be in flight for nobody. And what waits inside
        # while the store goes down has nothing to finish.
        return request.transport is None or self._faults.down

    def _apply(self, request: web.BaseRequest, body: bytes) -> web.Response:
        return wsgi.call(self._engines.of(request), request, body)

    async def _handle_own(self, request: web.BaseRequest) -> web.Response:
        if reason := foreign(lower_case(request.headers)):
            return web.json_response({"error": f"refused: {reason}"}, status=403)
        if request.path == FAULTS_PATH:
            return await self._handle_faults(request)
        self._permissions.tell(await request.json())
        return web.json_response({})

    async def _handle_faults(self, request: web.BaseRequest) -> web.Response:
        if request.method == "POST":
            try:
                self._faults.change(await _json(request))
            except ValueError as error:
                return web.json_response({"error": str(error)}, status=400)
        elif request.method != "GET":
            return web.json_response({"error": "use GET or POST"}, status=405)
        return web.json_response(asdict(self._faults))


async def _json(request: web.BaseRequest) -> Any:
    try:
        return await request.json()
    except ValueError:
        raise ValueError('the body must be JSON, such as {"down": true}') from None


def _hang_up(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)  # written to nobody


async def serve(port: int) -> None:
    """Serves until it is cancelled, and says on standard output when and where."""
    engines = moto_engines()
    listener = listening_socket(port, purpose="store")
    keep_requests_out_of_the_log()
    # An object is kept as it was sent, compressed or not.
    server = web.Server(Store(engines).handle, access_log=None, auto_decompress=False)
    runner = web.ServerRunner(server)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    print(f"{READY}http://{LOOPBACK}:{listener.getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


def main() -> int:
    """Runs the store as its own process."""
    parser = argparse.ArgumentParser(
        prog="python -m oncekey_local.store.store", description=__doc__
    )
    parser.add_argument(
        "--port", type=port, default=0, help="port on 127.0.0.1; 0 (the default) takes a free one"
    )
    try:
        asyncio.run(serve(parser.parse_args().port))
    except OSError as error:
        print(f"oncekey store: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
