"""The pauses of a table, as an operator changes them. Handlers only read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from oncekey.store.store import Store

if TYPE_CHECKING:
    from oncekey.record.pause import Pause, PauseScope


class Pausable(Store, Protocol):
    """A store whose operations and tenants can be paused."""

    def pause(self, pause: Pause) -> Pause | None:
        """Put `pause` on record, and return the pause that it replaces, if any.

        When it returns, the pause is durable. A sandbox keeps to it once it has read it.

        Raises:
            StoreError: the store did not answer; the pause may be on record.
        """
        ...

    def resume(self, scope: PauseScope, name: str) -> Pause | None:
        """Remove the pause, and return it; None if there was none.

        Raises:
            StoreError: the store did not answer; the pause may have been removed.
        """
        ...
