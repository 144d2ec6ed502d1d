"""The store with ONCEKEY_DISABLED outside Lambda: it accepts everything, and keeps nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.store.due_index import DuePage
from oncekey.store.store import Written

if TYPE_CHECKING:
    from oncekey.record.commit import Commit
    from oncekey.record.counter import Counter
    from oncekey.record.pause import Pause
    from oncekey.record.record import Record
    from oncekey.record.stored_answer import Blob, StoredRef
    from oncekey.record.transitions import Transition


class DisabledStore:
    """Stands for every store. It needs no table and no client, and each condition holds."""

    call_timeout_ms = 0
    has_bucket = True
    has_outbox = True

    def write(self, transition: Transition) -> Written:  # noqa: ARG002 -- nothing is kept
        """Nothing is written."""
        return Written()

    def commit(self, commit: Commit) -> Written:  # noqa: ARG002 -- as above
        """Nothing is written."""
        return Written()

    def save(self, blob: Blob) -> None:
        """Nothing is stored."""

    def fetch(self, at: StoredRef) -> None:
        """Nothing is stored anywhere."""

    def read(self, pk: str) -> Record | None:  # noqa: ARG002 -- as above
        """There is no record."""
        return None

    def counter(self, name: str) -> Counter | None:  # noqa: ARG002 -- as above
        """There is no counter."""
        return None

    def pauses(self) -> tuple[Pause, ...]:
        """Nothing is paused."""
        return ()

    def due(self, shard: str, until_ms: int, *, after: Any = None) -> DuePage:  # noqa: ARG002 -- as above
        """Nothing is due."""
        return DuePage(keys=())

    def put_off(
        self,
        pk: str,
        *,
        due_by_ms: int,
        to_ms: int,
        counts: bool = True,
    ) -> None:
        """Nothing is due."""

    def most_due_shards(self, at_least: int) -> int:
        """As many as are configured."""
        return at_least


STORE = DisabledStore()
