"""The link from a decorated handler to the worker that runs its accepted requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncekey.http.operation import HttpOperation

_ATTRIBUTE = "__oncekey_job__"


@dataclass(frozen=True, slots=True)
class HttpJob:
    """The parts of a decorated handler that a worker needs."""

    operation: HttpOperation
    handler: Any = field(repr=False)
    is_coroutine: bool

    @property
    def name(self) -> str:
        """The operation that messages name."""
        return self.operation.policy.name


def mark(wrapper: Any, job: HttpJob) -> None:
    """Attach `job` to the decorated handler, for `job_of`."""
    setattr(wrapper, _ATTRIBUTE, job)


def job_of(handler: object) -> HttpJob | None:
    """The job that `mark` attached to a decorated handler."""
    job = getattr(handler, _ATTRIBUTE, None)
    return job if isinstance(job, HttpJob) else None
