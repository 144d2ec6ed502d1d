"""The code common to the pumps of queues, streams and schedules."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from oncekey_local.functions.runtime_api import Outcome

# The time between two calls of a schedule that is switched off.
NEVER = math.inf

Invoke = Callable[[bytes], Awaitable[Outcome]]


@dataclass(frozen=True, kw_only=True)
class PumpSettings:
    """The intervals of the pumps.

    A window or a visibility timeout of None means that of the description. `retry_s` is the wait
    before a failed batch of a stream, a failed run of a schedule, or a call without an answer is
    repeated. `schedule_s` replaces the description's `every_minutes`; a daily schedule keeps its
    hour. With `NEVER`, no schedule calls anything.
    """

    retry_s: float = 1.0
    window_s: float | None = None
    visibility_timeout_s: int | None = None
    schedule_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Target:
    """The function that a pump calls."""

    name: str
    arn: str
    invoke: Invoke
