"""The life of one operation as a timeline: what its record knows, and what it does not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from oncekey.record.record import Status
from oncekey_operator.records.views import is_told

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from oncekey.record.record import Record


class Source(StrEnum):
    """Where an event of the timeline comes from."""

    RECORD = "record"
    AUDIT = "audit table"
    # What the local runtime has seen of requests, processes and log lines since its start.
    RUNTIME = "oncekey dev"


class Tone(StrEnum):
    """How an event is to be read."""

    PLAIN = "plain"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `at_ms` may be in the future, for what is to come."""

    at_ms: int
    title: str
    detail: str = ""
    tone: Tone = Tone.PLAIN
    source: Source = Source.RECORD


def timeline(record: Record, now_ms: int, others: Sequence[Event] = ()) -> list[Event]:
    """Every known event of the operation, in the order of time.

    `others` are events that the record does not know.
    """
    events = [*_of_the_record(record, now_ms), *others]
    return sorted(events, key=lambda event: event.at_ms)


def not_known(record: Record, *, has_runtime: bool = False) -> list[str]:
    """What a reader might look for in the timeline, and the record does not have."""
    gaps: list[str] = []
    if record.attempt > 1:
        which = "attempt 1" if record.attempt == 2 else f"attempts 1 to {record.attempt - 1}"
        gaps.append(
            f"When {which} began and ended. The record describes attempt {record.attempt} only;"
            " the log has the others, by the operation id."
        )
    if record.status is Status.UNKNOWN:
        gaps.append("When it became unknown. The record has the reason, and the end of the lease.")
    if record.status is Status.FAILED_RETRYABLE:
        gaps.append("When the attempt failed. The record has the reason only.")
    if record.reconcile_attempts:
        gaps.append(
            f"When the reconciler took its {record.reconcile_attempts} turns. Their number is"
            " stored, and when the next one is due."
        )
    if record.status is Status.COMPLETED:
        seen = ", except those that the local runtime saw" if has_runtime else ""
        gaps.append(f"How often the answer was replayed{seen}. A replay writes nothing.")
    return gaps


def _of_the_record(record: Record, now_ms: int) -> Iterator[Event]:
    is_queued = record.policy is not None and record.policy.is_queued
    yield Event(
        at_ms=record.created_at_ms,
        title="Accepted" if is_queued else "Reserved",
        detail="A worker runs it later." if is_queued else "The key was written before any work.",
    )
    yield from _steps(record, now_ms)
    yield from _lease(record, now_ms)
    if record.escalated_at_ms is not None:
        title, detail = "Escalated", "The escalation queue or the log has the message."
        if not is_told(record):
            title, detail = "To be escalated", "The reconciler escalates it in its next run."
        yield Event(at_ms=record.escalated_at_ms, title=title, detail=detail, tone=Tone.WARNING)
    if record.completed_at_ms is not None:
        yield Event(
            at_ms=record.completed_at_ms,
            title="Completed",
            detail="Every retry gets this answer.",
            tone=Tone.GOOD,
        )
    if record.due is not None:
        title = "The reconciler looks next" if record.due.at_ms > now_ms else "Due"
        detail = "" if record.due.at_ms > now_ms else "The reconciler looks at it in its next run."
        yield Event(at_ms=record.due.at_ms, title=title, detail=detail)
    if record.expires_at_s is not None:
        over = record.is_expired(now_ms)
        yield Event(
            at_ms=record.expires_at_s * 1000,
            title="Expired" if over else "Expires",
            detail="The key counts as new from then on.",
        )


def _steps(record: Record, now_ms: int) -> Iterator[Event]:
    for step in record.steps.finished:
        if step.is_commit:
            title, detail = f"Commit {step.name}", "Its writes and messages were applied at once."
        else:
            title = f"Step {step.name} finished"
            detail = "Its result is the answer." if step.is_final else "Its result is recorded."
        yield Event(at_ms=step.at_ms, title=title, detail=detail, tone=Tone.GOOD)
    started = record.steps.started
    if started is not None:
        runs = record.status is Status.IN_PROGRESS and not record.is_lease_over(now_ms)
        yield Event(
            at_ms=started.at_ms,
            title=f"Step {started.name} started",
            detail="It runs now." if runs else "It is in doubt: nobody knows whether it finished.",
            tone=Tone.PLAIN if runs else Tone.BAD,
        )


def _lease(record: Record, now_ms: int) -> Iterator[Event]:
    until_ms = record.lease_until_ms
    if until_ms is None:
        return
    if record.status is Status.IN_PROGRESS and not record.is_lease_over(now_ms):
        yield Event(
            at_ms=until_ms, title="The lease ends", detail="The attempt may run until then."
        )
    elif record.status is Status.IN_PROGRESS or record.last_error == "lease-expired":
        yield Event(
            at_ms=until_ms,
            title="The lease ended",
            detail="The attempt did not end itself: its process was killed, or it took too long.",
            tone=Tone.BAD,
        )
