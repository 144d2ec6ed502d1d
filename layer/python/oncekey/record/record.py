"""The record of one operation: what is known about one key."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from oncekey.record.steps import NO_STEPS, Steps

if TYPE_CHECKING:
    from oncekey.record.policy import Policy
    from oncekey.record.stored_answer import StoredAnswer


class Status(StrEnum):
    """The stored states. Expired is derived from the time, never stored."""

    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED_RETRYABLE = "FAILED_RETRYABLE"
    UNKNOWN = "UNKNOWN"


class Effects(StrEnum):
    """What the author of a handler declares about its effects on the outside world."""

    UNRECORDED = "unrecorded"
    REPEATABLE = "repeatable"
    RECORDED = "recorded"


# Only these may carry an expiry: nothing in doubt is ever evicted.
SETTLED = frozenset({Status.COMPLETED, Status.FAILED_RETRYABLE})
# Of these a reconciler takes turns, and leaves them what they are.
LOOKED_AT = frozenset({Status.UNKNOWN, Status.FAILED_RETRYABLE, Status.PENDING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """When and under which index partition somebody must look at a record."""

    shard: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record.

    Times are epoch milliseconds, but for `expires_at_s`, which DynamoDB's TTL reads in seconds.

    `rev` grows with every write. `owner` is the fencing token of the attempt that may write next;
    `operation_id` stays the same over all attempts of this life of the record. `request` is the
    event, as text or compressed, of an operation that is completed without its client.
    `request_digest` is that of the event in the message of a request that was accepted for later:
    no other event is carried out for it. `policy` says how its answer is kept, whoever gives it;
    None in records of releases that had none.
    """

    pk: str
    status: Status
    rev: int
    tenant: str
    operation: str
    operation_id: str
    fingerprint: str
    owner: str
    attempt: int
    effects: Effects
    created_at_ms: int
    key: str = ""
    principal: str = ""
    lease_until_ms: int | None = None
    completed_at_ms: int | None = None
    expires_at_s: int | None = None
    due: Due | None = None
    steps: Steps = NO_STEPS
    response: StoredAnswer | None = None
    response_version: int | None = None
    reconcile_attempts: int = 0
    last_error: str | None = None
    escalated_at_ms: int | None = None
    request: str | bytes | None = None
    request_digest: str | None = None
    policy: Policy | None = None

    def is_expired(self, now_ms: int) -> bool:
        """Whether the record counts as absent, though DynamoDB may not have deleted it yet."""
        settled_until_s = self.expires_at_s if self.status in SETTLED else None
        return settled_until_s is not None and settled_until_s <= now_ms // 1000

    def is_lease_over(self, now_ms: int) -> bool:
        """Whether the owner's right to run has ended. An absent lease never means that it has."""
        return self.lease_until_ms is not None and self.lease_until_ms < now_ms

    def is_overdue(self, now_ms: int) -> bool:
        """Whether no worker has begun in time what was accepted.

        It stays so once a reconciler has looked at it, which moves its `due` on.
        """
        is_past_due = self.due is not None and self.due.at_ms <= now_ms
        is_late = is_past_due or self.reconcile_attempts > 0
        return self.status is Status.PENDING and is_late

    @property
    def due_shard(self) -> str:
        """Its shard of the index; of a record that has left it the first, which is always read."""
        return self.due.shard if self.due is not None else "0"

    @property
    def was_begun(self) -> bool:
        """Whether a worker may ever have run what is waiting.

        Not what its steps say: a step that is idempotent leaves nothing where it is interrupted.
        """
        return self.attempt > 1

    @property
    def is_in_doubt(self) -> bool:
        """Whether a step was started and is not known to have finished."""
        return self.steps.started is not None

    @property
    def step_in_doubt(self) -> str:
        """The name of that step; empty where there is none."""
        return self.steps.started.name if self.steps.started is not None else ""

    @property
    def may_run_again(self) -> bool:
        """Whether a run that died may be followed by another, by what its author declared."""
        if self.effects is Effects.RECORDED:
            return not self.is_in_doubt
        return self.effects is Effects.REPEATABLE

    def __repr__(self) -> str:
        """The identity and the state, without key, answer or fingerprint."""
        return (
            f"Record(operation={self.operation!r}, operation_id={self.operation_id!r},"
            f" status={self.status}, rev={self.rev}, attempt={self.attempt}, owner={self.owner!r})"
        )
