"""The record of one operation: what is known about one key."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from oncekey.record.steps import NO_STEPS, Steps
from oncekey.value import Value

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


# Only these may have an expiry: a record in doubt is never deleted.
SETTLED = frozenset({Status.COMPLETED, Status.FAILED_RETRYABLE})
# The reconciler visits records of these states repeatedly without changing the state.
LOOKED_AT = frozenset({Status.UNKNOWN, Status.FAILED_RETRYABLE, Status.PENDING})


class Due(Value, kw_only=True):
    """When and under which index partition somebody must look at a record.

    `shard` is empty where the index is switched off: the record is in no partition.
    """

    shard: str
    at_ms: int


class Record(Value, kw_only=True):
    """One record.

    Times are epoch milliseconds, except `expires_at_s`, which DynamoDB's TTL reads in seconds.

    `rev` grows with every write. `owner` is the fencing token of the attempt that may write next.
    `operation_id` is the same for all attempts of this life of the record. `request` is the event,
    as text or compressed, of an operation that can be completed without its client.
    `request_digest` is the digest of the event in a job's message: no other event is run for it.
    `policy` says how the answer is stored; it is None in records of older releases.
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
    traceparent: str = ""

    def is_expired(self, now_ms: int) -> bool:
        """Whether the record counts as absent, though DynamoDB may not have deleted it yet."""
        settled_until_s = self.expires_at_s if self.status in SETTLED else None
        return settled_until_s is not None and settled_until_s <= now_ms // 1000

    def is_lease_over(self, now_ms: int) -> bool:
        """Whether the lease has ended. A record without a lease has none that could end."""
        return self.lease_until_ms is not None and self.lease_until_ms < now_ms

    def is_overdue(self, now_ms: int) -> bool:
        """Whether no worker has begun this job in time.

        It stays overdue after the reconciler has visited it and moved its `due` time.
        """
        is_past_due = self.due is not None and self.due.at_ms <= now_ms
        is_late = is_past_due or self.reconcile_attempts > 0
        return self.status is Status.PENDING and is_late

    @property
    def due_shard(self) -> str:
        """Its shard of the index; the first shard, which is always read, if it is not indexed."""
        return self.due.shard if self.due is not None else "0"

    @property
    def was_begun(self) -> bool:
        """Whether a worker may already have run this waiting job.

        Its steps do not show this: an interrupted idempotent step leaves no mark.
        """
        return self.attempt > 1

    @property
    def is_in_doubt(self) -> bool:
        """Whether a step was started and is not known to have finished."""
        return self.steps.started is not None

    @property
    def step_in_doubt(self) -> str:
        """The name of the step in doubt; empty if there is none."""
        return self.steps.started.name if self.steps.started is not None else ""

    @property
    def may_run_again(self) -> bool:
        """Whether another run may follow a dead one, by what its author declared."""
        if self.effects is Effects.RECORDED:
            return not self.is_in_doubt
        return self.effects is Effects.REPEATABLE

    def __repr__(self) -> str:
        """The identity and the state, without key, answer or fingerprint."""
        return (
            f"Record(operation={self.operation!r}, operation_id={self.operation_id!r},"
            f" status={self.status}, rev={self.rev}, attempt={self.attempt}, owner={self.owner!r})"
        )
