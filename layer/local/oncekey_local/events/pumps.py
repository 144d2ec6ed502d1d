"""What the pumps of queues, of streams and of schedules have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from oncekey_local.functions.runtime_api import Outcome

Invoke = Callable[[bytes], Awaitable[Outcome]]


@dataclass(frozen=True, kw_only=True)
class PumpSettings:
    """How fast the pumps are.

    A window or a visibility timeout of None is what the description says. A stream is looked at
    every `poll_s`, as Lambda does it four times a second. `retry_s` passes before a batch of a
    stream, or a run of a schedule, that has failed is tried again, and before a store that does not
    answer is asked again. `schedule_s` passes between the calls of a function that the description
    has called every so many minutes; a daily one keeps its hour.
    """

    poll_s: float = 0.25
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
