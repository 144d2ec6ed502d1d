"""Waits for messages as SQS does, while the store answers other requests.

moto's own long poll would block the only thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

# A message can also become visible because time has passed.
_LOOK_AGAIN_S = 0.1
_WAIT_S_MAX = 20


class Arrivals:
    """Wakes the waiting receivers when a queue has changed."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def announce(self) -> None:
        """A message may have become visible."""
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self) -> None:
        """Returns when there may be a message."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_AGAIN_S):
                await self._next.wait()


async def receive(
    body: bytes,
    receive_now: Callable[[bytes], web.Response],
    arrivals: Arrivals,
    is_over: Callable[[], bool],
) -> web.Response | None:
    """The answer to a `ReceiveMessage`, as soon as there is a message or its wait time is over.

    None if the wait was ended for another reason, so that no answer may be sent.
    """
    request, wait_s = _without_wait(body)
    loop = asyncio.get_running_loop()
    end = loop.time() + wait_s
    while True:
        answer = receive_now(request)
        if answer.status != 200 or _has_messages(answer) or loop.time() >= end:
            return answer
        await arrivals.wait()
        if is_over():
            return None


def _without_wait(body: bytes) -> tuple[bytes, int]:
    """The same request without its wait time, and that time in seconds. The wait is done here."""
    try:
        request = json.loads(body)
        wait_s = request.get("WaitTimeSeconds", 0)
    except (ValueError, AttributeError):
        return body, 0  # moto reports the error
    if isinstance(wait_s, int) and 0 <= wait_s <= _WAIT_S_MAX:
        return json.dumps({**request, "WaitTimeSeconds": 0}).encode(), wait_s
    return body, 0


def _has_messages(answer: web.Response) -> bool:
    assert isinstance(answer.body, bytes)
    return bool(json.loads(answer.body or b"{}").get("Messages"))
