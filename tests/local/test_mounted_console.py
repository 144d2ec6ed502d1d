"""The console of `oncekey dev` is made for its first request, and nobody waits for that."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, cast

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from oncekey_local.console.mount import CONSOLE_PREFIX, MountedConsole
from oncekey_operator.console.exchange import Response

if TYPE_CHECKING:
    from yarl import URL

    from oncekey_operator.console.console import Console
    from oncekey_operator.console.exchange import Request

_PATIENCE_S = 30


class _Page:
    def handle(self, asked: Request) -> Response:
        return Response(status=200, body=asked.path.encode(), content_type="text/plain")


class _SlowToMake:
    """A console that is made only when something else has been answered meanwhile."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.other_was_answered = threading.Event()
        self.times_made = 0

    def __call__(self) -> Console:
        self.has_begun.set()
        assert self.other_was_answered.wait(_PATIENCE_S), "nothing else was answered meanwhile"
        self.times_made += 1
        return cast("Console", _Page())


def test_others_are_answered_while_the_console_is_made_and_it_is_made_once() -> None:
    """Two pages wait for the console; a request that is none of them is answered before."""
    make = _SlowToMake()
    console = MountedConsole(make)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.path.startswith(CONSOLE_PREFIX):
            return await console.handle(request, request.path)
        make.other_was_answered.set()
        return web.Response(text="another")

    async def ask(session: ClientSession, url: URL) -> tuple[int, str]:
        async with session.get(url) as response:
            return response.status, await response.text()

    async def play() -> list[tuple[int, str]]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        async with TestServer(app) as server, ClientSession() as session:
            pages = [
                asyncio.ensure_future(ask(session, server.make_url(f"{CONSOLE_PREFIX}{name}")))
                for name in ("first", "second")
            ]
            assert await asyncio.to_thread(make.has_begun.wait, _PATIENCE_S)
            other = await ask(session, server.make_url("/other"))
            return [other, *await asyncio.gather(*pages)]

    answers = asyncio.run(play())
    assert answers == [(200, "another"), (200, "first"), (200, "second")]
    assert make.times_made == 1
