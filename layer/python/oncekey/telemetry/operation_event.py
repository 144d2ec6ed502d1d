"""The events that an author's hook gets: replays, refusals, takeovers and unknown outcomes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from oncekey.value import Value

if TYPE_CHECKING:
    from oncekey.record.record import Record


_logger = logging.getLogger("oncekey")


class OperationEvent(Value, kw_only=True):
    """The event that `on_event=` gets before the caller is answered.

    Attributes:
        kind: `replay` (the stored result is returned again), `conflict` (the first call is still
            running), `key-reused` (the key belongs to another request), `unknown` (an attempt may
            have had an effect), or `takeover` (a new attempt replaces a dead one). Later releases
            may add kinds.
        operation: the operation's name.
        operation_id: the id of this life of the key.
        attempt: the attempt on record; in a takeover, the new one.
    """

    kind: str
    operation: str
    operation_id: str
    attempt: int


OnEvent = Callable[[OperationEvent], None]


def tell(on_event: OnEvent | None, kind: str, record: Record) -> None:
    """Call the author's hook, if there is one. Its exception is logged, and the call goes on."""
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
    except Exception as error:  # noqa: BLE001 -- a failing hook must not change the outcome
        _hook_failed(record.operation, kind, error)


def _hook_failed(operation: str, kind: str, error: Exception) -> None:
    """`on_event=` raised; the call goes on.

    The error's text is not logged.

    To do: correct the hook.
    """
    _logger.error(
        "oncekey: on_event of %s raised %s at %s",
        operation,
        type(error).__name__,
        kind,
        extra={"oncekey_event": "hook-failed", "operation": operation},
    )
