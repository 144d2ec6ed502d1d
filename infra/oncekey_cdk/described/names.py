"""Names of constructs, from the names of the description."""

from __future__ import annotations


def pascal(name: str) -> str:
    """`outbox-relay` as `OutboxRelay`."""
    return "".join(word.capitalize() for word in name.split("-"))
