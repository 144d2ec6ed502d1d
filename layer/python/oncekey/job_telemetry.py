"""What workers log of accepted requests. Never a key, a payload or an answer."""

from __future__ import annotations

import logging

_logger = logging.getLogger("oncekey")


def superseded(operation: str, operation_id: str) -> None:
    """A message speaks no longer for its operation: accepted anew, answered, or forgotten."""
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
