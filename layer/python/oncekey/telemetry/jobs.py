"""What workers log of accepted requests. Never a key, a payload or an answer."""

from __future__ import annotations

import logging

_logger = logging.getLogger("oncekey")


def superseded(operation: str, operation_id: str) -> None:
    """A message speaks no longer for its operation, which was accepted anew."""
    _logger.info(
        "oncekey superseded: %s %s: the message is done with",
        operation,
        operation_id,
        extra={
            "oncekey_event": "superseded",
            "operation": operation,
            "operation_id": operation_id,
        },
    )


def forgotten(operation: str, operation_id: str) -> None:
    """A message came after its operation's record had expired: the request is not carried out."""
    _logger.warning(
        "oncekey forgotten: %s %s: its record has expired, and the message is done with;"
        " give retention= as long as messages live, dead letters too",
        operation,
        operation_id,
        extra={
            "oncekey_event": "forgotten",
            "operation": operation,
            "operation_id": operation_id,
        },
    )


def request_not_kept(operation: str, reason: str) -> None:
    """A request is not kept in its record, so that nobody completes it without its client."""
    _logger.warning(
        "oncekey request-not-kept: %s: %s",
        operation,
        reason,
        extra={"oncekey_event": "request-not-kept", "operation": operation},
    )
