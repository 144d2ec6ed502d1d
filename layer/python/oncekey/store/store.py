"""The six verbs of a store, and their contract in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable
    from oncekey.record.counter import Counter
    from oncekey.record.record import Record
    from oncekey.record.stored_answer import Blob, StoredRef
    from oncekey.record.transitions import Transition


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

        `oncekey.record.rules.permitted` says when it does.
        When it returns, the answer is certain. When it raises `StoreError`, or never returns (the
        process was killed), the transition may or may not have been applied, now or later; asking
        again is safe, because every condition names the version or the owner that it was made for.
        """
        ...

    def commit(self, commit: Commit) -> Written | Refused | ConditionsFailed | Inapplicable:
        """Apply everything in `commit`, or nothing of it, if its transition is permitted.

        When it returns `Written`, all of it is durable; any other answer means that nothing was
        applied. The record's own condition is judged first: `ConditionsFailed` means that it held.
        When it raises `StoreError`, or never returns, all of it may or may not have been applied,
        now or later; sending the same commit again is safe, and applies nothing twice.
        """
        ...

    @property
    def has_outbox(self) -> bool:
        """Whether messages can be written."""
        ...

    @property
    def has_bucket(self) -> bool:
        """Whether answers that no item holds can be kept."""
        ...

    def save(self, blob: Blob) -> None:
        """Keep an answer beside its record, before the record says where it is.

        When it returns, the bytes are durable. When it raises `StoreError`, or never returns, they
        may have been kept; nobody will look for them.
        """
        ...

    def fetch(self, at: StoredRef) -> bytes | None:
        """The bytes kept there, as of now (strongly consistent), or None.

        Raises:
            StoreError: the store did not answer.
        """
        ...

    def read(self, pk: str) -> Record | None:
        """The record as of now (strongly consistent). It is never the guard of a write."""
        ...

    def counter(self, name: str) -> Counter | None:
        """A quota's counter as of now (strongly consistent). It is never the guard of a write."""
        ...
