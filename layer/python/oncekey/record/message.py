"""A message of the outbox. It is written in the same transaction as the record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.value import Value, field

if TYPE_CHECKING:
    from oncekey.record.stored_answer import StoredRef

_OVERHEAD_BYTES = 400


class Message(Value, kw_only=True):
    """A message that is sent after the operation has committed it.

    `id` is never reused; workers deduplicate by it. `payload` is JSON text. `payload_ref` says
    where in the bucket a large payload is stored; the outbox's item then does not contain it.
    `sequence` is the message's place among the messages of its operation. `traceparent` is the span
    that its operation belongs to, if it is traced.
    """

    id: str
    topic: str
    payload: str = field(repr=False)
    operation_id: str
    operation: str
    tenant: str
    created_at_ms: int
    payload_ref: StoredRef | None = None
    sequence: int = 0
    traceparent: str = ""

    @property
    def size_bytes(self) -> int:
        """The approximate size of the outbox's item."""
        payload = len(self.payload.encode("utf-8")) if self.payload_ref is None else 0
        names = (self.id, self.topic, self.operation_id, self.operation, self.tenant)
        return payload + sum(len(name.encode("utf-8")) for name in names) + _OVERHEAD_BYTES

    @property
    def order(self) -> tuple[int, int]:
        """The sort key for sending: by time, and within an operation by sequence."""
        return (self.created_at_ms, self.sequence)

    def __str__(self) -> str:
        return f"message to {self.topic}"
