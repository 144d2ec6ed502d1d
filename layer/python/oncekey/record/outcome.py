"""The outcome of a request, before it becomes an HTTP answer, a result or an exception."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from oncekey.value import Value, field

if TYPE_CHECKING:
    from oncekey.record.record import Record


# The retry delay after a cause that passes by itself, or that needs no waiting.
RETRY_SOON_MS = 1_000
# A pause lasts for minutes or hours. A client that comes back sooner finds the same.
RETRY_AFTER_PAUSED_MS = 30_000


class Reason(StrEnum):
    """Why a request was refused. Each value but the last is the code of a problem."""

    KEY_MISSING = "key-missing"
    KEY_REUSED = "key-reused"
    KEY_EXPIRED = "key-expired"
    TOO_OLD = "request-too-old"
    RUNNING = "request-in-progress"
    OUTCOME_UNKNOWN = "outcome-unknown"
    STORE_UNAVAILABLE = "store-unavailable"
    NOT_EXECUTED = "not-executed"
    UNFINISHED = "attempt-unfinished"
    QUOTA_EXCEEDED = "quota-exceeded"
    PAUSED = "paused"
    ANSWER_UNAVAILABLE = "answer-unavailable"
    # For workers only: the message is not the one that its operation waits for.
    SUPERSEDED = "superseded"


class Held(Value):
    """We hold the lease of `record`, and the handler may run."""

    record: Record


class Replayed(Value):
    """The operation is completed. `stored` is the text of its answer, after it has been fetched."""

    record: Record
    stored: str = field(default="", repr=False)


class Refusal(Value, kw_only=True):
    """The request gets no answer from a handler.

    `retry_after_ms` is None if sending the same request again is pointless. `is_outage`: the store
    did not answer, so the next request is likely to fail, too. `is_findable`: the status of the
    operation can be requested by its id. `needs_deployment`: the store answered that it is set up
    differently, which waiting does not change. `detail` says more about the reason, if it is given.
    `error` is why the last commit was not made, if that ended the attempt.
    """

    reason: Reason
    record: Record | None = None
    retry_after_ms: int | None = None
    is_outage: bool = False
    is_findable: bool = False
    needs_deployment: bool = False
    detail: str | None = None
    error: BaseException | None = field(default=None, repr=False)


class Ran(Value, kw_only=True):
    """The handler ran, and `value` is its answer.

    `expires_at_s` is None if the answer is not on record. `is_done`: the record says that the work
    is done, but its answer could not be stored.
    """

    value: Any = field(repr=False)
    record: Record
    expires_at_s: int | None
    is_done: bool = False


class Failed(Value):
    """The handler ran and raised `error`, which its caller gets."""

    error: BaseException = field(repr=False)


class Unrecorded(Value):
    """The handler ran without a record, and this is what it returned.

    `is_final` is only known in a worker: whether it is the last word on the request.
    """

    value: Any = field(repr=False)
    is_final: bool = True


def whole_seconds(duration_ms: int) -> int:
    """`duration_ms` in seconds, rounded up so that no client retries too early."""
    return -(-duration_ms // 1000)


Decision = Held | Replayed | Refusal
Outcome = Replayed | Refusal | Ran | Failed | Unrecorded
