"""Records as the page gets them: JSON without a key, a payload or an answer, unless revealed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from oncekey.record.record import Status
from oncekey.record.references import reference_to
from oncekey_operator.console.life import not_known, timeline
from oncekey_operator.records.outlook import outlook
from oncekey_operator.records.views import is_told, state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncekey.record.record import Record
    from oncekey_operator.console.life import Event


def row(record: Record, now_ms: int) -> dict[str, Any]:
    """A line of the list."""
    return {
        "reference": reference_to(record),
        "operation_id": record.operation_id,
        "operation": record.operation,
        "tenant": record.tenant,
        "state": state(record, now_ms),
        "remarks": remarks(record, now_ms),
        "attempt": record.attempt,
        "created_at": record.created_at_ms,
        "rev": record.rev,
    }


def detail(
    record: Record, now_ms: int, others: Sequence[Event], *, local: bool, where: str
) -> dict[str, Any]:
    """Everything about one operation, without what a client or a handler sent."""
    policy, to_come = record.policy, outlook(record, now_ms)
    is_http = policy is None or policy.encoding is None or policy.encoding.value == "http"
    return {
        **row(record, now_ms),
        "effects": record.effects.value,
        "last_error": record.last_error,
        "reconcile_attempts": record.reconcile_attempts,
        "lease_until": record.lease_until_ms,
        "due_at": record.due.at_ms if record.due else None,
        "steps": [step.name for step in record.steps.finished],
        "step_in_doubt": record.step_in_doubt,
        "answers_http": is_http,
        "next": {"client": to_come.client, "reconciler": to_come.reconciler},
        "command": to_come.command and to_come.command + where,
        "may_end": bool(to_come.ending),
        "timeline": [asdict(event) for event in timeline(record, now_ms, others)],
        "not_known": not_known(record, has_runtime=local),
    }


def remarks(record: Record, now_ms: int) -> list[str]:
    """What the state alone does not say."""
    said: list[str] = []
    if record.status is Status.IN_PROGRESS and record.is_lease_over(now_ms):
        said.append("lease over")
    if record.is_overdue(now_ms):
        said.append("overdue")
    if record.status is Status.FAILED_RETRYABLE and record.expires_at_s is None:
        said.append("half done")
    if record.status is not Status.COMPLETED and record.escalated_at_ms is not None:
        said.append("escalated" if is_told(record) else "to be escalated")
    return said
