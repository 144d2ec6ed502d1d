"""The two verbs of a store, and their contract in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from oncekey.record import Record
    from oncekey.transitions import Transition


@dataclass(frozen=True, slots=True)
class Written:
    """The transition was permitted and is durable."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The transition was not permitted and nothing was written.

    `record` is what stood in its way (`None`: nothing there).
    """

    record: Record | None


class Store(Protocol):
    """Holds one record for each partition key.

    A store is immutable and safe to share between handlers and threads.
    """

    @property
    def call_timeout_ms(self) -> int:
        """The longest that one call may take before it raises."""
        ...

    def write(self, transition: Transition) -> Written | Refused:
        """Apply `transition`, atomically, if what is stored now permits it.

        `oncekey.transition_rules.permitted` says when it does.
        When it returns, the answer is certain. When it raises `StoreError`, or never returns (the
        process was killed), the transition may or may not have been applied, now or later; asking
        again is safe, because every condition names the version or the owner that it was made for.
        """
        ...

    def read(self, pk: str) -> Record | None:
        """The record as of now (strongly consistent). It is never the guard of a write."""
        ...
