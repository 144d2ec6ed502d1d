"""One write of the author's to a table of their own, as part of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.value import Value, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey.errors import Final


class BusinessWrite(Value, kw_only=True):
    """A put, an update, a delete, or a check that writes nothing.

    `parameters` are those of DynamoDB's action. They are made when the write is collected, so later
    changes to the author's objects have no effect. `key` is the item's key, if the action names it.
    `otherwise` is the answer if the write's condition does not hold.
    """

    number: int
    kind: str
    table: str
    size_bytes: int
    parameters: Mapping[str, Any] = field(hash=False)
    key: Mapping[str, Any] | None = field(default=None, hash=False)
    otherwise: Final | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"item {self.number} ({self.kind} on {self.table})"

    def __repr__(self) -> str:
        """Without what is written."""
        return f"BusinessWrite({self})"
