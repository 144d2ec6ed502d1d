"""The log lines of workers about jobs. They never contain a key, a payload or an answer."""

from __future__ import annotations

import logging

_logger = logging.getLogger("oncekey")


def superseded(operation: str, operation_id: str) -> None:
    """A message is outdated, because its operation was accepted again with a new one."""
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
    """A message came after its record had expired, and is dropped.

    To do: make `retention=` as long as a message can live, as a dead letter too.
    """
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
    """A request is too large to be kept in its record.

    To do: nothing, if its client comes back; else settle it.
    """
    _logger.warning(
        "oncekey request-not-kept: %s: %s",
        operation,
        reason,
        extra={"oncekey_event": "request-not-kept", "operation": operation},
    )
