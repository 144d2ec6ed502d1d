"""The attributes that transitions set and remove, for the rules in `oncekey.record.changes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.record.record import Status
from oncekey.record.transitions import Doubt, Ending, Retry
from oncekey.store.dynamodb.codec import (
    EFFECTS_VALUES,
    STATUS_VALUES,
    answer_value,
    policy_value,
)

if TYPE_CHECKING:
    from oncekey.record.policy import Policy
    from oncekey.record.record import Due
    from oncekey.record.transitions import Lease, Reschedule, Waiting
    from oncekey.store.dynamodb.codec import Item

# The reconciler's notes. They are removed when the record is taken up again.
_TURNS = ("reconcile_attempts", "escalated_at")
_DUE = ("due_shard", "due_at")
_BEGUN_REMOVES = ("expires_at", "last_error", *_TURNS)
# The stored request is removed when the record is completed.
_ENDED_REMOVES = ("lease_until", *_DUE, "last_error", "request", "request_digest")


def look_again(transition: Reschedule) -> tuple[Item, tuple[str, ...]]:
    """The record was visited, and is visited again when it is due."""
    sets: Item = {"reconcile_attempts": {"N": str(transition.attempts)}}
    if transition.escalated_at_ms is not None:
        sets["escalated_at"] = {"N": str(transition.escalated_at_ms)}
    due, removes = _due(transition.due)
    return sets | due, removes


def wait(waiting: Waiting) -> tuple[Item, tuple[str, ...]]:
    """The record waits for a worker."""
    due, removes = _due(waiting.due)
    sets: Item = {
        "status": STATUS_VALUES[Status.PENDING].copy(),
        "owner": {"S": waiting.owner},
        "effects": EFFECTS_VALUES[waiting.effects].copy(),
        "request_digest": {"S": waiting.request_digest},
        **due,
        **_policy(waiting.policy),
    }
    return sets, _BEGUN_REMOVES + removes


def begin(lease: Lease) -> tuple[Item, tuple[str, ...]]:
    """An attempt begins under a lease."""
    due, removes = _due(lease.due)
    sets: Item = {
        "status": STATUS_VALUES[Status.IN_PROGRESS].copy(),
        "owner": {"S": lease.owner},
        "effects": EFFECTS_VALUES[lease.effects].copy(),
        "lease_until": {"N": str(lease.until_ms)},
        **due,
        **_policy(lease.policy),
    }
    return sets, _BEGUN_REMOVES + removes


def end(to: Ending | Retry | Doubt) -> tuple[Item, tuple[str, ...]]:
    """An attempt has ended with `to`."""
    match to:
        case Ending():
            sets: Item = {
                "status": STATUS_VALUES[Status.COMPLETED].copy(),
                "response": answer_value(to.response),
                "response_version": {"N": str(to.response_version)},
                "completed_at": {"N": str(to.completed_at_ms)},
                "expires_at": {"N": str(to.expires_at_s)},
            }
            return sets, _ENDED_REMOVES
        case Retry():
            sets = {
                "status": STATUS_VALUES[Status.FAILED_RETRYABLE].copy(),
                "last_error": {"S": to.reason},
            }
            removes: tuple[str, ...] = ("lease_until", *_TURNS)
            if to.expires_at_s is None:
                removes += ("expires_at",)
            else:
                sets["expires_at"] = {"N": str(to.expires_at_s)}
            if to.due is None:
                return sets, removes + _DUE
            due, not_indexed = _due(to.due)
            return sets | due, removes + not_indexed
        case Doubt():
            due, removes = _due(to.due)
            sets = {
                "status": STATUS_VALUES[Status.UNKNOWN].copy(),
                "last_error": {"S": to.reason},
                **due,
            }
            if to.escalated_at_ms is not None:
                sets["escalated_at"] = {"N": str(to.escalated_at_ms)}
            return sets, removes


def _policy(policy: Policy | None) -> Item:
    return {} if policy is None else {"policy": policy_value(policy)}


def _due(due: Due) -> tuple[Item, tuple[str, ...]]:
    at: Item = {"due_at": {"N": str(due.at_ms)}}
    if due.shard:
        return {"due_shard": {"S": due.shard}, **at}, ()
    # It leaves the index in which an earlier release or setting put it.
    return at, ("due_shard",)
