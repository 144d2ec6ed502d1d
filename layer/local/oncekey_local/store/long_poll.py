"""Waits for messages as SQS does, and for changes of a stream, while others are answered.

moto's own long poll would block the only thread, and streams have none: Lambda reads them four
times a second. Here the answer comes with the change.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

# How long the local runtime is ready to wait for the records of a stream.
WAIT_HEADER = "X-Oncekey-Wait-S"
# A message can also become visible because time has passed.
_LOOK_AGAIN_S = 0.1
_WAIT_S_MAX = 20


class Arrivals:
    """Wakes those who wait when something has changed."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def announce(self) -> None:
        """There may be something now."""
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self) -> bool:
        """Returns whether there may be something: at the next change, or False after a while."""
        change = self._next
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_AGAIN_S):
                await change.wait()
        # A change may come in the moment in which the time is over.
        return change.is_set()


async def answer_with(
    what: str,
    look: Callable[[], web.Response],
    wait_s: float,
    arrivals: Arrivals,
    *,
    comes_with_time: Callable[[], bool] = lambda: False,
    is_over: Callable[[], bool],
) -> web.Response | None:
    """The answer as soon as its list `what` has a member, or the wait is over.

    `comes_with_time` says whether a look can find something although nothing has changed. None if
    the wait `is_over` for another reason, so that no answer may be sent.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + wait_s
    answer = look()
    while answer.status == 200 and not _has(what, answer) and loop.time() < end:
        has_changed = await arrivals.wait()
        if is_over():
            return None
        if has_changed or comes_with_time():
            answer = look()
    return answer


def without_wait(body: bytes) -> tuple[bytes, int, str]:
    """A receive without its wait time, that time in seconds, and the name of its queue."""
    try:
        request = json.loads(body)
        wait_s = request.get("WaitTimeSeconds", 0)
        queue = str(request["QueueUrl"]).rpartition("/")[2]
    except (ValueError, AttributeError, KeyError):
        return body, 0, ""  # moto reports the error
    if isinstance(wait_s, int) and 0 <= wait_s <= _WAIT_S_MAX:
        return json.dumps({**request, "WaitTimeSeconds": 0}).encode(), wait_s, queue
    return body, 0, queue


def _has(what: str, answer: web.Response) -> bool:
    assert isinstance(answer.body, bytes)
    return bool(json.loads(answer.body or b"{}").get(what))
