"""What a run of the reconciler has done, in numbers, and what is logged of it."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from oncekey.errors import StoreError

if TYPE_CHECKING:
    from oncekey.record.record import Record

_logger = logging.getLogger("oncekey")


@dataclass(slots=True, kw_only=True)
class Report:
    """The numbers of one run.

    Each counts what has been done, not what was begun. `visited` records were due and looked at; of
    those `expired` had lost their owner, `timed_out` never had one, `asked` had a resolver that was
    asked, `settled` are, `still_unknown` are not yet, `handed_back` go to a worker, `waiting` wait
    for their client or a redrive, `escalated` were told to a person, by the queue or, without one,
    by the log, `overtaken` met somebody faster, and `failed` could not be read, written or told.
    `resent` messages of the outbox were sent again, and `set_aside` will not be: the queue never
    takes them. `is_complete`: nothing that was due was left for want of time, or because what it
    needs has had its share of the run.
    """

    visited: int = 0
    expired: int = 0
    timed_out: int = 0
    asked: int = 0
    settled: int = 0
    still_unknown: int = 0
    handed_back: int = 0
    waiting: int = 0
    escalated: int = 0
    overtaken: int = 0
    failed: int = 0
    resent: int = 0
    set_aside: int = 0
    is_complete: bool = True

    def log(self) -> None:
        """Log the numbers, as a warning where something is left to do, or the relay left it."""
        numbers = asdict(self)
        # An alarm counts how often messages had to be sent again.
        is_clean = self.is_complete and not (self.failed or self.set_aside or self.resent)
        counts = {name: value for name, value in numbers.items() if name != "is_complete"}
        done = ", ".join(f"{name} {value}" for name, value in counts.items() if value)
        _logger.log(
            logging.INFO if is_clean else logging.WARNING,
            "oncekey reconciled: %s",
            done or ("nothing was due" if self.is_complete else "nothing, for want of time"),
            extra={"oncekey_event": "reconciled", **numbers},
        )


def reason_of(error: Exception) -> str:
    """Why a visit failed: of what is no failure of the store the kind, and not the text."""
    return error.reason if isinstance(error, StoreError) else type(error).__name__


def visit_failed(pk: str, error: Exception) -> None:
    """A record could not be read, written or told, or a visit raised; it is due, or due again."""
    reason = reason_of(error)
    _logger.error(
        "oncekey visit-failed: %s: %s",
        pk,
        reason,
        extra={"oncekey_event": "visit-failed", "reason": reason},
    )


def escalated(record: Record, now_ms: int) -> None:
    """A person has to settle an operation: no resolver could, or there is none."""
    _logger.error(
        "oncekey escalated: %s %s attempt %s",
        record.operation,
        record.operation_id,
        record.attempt,
        extra={
            "oncekey_event": "escalated",
            "operation": record.operation,
            "operation_id": record.operation_id,
            "attempt": record.attempt,
            "owner": record.owner,
            "age_ms": now_ms - record.created_at_ms,
            "reason": record.last_error or "",
        },
    )


def answer_not_storable(record: Record, now_ms: int, mistake: TypeError) -> None:
    """A resolver gave something that cannot be an answer; its author's mistake, said each turn."""
    _logger.error(
        "oncekey answer-not-storable: %s %s: %s",
        record.operation,
        record.operation_id,
        mistake,
        extra={
            "oncekey_event": "answer-not-storable",
            "operation": record.operation,
            "operation_id": record.operation_id,
            "age_ms": now_ms - record.created_at_ms,
        },
    )


def turn_not_taken(pk: str, error: StoreError) -> None:
    """A visit has failed, and that could not be put on record; it comes up again at once."""
    _logger.error(
        "oncekey turn-not-taken: %s: %s",
        pk,
        error.reason,
        extra={"oncekey_event": "turn-not-taken", "reason": error.reason},
    )


def stuck(pk: str, reason: str) -> None:
    """A person has to look at what is under a key of the table: no visit can do anything."""
    _logger.error(
        "oncekey escalated: %s: %s",
        pk,
        reason,
        extra={"oncekey_event": "escalated", "pk": pk, "reason": reason},
    )
