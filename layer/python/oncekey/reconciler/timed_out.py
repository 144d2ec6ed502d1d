"""The answer to an accepted request that no worker has begun in time.

It has the wording of the request's handler if that is known, otherwise of the preset in the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.http.answer import stored_form
from oncekey.http.event import Shape
from oncekey.http.job import job_of
from oncekey.http.preset import IETF
from oncekey.http.stripe_preset import STRIPE
from oncekey.record.policy import policy_of
from oncekey.record.transitions import Ending
from oncekey.store import defaults

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oncekey.http.policy import HttpPolicy
    from oncekey.record.record import Record
    from oncekey.settings import Settings


class TimedOut:
    """Makes the 408 of each operation, with the wording of its handler if that is known."""

    def __init__(self, handlers: Sequence[Callable[[Any, Any], Any]]) -> None:
        jobs = [job for handler in handlers if (job := job_of(handler)) is not None]
        self._policies: dict[str, HttpPolicy] = {job.name: job.operation.policy for job in jobs}

    def ending(self, record: Record, settings: Settings, now_ms: int) -> Ending:
        """The ending of `record`, with its 408 as the stored answer."""
        handler, policy = self._policies.get(record.operation), policy_of(record, settings)
        if handler is not None:
            settings = defaults.settings(handler.given_settings)
            preset = handler.preset
        else:
            preset = STRIPE if policy.preset == STRIPE.name else IETF
        answer = preset.refusal("not-started-in-time", base=settings.problem_base)
        return Ending(
            response=stored_form(answer, Shape.REST),
            response_version=policy.response_version,
            completed_at_ms=now_ms,
            expires_at_s=policy.expires_at_s(now_ms),
        )
