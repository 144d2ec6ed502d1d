"""Why an attempt of a recorded operation must not continue."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey.errors import StoreError
    from oncekey.record.record import Record


class StopReason(StrEnum):
    """The reason of a stop, as the log shows it."""

    LOST = "ownership-lost"  # another attempt, or a settlement, has the record
    STORE = "not-confirmed"  # the store did not confirm a checkpoint or a commit
    INTERRUPTED = "interrupted"  # a step or commit was left before the handler got its result
    NO_TIME = "no-time-left"  # the lease is over
    STEPS_CHANGED = "steps-changed"  # the code does not fit what is on record
    RESULT_LOST = "step-result-lost"  # the result of a finished step cannot be read


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the attempt ends. `met` is the record that refused a write, `error` the last failure."""

    reason: StopReason
    why: str = ""
    met: Record | None = None
    error: StoreError | None = None

    def __str__(self) -> str:
        what = self.why or (self.error.reason if self.error is not None else "")
        return f"{self.reason}: {what}" if what else str(self.reason)
