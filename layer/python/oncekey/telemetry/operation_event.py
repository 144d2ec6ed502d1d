"""What an author may hear of calls that were no plain runs: replays, refusals, takeovers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.telemetry import requests as telemetry

if TYPE_CHECKING:
    from oncekey.record.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEvent:
    """Something that became of a call: `on_event=` is given it, before the caller is answered.

    Attributes:
        kind: `replay` (the stored result is given again), `conflict` (the first call is still
            running), `key-reused` (the key is another request's), `unknown` (an attempt ended, or
            was found, and may have had an effect), or `takeover` (an attempt goes on in place of
            one that is dead). More kinds may come.
        operation: the operation's name.
        operation_id: of this life of the key.
        attempt: the attempt that the record speaks of; in a takeover, the new one.
    """

    kind: str
    operation: str
    operation_id: str
    attempt: int


OnEvent = Callable[[OperationEvent], None]


def tell(on_event: OnEvent | None, kind: str, record: Record) -> None:
    """Tell the author's hook, if there is one. What it raises is logged, and breaks no call."""
    if on_event is None:
        return
    event = OperationEvent(
        kind=kind,
        operation=record.operation,
        operation_id=record.operation_id,
        attempt=record.attempt,
    )
    try:
        on_event(event)
    except Exception as error:  # noqa: BLE001 -- who listens must not decide what is done
        telemetry.hook_failed(record.operation, kind, error)
