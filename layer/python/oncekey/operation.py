"""The operation object: what a running handler knows of the operation it carries out."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One attempt at one operation.

    `operation_id` is a random UUID, the same over all attempts; derive business ids and messages
    from it, never from the client's key: after the key's expiry the same key is a new operation.
    `protected` is False where the handler runs bare (ONCEKEY_DISABLED, or a method that needs no
    key); everything else works there as well, with ids of its own.
    """

    name: str
    operation_id: str
    attempt: int
    tenant: str
    principal: str = ""
    protected: bool = True

    def downstream_key(self, name: str) -> str:
        """The idempotency key to send to a provider for the call `name`.

        It is a UUID, the same over every attempt.

        Send it with every outside call, so that the provider can refuse one that arrives after its
        owner is dead.
        """
        if not name:
            raise ValueError("downstream_key needs a name for the call, such as 'charge'")
        return str(uuid.uuid5(uuid.UUID(self.operation_id), name))


_current: ContextVar[Operation | None] = ContextVar("oncekey_operation", default=None)


def current_operation() -> Operation:
    """The operation that is being carried out, from anywhere below its handler.

    Raises:
        LookupError: no decorated handler is running.
    """
    operation = _current.get()
    if operation is None:
        raise LookupError(
            "no oncekey operation is running here:"
            " call this below a handler decorated with @idempotent"
        )
    return operation


@contextmanager
def running(operation: Operation) -> Generator[None]:
    """Make `operation` the current one until the block is left."""
    token = _current.set(operation)
    try:
        yield
    finally:
        _current.reset(token)
