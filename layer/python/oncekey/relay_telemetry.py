"""What the relay and the inbox log, one function an event. Never a payload."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey.errors import StoreError

_logger = logging.getLogger("oncekey")


def message_set_aside(message_id: str, reason: str) -> None:
    """An item of the outbox can never be sent; it stays there, for a person to look at."""
    _logger.error(
        "oncekey message-set-aside: %s: %s",
        message_id or "(no id)",
        reason,
        extra={"oncekey_event": "message-set-aside", "message_id": message_id},
    )


def message_rejected(message_id: str, reason: str, *, is_final: bool) -> None:
    """The queue did not take a message: it never will, or it is sent again."""
    _logger.log(
        logging.ERROR if is_final else logging.WARNING,
        "oncekey message-rejected: %s: %s",
        message_id,
        reason,
        extra={"oncekey_event": "message-rejected", "message_id": message_id},
    )


def relay_failed(messages: int, error: StoreError) -> None:
    """The queue or the outbox did not answer; the messages are sent again."""
    _logger.error(
        "oncekey relay-failed: %s messages: %s",
        messages,
        error.reason,
        extra={"oncekey_event": "relay-failed", "reason": error.reason},
    )


def message_not_postponed(error: Exception) -> None:
    """A message that cannot be worked on now comes again when its visibility timeout is over."""
    _logger.warning(
        "oncekey message-not-postponed: %s",
        error,
        extra={"oncekey_event": "message-not-postponed"},
    )
