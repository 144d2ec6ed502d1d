"""The log lines of workers about jobs. They never contain a key, a payload or an answer."""

from __future__ import annotations

import logging

_logger = logging.getLogger("oncekey")


def superseded(operation: str, operation_id: str) -> None:
    """A worker dropped a message, because its job was accepted again with a newer message."""
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
    """A message arrived after its job's record had expired: the job is not run."""
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
    """The request is not stored in the record, so that only its client can complete it."""
    _logger.warning(
        "oncekey request-not-kept: %s: %s",
        operation,
        reason,
        extra={"oncekey_event": "request-not-kept", "operation": operation},
    )
