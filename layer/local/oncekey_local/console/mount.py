"""The console below `/_console/` of the front."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import TYPE_CHECKING

from aiohttp import web

from oncekey_local.bodies import TooLarge, Unreadable, read_body
from oncekey_local.server_guards import lower_case
from oncekey_operator.console.exchange import problem
from oncekey_operator.console.server import request_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey_operator.console.console import Console
    from oncekey_operator.console.exchange import Request, Response

CONSOLE_PREFIX = "/_console/"
_MOST_BODY_BYTES = 1024 * 1024


class MountedConsole:
    """Carries requests to a console, each on a thread, because its calls of the store block.

    The console is made for the first request, because loading it takes a while and most runs never
    open it. That happens on the thread, too: other requests are answered meanwhile.
    """

    def __init__(self, make: Callable[[], Console]) -> None:
        self._made = functools.cache(make)
        self._making = threading.Lock()

    async def handle(self, request: web.BaseRequest, path: str) -> web.Response:
        """Answers one request whose path begins with `CONSOLE_PREFIX`, or lacks its last slash."""
        if not path.startswith(CONSOLE_PREFIX):
            return web.Response(status=308, headers={"Location": CONSOLE_PREFIX})
        try:
            body = await read_body(request, limit_bytes=_MOST_BODY_BYTES)
        except (TooLarge, Unreadable) as error:
            return _web(problem(400, str(error) or "the body is too large"))
        headers = lower_case(request.headers)
        asked = request_of(request.method, request.raw_path, headers, body, prefix=CONSOLE_PREFIX)
        return _web(await asyncio.to_thread(self._answer, asked))

    def _answer(self, asked: Request) -> Response:
        with self._making:
            console = self._made()
        return console.handle(asked)


def _web(response: Response) -> web.Response:
    return web.Response(status=response.status, body=response.body, headers=response.headers)
