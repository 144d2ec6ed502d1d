"""A store in which some records cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.errors import StoreError
from tests.support.steps import FaultyStore

if TYPE_CHECKING:
    from oncekey.record.record import Record

UNREADABLE = StoreError("the stored record cannot be read ('rev')", transient=False)


class Unreadable(FaultyStore):
    """A store in which some records cannot be read, for this reason."""

    def __init__(self, error: StoreError = UNREADABLE) -> None:
        super().__init__()
        self.bad: set[str] = set()
        self.error = error

    def read(self, pk: str) -> Record | None:
        """Read, but for those."""
        if pk in self.bad:
            raise self.error
        found: Record | None = super().read(pk)
        return found
