"""The numbers of a run of the reconciler, and its log entries."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from oncekey.errors import StoreError
from oncekey.telemetry.requests import say

if TYPE_CHECKING:
    from oncekey.record.record import Record

_logger = logging.getLogger("oncekey")


@dataclass(slots=True, kw_only=True)
class Report:
    """The numbers of one run. They count finished work only.

    Attributes:
        visited: records that were due and visited.
        expired: dead attempts that were ended.
        timed_out: accepted requests that were ended because no worker began them in time.
        asked: records whose resolver was asked.
        settled: records that were settled.
        still_unknown: records that stay unknown for now.
        handed_back: records that were handed to a worker.
        waiting: records that wait for their client or a redrive.
        escalated: records that were escalated, through the queue or, without one, the log.
        overtaken: records that somebody else wrote first.
        failed: records that could not be read, written or escalated, and messages not sent.
        resent: messages of the outbox that were sent again.
        set_aside: messages that were set aside, because the queue never accepts them.
        is_complete: whether no due record was left for lack of time, or because its dependency had
            used up its share of the run.
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
        """A run of the reconciler ended; the line has its counts.

        It is a warning if work is left, or if the relay had left messages.
        """
        numbers = asdict(self)
        # `resent` makes it a warning, because an alarm counts how often that happens.
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
    """Why a visit failed. For an error that is not a `StoreError`, it is only the type's name."""
    return error.reason if isinstance(error, StoreError) else type(error).__name__


def visit_failed(pk: str, error: Exception) -> None:
    """The reconciler could not read, write or escalate a record, or a visit raised.

    Then: the record is due again.
    """
    reason = reason_of(error)
    _logger.error(
        "oncekey visit-failed: %s: %s",
        pk,
        reason,
        extra={"oncekey_event": "visit-failed", "record": pk, "reason": reason},
    )


def escalated(record: Record, now_ms: int) -> None:
    """Nobody else can settle an operation.

    To do: [settle it by hand](../guides/unknown-outcomes.md#settle-by-hand).
    """
    say(logging.ERROR, "escalated", record, now_ms, reason=record.last_error or "")


def answer_not_storable(record: Record, now_ms: int, mistake: TypeError) -> None:
    """A resolver returned something that cannot be an answer.

    To do: correct the resolver.
    """
    say(logging.ERROR, "answer-not-storable", record, now_ms, str(mistake))


def turn_not_taken(pk: str, error: StoreError) -> None:
    """A visit failed, and that could not be recorded.

    Then: the record is due again at once.
    """
    _logger.error(
        "oncekey turn-not-taken: %s: %s",
        pk,
        error.reason,
        extra={"oncekey_event": "turn-not-taken", "record": pk, "reason": error.reason},
    )


def stuck(pk: str, reason: str) -> None:
    """Log that a person has to look at an item of the table, because it cannot be visited."""
    _logger.error(
        "oncekey escalated: %s: %s",
        pk,
        reason,
        extra={"oncekey_event": "escalated", "record": pk, "reason": reason},
    )
