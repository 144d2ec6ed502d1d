"""A service whose queue pump has a defect, which shows at the first message."""

from __future__ import annotations

from oncekey_local.events.queue_pump import QueuePump
from tests.support.sample_event_service import SERVICE

__all__ = ["SERVICE"]


async def _broken(*_: object) -> None:
    raise LookupError("this pump is broken")


QueuePump._work_through = _broken  # type: ignore[method-assign, assignment]
