"""The local DynamoDB and S3: moto, behind an HTTP server that can fail the way a network does.

`python -m oncekey_local.store --port S` prints one line when it answers. `POST /_faults` sets
faults, `GET` shows them.

moto's conditional writes are not atomic between threads, and its transactions lose other callers'
writes. Here every request runs to its end on the only thread there is, so each is atomic.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import web

from oncekey_local.arguments import port
from oncekey_local.bodies import TooLarge, Unreadable, read_body
from oncekey_local.processes import LOOPBACK, listening_socket
from oncekey_local.server_log import keep_requests_out_of_the_log

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import WSGIApplication

# Every request of DynamoDB has it, and none of S3.
_TARGET = "X-Amz-Target"
READY = "oncekey store: listening on "
FAULTS_PATH = "/_faults"
WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"})
_S3_WRITES = frozenset({"PUT", "POST", "DELETE"})
# DynamoDB's own limit for a request is 16 MB. S3's is 5 GB, which would have to fit into memory.
_MAX_REQUEST_BYTES = 256 * 1024 * 1024


@dataclass
class Faults:
    """What goes wrong at the moment.

    `down`: requests that arrive are neither applied nor answered; those already inside finish.
    `lose_answers`: so many writes from now on are applied, and their answers lost. `delay_ms`:
    every request waits before it is applied.
    """

    down: bool = False
    lose_answers: int = 0
    delay_ms: int = 0

    def change(self, changes: object) -> None:
        """Takes over the named values, all or none.

        Raises `ValueError` that names every one that is wrong.
        """
        if not isinstance(changes, dict):
            message = 'send a JSON object such as {"down": true}'
            raise ValueError(message)  # noqa: TRY004 - of the sender's, not of ours
        wrong = [fault for name, value in changes.items() if (fault := _wrong(name, value))]
        if wrong:
            raise ValueError("; ".join(wrong))
        for name, value in changes.items():
            setattr(self, name, value)


def _wrong(name: str, value: object) -> str | None:
    match name:
        case "down":
            return None if isinstance(value, bool) else "down must be true or false"
        case "lose_answers" | "delay_ms":
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            return None if whole else f"{name} must be a whole number, 0 or more"
        case _:
            return f"{name!r} is unknown: use down, lose_answers, delay_ms"


class Store:
    """Answers the requests of DynamoDB and S3, as its faults let it."""

    def __init__(self, dynamodb: WSGIApplication, s3: WSGIApplication) -> None:
        self._dynamodb = dynamodb
        self._s3 = s3
        self._faults = Faults()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request, or closes its connection instead."""
        if request.path == FAULTS_PATH:
            return await self._handle_faults(request)
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
        # Decided before the write: a fault switched on meanwhile concerns the requests after this
        # one.
        lost = _is_write(request) and self._faults.lose_answers > 0
        if lost:
            self._faults.lose_answers -= 1
        answer = self._apply(request, body)
        return _hang_up(request) if lost else answer

    def _apply(self, request: web.BaseRequest, body: bytes) -> web.Response:
        status_line = ""
        headers: list[tuple[str, str]] = []

        def start_response(
            status: str, response_headers: list[tuple[str, str]], _: Any = None
        ) -> Any:
            nonlocal status_line
            status_line = status
            headers.extend(response_headers)

        service = self._dynamodb if _TARGET in request.headers else self._s3
        content: Iterable[bytes] = service(_wsgi_environment(request, body), start_response)
        # The length of what an answer to HEAD describes is not that of the answer.
        kept = [
            (name, value)
            for name, value in headers
            if name.lower() != "content-length" or request.method == "HEAD"
        ]
        return web.Response(
            status=int(status_line.split(maxsplit=1)[0]), headers=kept, body=b"".join(content)
        )

    async def _handle_faults(self, request: web.BaseRequest) -> web.Response:
        if request.method == "POST":
            try:
                self._faults.change(await request.json())
            except ValueError as error:
                return web.json_response({"error": str(error)}, status=400)
        elif request.method != "GET":
            return web.json_response({"error": "use GET or POST"}, status=405)
        return web.json_response(asdict(self._faults))


def _is_write(request: web.BaseRequest) -> bool:
    if _TARGET in request.headers:
        return request.headers[_TARGET].rpartition(".")[2] in WRITES
    return request.method in _S3_WRITES


def _hang_up(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)  # written to nobody


def _wsgi_environment(request: web.BaseRequest, body: bytes) -> dict[str, Any]:
    headers = {
        f"HTTP_{name.upper().replace('-', '_')}": value for name, value in request.headers.items()
    }
    return headers | {
        "REQUEST_METHOD": request.method,
        "PATH_INFO": request.path.encode().decode("latin-1"),  # WSGI's way: each byte a letter
        "RAW_URI": request.raw_path,
        "QUERY_STRING": request.rel_url.raw_query_string,
        "SERVER_NAME": LOOPBACK,
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_TYPE": request.headers.get("Content-Type", "application/x-amz-json-1.0"),
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }


async def serve(port: int) -> None:
    """Serves until it is cancelled, and says on standard output when and where."""
    from moto.moto_server.werkzeug_app import create_backend_app  # noqa: PLC0415 - takes most of a second

    listener = listening_socket(port, purpose="store")
    keep_requests_out_of_the_log()
    store = Store(create_backend_app("dynamodb"), create_backend_app("s3"))
    # An object is kept as it was sent, compressed or not.
    server = web.Server(store.handle, access_log=None, auto_decompress=False)
    runner = web.ServerRunner(server)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    print(f"{READY}http://{LOOPBACK}:{listener.getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


def main() -> int:
    """Runs the store as its own process."""
    parser = argparse.ArgumentParser(prog="python -m oncekey_local.store", description=__doc__)
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
