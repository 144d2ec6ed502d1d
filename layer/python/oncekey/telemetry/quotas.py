"""The log lines of quotas, one function for each event. They never contain a key or a payload."""

from __future__ import annotations

import logging

from oncekey.telemetry import watching

_logger = logging.getLogger("oncekey")


def exceeded(operation: str, tenant: str, limit: str) -> None:
    """A request was answered 429.

    Then: the client may wait.
    """
    watching.count("QuotaExceeded", operation)
    _say(logging.INFO, "quota-exceeded", operation, tenant, limit)


def contended(operation: str, tenant: str) -> None:
    """One tenant sent too many new keys at once for one counter.

    To do: [raise `shards`](../guides/quotas.md#many-new-keys-at-once).
    """
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
