"""The log lines of quotas, one function for each event. They never contain a key or a payload."""

from __future__ import annotations

import logging

_logger = logging.getLogger("oncekey")


def exceeded(operation: str, tenant: str, limit: str) -> None:
    """A request was answered 429."""
    _say(logging.INFO, "quota-exceeded", operation, tenant, limit)


def contended(operation: str, tenant: str) -> None:
    """Too many new keys of one tenant were counted in one item at once; see `shards`."""
    _say(logging.WARNING, "quota-contended", operation, tenant, "")


def _say(level: int, event: str, operation: str, tenant: str, limit: str) -> None:
    _logger.log(
        level,
        "oncekey %s: %s%s",
        event,
        operation,
        f": {limit}" if limit else "",
        extra={
            "oncekey_event": event,
            "operation": operation,
            "tenant": tenant,
            **({"limit": limit} if limit else {}),
        },
    )
