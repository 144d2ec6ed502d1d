"""A message that the queue never accepts: what the outbox stores of it, and how it is escalated."""

from __future__ import annotations

import json
import uuid

from oncekey.value import Value

TOPIC = "oncekey.set-aside"


class SetAside(Value, kw_only=True):
    """A message that stays in the outbox, unsent, until a person deals with it.

    `reason` says why the queue or the relay refused it.
    """

    id: str
    topic: str
    operation: str
    operation_id: str
    tenant: str
    created_at_ms: int
    reason: str
    set_aside_at_ms: int

    def escalation(self) -> str:
        """The text for the escalation queue: which message and why, without its payload."""
        name = f"set aside {self.id} {self.set_aside_at_ms}"
        return json.dumps(
            {
                "id": str(uuid.uuid5(uuid.NAMESPACE_OID, name)),
                "topic": TOPIC,
                "message_id": self.id,
                "message_topic": self.topic,
                "operation": self.operation,
                "operation_id": self.operation_id,
                "tenant": self.tenant,
                "reason": self.reason,
                "created_at_ms": self.created_at_ms,
                "set_aside_at_ms": self.set_aside_at_ms,
            },
            separators=(",", ":"),
        )
