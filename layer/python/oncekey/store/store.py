"""The protocol of a store: its methods and their contracts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from oncekey.value import Value

if TYPE_CHECKING:
    from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable
    from oncekey.record.counter import Counter
    from oncekey.record.pause import Pause
    from oncekey.record.record import Record
    from oncekey.record.stored_answer import Blob, StoredRef
    from oncekey.record.transitions import Transition


class Written(Value):
    """The transition was applied and is durable."""


class Refused(Value):
    """The transition was not permitted and nothing was written.

    `record` is the stored record (None: there is none).
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
        """Apply `transition` atomically if the stored record permits it.

        The rules are in `oncekey.record.rules.permitted`.

        When it returns, the answer is certain. When it raises `StoreError`, or never returns
        because the process was killed, the transition may or may not have been applied, now or
        later. A retry is safe, because every condition names the version or the owner that it was
        made for.
        """
        ...

    def commit(self, commit: Commit) -> Written | Refused | ConditionsFailed | Inapplicable:
        """Apply all writes of `commit`, or none, if its transition is permitted.

        When it returns `Written`, all of them are durable. Any other answer means that none was
        applied. The record's own condition is checked first: `ConditionsFailed` means that it held.
        When it raises `StoreError`, or never returns, all or none of them may have been applied,
        now or later. Sending the same commit again is safe, and applies nothing twice.
        """
        ...

    @property
    def has_outbox(self) -> bool:
        """Whether messages can be written."""
        ...

    @property
    def has_bucket(self) -> bool:
        """Whether answers too large for an item can be stored."""
        ...

    def save(self, blob: Blob) -> None:
        """Store an answer outside its record, before the record refers to it.

        When it returns, the bytes are durable. When it raises `StoreError`, or never returns, they
        may have been stored; no record refers to them.
        """
        ...

    def fetch(self, at: StoredRef) -> bytes | None:
        """The bytes stored there now (a strongly consistent read), or None.

        Raises:
            StoreError: the store did not answer.
        """
        ...

    def read(self, pk: str) -> Record | None:
        """The record now (a strongly consistent read). The result never guards a write."""
        ...

    def counter(self, name: str) -> Counter | None:
        """A quota's counter now (a strongly consistent read). The result never guards a write."""
        ...

    def pauses(self) -> tuple[Pause, ...]:
        """What is paused now (a strongly consistent read). The result never guards a write.

        Raises:
            StoreError: the store did not answer, or what it holds cannot be read.
        """
        ...
