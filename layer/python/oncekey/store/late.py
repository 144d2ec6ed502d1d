"""A store that is made when something is first asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.store.store import Store


class LateStore:
    """Stands for the store that `make` returns: a call without a record may never need one."""

    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make
        self._made: Store | None = None

    def made(self) -> Store:
        """The store itself.

        Raises:
            ConfigurationError: no table is named.
        """
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made(), name)
