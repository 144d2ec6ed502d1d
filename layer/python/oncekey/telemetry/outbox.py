"""What the relay, the inbox and the worker log, one function an event. Never a payload."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey.errors import StoreError
    from oncekey.record.set_aside import SetAside

_logger = logging.getLogger("oncekey")


def message_set_aside(message_id: str, reason: str) -> None:
    """An item of the outbox will not be sent again; it stays there, for a person to look at."""
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


def message_waits_for_a_person(message: SetAside) -> None:
    """A message that was set aside is not put back yet; said once, and then each week."""
    _logger.error(
        "oncekey message-waits-for-a-person: %s: %s",
        message.id,
        message.reason,
        extra={
            "oncekey_event": "message-waits-for-a-person",
            "message_id": message.id,
            "operation": message.operation,
            "operation_id": message.operation_id,
            "reason": message.reason,
        },
    )


def person_not_told(messages: int, error: StoreError) -> None:
    """The escalation queue, or the outbox, did not answer; the next sweep tells the person."""
    _logger.error(
        "oncekey person-not-told: of %s messages: %s",
        messages,
        error.reason,
        extra={"oncekey_event": "person-not-told", "reason": error.reason},
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


def worker_waits(error: Exception) -> None:
    """The store does not answer a worker; it tries the same message again, within its time."""
    _logger.warning(
        "oncekey worker-waits: %s",
        type(error).__name__,
        extra={"oncekey_event": "worker-waits", "reason": type(error).__name__},
    )


def messages_given_back(messages: int) -> None:
    """A worker has not begun some of its messages; the queue delivers them again soon."""
    _logger.warning(
        "oncekey messages-given-back: %s",
        messages,
        extra={"oncekey_event": "messages-given-back", "messages": messages},
    )
