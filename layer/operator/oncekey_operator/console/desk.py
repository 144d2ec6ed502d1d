"""What the console needs: something to look at, and actions on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from oncekey.record.record import Record
    from oncekey_operator.console.life import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which operations are listed. An empty text is no condition.

    `state` is as `oncekey list` has them, such as `in-progress`; tenant and operation are parts of
    names. Without `settled`, only open operations are listed: they are in the index, and listing
    them reads nothing else. A scan finds a state that the index does not have, and all operations
    of a table without the index.
    """

    state: str = ""
    tenant: str = ""
    operation: str = ""
    settled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Operations, the newest first. `is_whole` is false if there are more.

    If the table was scanned for them, the page does so again only when a person asks for it: a scan
    of a deployed table costs money.
    """

    records: Sequence[Record]
    is_whole: bool
    is_scanned: bool


class Desk(Protocol):
    """Reads and acts on one deployment.

    Every method raises `StoreError` or what boto3 raises if the store does not answer. Actions
    raise `CommandError`, and return a sentence that says what was done.
    """

    @property
    def place(self) -> str:
        """Where it operates, in words: the table, the Region or the local runtime."""
        ...

    @property
    def where(self) -> str:
        """The options that name the same place to a command, with a space before; or empty."""
        ...

    def operations(self, wanted: Wanted) -> Listing:
        """The operations that are wanted. Raises `CommandError` if there is no such state."""
        ...

    def operation(self, reference: str) -> Record | None:
        """The record of a reference; None if it is gone. Raises `ValueError` for no reference."""
        ...

    def history(self, record: Record) -> Sequence[Event]:
        """Events of `record` that the record itself does not have."""
        ...

    def revealed(self, record: Record) -> Mapping[str, Any]:
        """The key and the stored answer, for a console that reveals them."""
        ...

    def outbox(self) -> Sequence[Mapping[str, Any]]:
        """The messages in the outbox, without payloads; the oldest first."""
        ...

    def queues(self) -> Sequence[Mapping[str, Any]]:
        """Each queue, with the number of its messages and of its dead letters."""
        ...

    def pauses(self) -> Sequence[Mapping[str, Any]]:
        """What is paused."""
        ...

    def settle(self, reference: str, given: Mapping[str, Any]) -> str:
        """Settles an unknown operation, or its step in doubt."""
        ...

    def act(self, action: str, given: Mapping[str, Any]) -> str:
        """Does one of the other actions: requeue, redrive, pause, resume."""
        ...


class Workshop(Protocol):
    """What only the local runtime has: processes to kill, faults to inject, requests to send."""

    def state(self) -> Mapping[str, Any]:
        """Processes, schedules, routes, and the faults in force."""
        ...

    def do(self, what: str, given: Mapping[str, Any]) -> str:
        """Does one thing and says what it did. Raises `ValueError` if it cannot be done."""
        ...
