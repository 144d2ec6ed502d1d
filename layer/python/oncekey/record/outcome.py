"""What became of a request, before it is put into words for its caller."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncekey.record.record import Record


# After what passes by itself, or needs nothing: a client need not wait longer.
RETRY_SOON_MS = 1_000


class Reason(StrEnum):
    """Why a request was refused; each but the last is the code of a problem."""

    KEY_REUSED = "key-reused"
    KEY_EXPIRED = "key-expired"
    TOO_OLD = "request-too-old"
    RUNNING = "request-in-progress"
    OUTCOME_UNKNOWN = "outcome-unknown"
    STORE_UNAVAILABLE = "store-unavailable"
    NOT_EXECUTED = "not-executed"
    UNFINISHED = "attempt-unfinished"
    QUOTA_EXCEEDED = "quota-exceeded"
    ANSWER_UNAVAILABLE = "answer-unavailable"
    # Told to workers alone: the message no longer speaks for its operation.
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Held:
    """We hold the lease of `record`, and the handler may run."""

    record: Record


@dataclass(frozen=True, slots=True)
class Replayed:
    """The operation is complete; `stored` is the text of its answer once it has been fetched."""

    record: Record
    stored: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The caller gets no answer of a handler.

    `retry_after_ms` is None where sending the same request again is pointless. `is_outage`: the
    store did not answer, which says something about the next request, too. `is_findable`: the
    operation can be asked after by its id. `needs_deployment`: the store answered that it
    is not what it is taken for, which no waiting changes.
    """

    reason: Reason
    record: Record | None = None
    retry_after_ms: int | None = None
    is_outage: bool = False
    is_findable: bool = False
    needs_deployment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The handler ran and this is its answer.

    `expires_at_s` is None where the answer is not on record. `is_done`: the record says that the
    work is done, though its answer could not be kept.
    """

    value: Any = field(repr=False)
    record: Record
    expires_at_s: int | None
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler ran and raised; the exception belongs to its caller."""

    error: BaseException = field(repr=False)


def whole_seconds(duration_ms: int) -> int:
    """`duration_ms` in seconds, rounded up: nobody is to come back too early."""
    return -(-duration_ms // 1000)


Decision = Held | Replayed | Refusal
Outcome = Replayed | Refusal | Ran | Failed
