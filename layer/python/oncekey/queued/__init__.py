"""Jobs, which are accepted now and run by a worker later, and their status by operation id."""

from typing import TYPE_CHECKING

from oncekey import lazy

if TYPE_CHECKING:
    from oncekey.errors import (
        JobUnfinished,
    )
    from oncekey.queued.jobs import (
        Jobs,
    )
    from oncekey.queued.status import (
        OperationStatus,
    )

__all__ = [
    "JobUnfinished",
    "Jobs",
    "OperationStatus",
]

__getattr__, __dir__ = lazy.names(
    __name__,
    {
        "oncekey.errors": ("JobUnfinished",),
        "oncekey.queued.jobs": ("Jobs",),
        "oncekey.queued.status": ("OperationStatus",),
    },
)
