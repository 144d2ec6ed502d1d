"""How the pumps wait for a store that does not answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from oncekey_local.log import log
from oncekey_local.store.client import UNANSWERED, Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_Answer = TypeVar("_Answer")


async def until_answered(
    call: Callable[[], Awaitable[_Answer]], *, label: str, retry_s: float
) -> _Answer:
    """The answer to a call, which is repeated until the store answers.

    The beginning and the end of the outage are logged once each.
    """
    failed = False
    while True:
        try:
            answer = await call()
        except (*UNANSWERED, Refused) as error:
            if not failed:
                log(f"[{label}] waits for the store: {type(error).__name__} {error}")
            failed = True
            await asyncio.sleep(retry_s)
        else:
            if failed:
                log(f"[{label}] the store answers again")
            return answer
