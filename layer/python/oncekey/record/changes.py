"""How a record changes when it waits for a worker, when a lease begins, and when its attempt ends.

Each function changes the fields that it names and keeps all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.record.record import Status
from oncekey.record.transitions import Doubt, Ending, Retry
from oncekey.value import replace

if TYPE_CHECKING:
    from oncekey.record.record import Record
    from oncekey.record.transitions import Lease, Waiting


def waiting(record: Record, to: Waiting) -> Record:
    """`record` while it waits for a worker."""
    return replace(
        record,
        status=Status.PENDING,
        owner=to.owner,
        attempt=record.attempt + 1,
        effects=to.effects,
        policy=to.policy or record.policy,
        due=to.due,
        request_digest=to.request_digest,
        expires_at_s=None,
        last_error=None,
        reconcile_attempts=0,
        escalated_at_ms=None,
    )


def begun(record: Record, lease: Lease) -> Record:
    """`record` under a new lease."""
    return replace(
        record,
        status=Status.IN_PROGRESS,
        owner=lease.owner,
        effects=lease.effects,
        policy=lease.policy or record.policy,
        lease_until_ms=lease.until_ms,
        due=lease.due,
        expires_at_s=None,
        last_error=None,
        reconcile_attempts=0,
        escalated_at_ms=None,
    )


def ended(record: Record, to: Ending | Retry | Doubt) -> Record:
    """`record` after its attempt has ended with `to`."""
    match to:
        case Ending():
            return replace(
                record,
                status=Status.COMPLETED,
                response=to.response,
                response_version=to.response_version,
                completed_at_ms=to.completed_at_ms,
                expires_at_s=to.expires_at_s,
                lease_until_ms=None,
                due=None,
                last_error=None,
                request=None,
                request_digest=None,
            )
        case Retry():
            return replace(
                record,
                status=Status.FAILED_RETRYABLE,
                expires_at_s=to.expires_at_s,
                last_error=to.reason,
                lease_until_ms=None,
                due=to.due,
                reconcile_attempts=0,
                escalated_at_ms=None,
            )
        case Doubt():
            return replace(
                record,
                status=Status.UNKNOWN,
                due=to.due,
                last_error=to.reason,
                escalated_at_ms=to.escalated_at_ms or record.escalated_at_ms,
            )
