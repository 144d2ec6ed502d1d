"""What every action has: the store, the clock, and the audit of who acts and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.clock import SystemClock
from oncekey_operator.actions.removal import Storage
from oncekey_operator.audit import Audit, AuditTable

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.store.store import Store
    from oncekey_operator.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """One person who acts for one reason."""

    store: Store
    audit: Audit
    clock: Clock


def acting_on(target: Target, *, why: str) -> Acting:
    """The person who runs the command, acting on `target`.

    Raises:
        CommandError: AWS does not say who it is.
    """
    clock = SystemClock()
    lines = AuditTable(target.dynamodb, target.audit_table)
    audit = Audit(lines=lines, who=target.who, why=why, clock=clock)
    return Acting(store=target.store, audit=audit, clock=clock)


def storage_of(target: Target) -> Storage:
    """Where the records and answers of `target` are removed."""
    return Storage(
        dynamodb=target.dynamodb,
        table=target.table,
        s3=target.client("s3") if target.bucket else None,
        bucket=target.bucket,
    )
