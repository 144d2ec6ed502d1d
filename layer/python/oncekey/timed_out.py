"""What a client is told of an accepted request that no worker has begun in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey import defaults
from oncekey.http_answer import stored_form
from oncekey.http_event import Shape
from oncekey.http_job import job_of
from oncekey.ietf_preset import IETF
from oncekey.transitions import Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oncekey.http_policy import HttpPolicy
    from oncekey.record import Record
    from oncekey.settings import Settings


class TimedOut:
    """The 408 of each operation: in the words of its own handler, where that is known."""

    def __init__(self, handlers: Sequence[Callable[[Any, Any], Any]]) -> None:
        jobs = [job for handler in handlers if (job := job_of(handler)) is not None]
        self._policies: dict[str, HttpPolicy] = {job.name: job.operation.policy for job in jobs}

    def ending(self, record: Record, settings: Settings, now_ms: int) -> Ending:
        """The stored answer to the request of `record`."""
        policy = self._policies.get(record.operation)
        if policy is not None:
            settings = defaults.settings(policy.given_settings)
        preset = IETF if policy is None else policy.preset
        answer = preset.refusal("not-started-in-time", base=settings.problem_base)
        return Ending(
            response=stored_form(answer, Shape.REST),
            response_version=1 if policy is None else policy.response_version,
            completed_at_ms=now_ms,
            expires_at_s=now_ms // 1000 + settings.retention_s + settings.gone_for_s,
        )
