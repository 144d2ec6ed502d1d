"""The log lines of settlements and resolvers, one function for each event."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from oncekey.telemetry.requests import say

if TYPE_CHECKING:
    from oncekey.record.record import Record

_logger = logging.getLogger("oncekey")


def resolver_failed(record: Record, now_ms: int, reason: str) -> None:
    """A resolver raised, or returned none of the allowed values; the outcome stays unknown.

    To do: correct the resolver.
    """
    say(logging.ERROR, "resolver-failed", record, now_ms, reason)


def settled(record: Record, now_ms: int, what: str) -> None:
    """An unknown operation was settled."""
    say(logging.INFO, "settled", record, now_ms, what)


def settlement_overtaken(record: Record, now_ms: int) -> None:
    """Somebody else settled or ended it first."""
    say(logging.INFO, "settlement-overtaken", record, now_ms)


def nothing_to_settle(operation_id: str) -> None:
    """`settle` was called for an operation without a record: it has expired, or never existed."""
    _logger.info(
        "oncekey nothing-to-settle: %s",
        operation_id,
        extra={"oncekey_event": "nothing-to-settle", "operation_id": operation_id},
    )
