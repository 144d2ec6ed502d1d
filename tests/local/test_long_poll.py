"""Waiting for a change of a queue or a stream."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from oncekey_local.store.long_poll import Arrivals

if TYPE_CHECKING:
    import pytest


def test_a_change_as_the_wait_ends_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits is told of a change that comes after its time is over and before it goes on.

    Red when the end of the time hides the change: a stream would be read twenty seconds later.
    """

    async def changes_at_the_end() -> bool:
        loop, arrivals = asyncio.get_running_loop(), Arrivals()
        waiting = loop.create_task(arrivals.wait())
        await asyncio.sleep(0)
        an_hour_later = loop.time() + 3_600
        monkeypatch.setattr(loop, "time", lambda: an_hour_later)
        await asyncio.sleep(0)
        # The loop carries out the end of the wait, then this, and then goes on with the waiter.
        loop.call_soon(arrivals.announce)
        return await waiting

    assert asyncio.run(changes_at_the_end())


def test_a_wait_without_a_change_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the time is over and nothing has changed, nobody looks for nothing."""

    async def nothing_changes() -> bool:
        loop, arrivals = asyncio.get_running_loop(), Arrivals()
        waiting = loop.create_task(arrivals.wait())
        await asyncio.sleep(0)
        an_hour_later = loop.time() + 3_600
        monkeypatch.setattr(loop, "time", lambda: an_hour_later)
        return await waiting

    assert not asyncio.run(nothing_changes())
