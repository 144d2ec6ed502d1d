"""Why an attempt at a recorded operation must not go on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey.errors import StoreError
    from oncekey.record.record import Record


class StopReason(StrEnum):
    """What stands in the way."""

    LOST = "ownership-lost"  # another attempt, or a settlement, has the record
    STORE = "not-confirmed"  # the store did not confirm a checkpoint or a commit
    INTERRUPTED = "interrupted"  # a step or commit was left before its end was told
    NO_TIME = "no-time-left"  # the lease is over
    STEPS_CHANGED = "steps-changed"  # the code does not fit what is on record
    RESULT_LOST = "step-result-lost"  # a finished step has no result that could be given again


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the attempt ends. `met` is the record that refused it, `error` the store's last word."""

    reason: StopReason
    why: str = ""
    met: Record | None = None
    error: StoreError | None = None

    def __str__(self) -> str:
        what = self.why or (self.error.reason if self.error is not None else "")
        return f"{self.reason}: {what}" if what else str(self.reason)
