"""What is logged of quotas, one function an event. Never a key or a payload."""

from __future__ import annotations

import logging

_logger = logging.getLogger("oncekey")


def exceeded(operation: str, tenant: str, limit: str) -> None:
    """A request was answered 429."""
    _say(logging.INFO, "quota-exceeded", operation, tenant, limit)


def contended(operation: str, tenant: str) -> None:
    """Too many of a tenant's new keys came at once for the item that counts them; see `shards`."""
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
