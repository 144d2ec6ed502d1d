"""Answers, amounts and numbers as readable text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from oncekey_local.demo.log import Exchange


def shown(each: Exchange) -> str:
    """An answer in a few words."""
    if each.status == 0:
        return "no answer"
    return f"{each.status} {each.problem or _subject(each)}".rstrip()


def _subject(each: Exchange) -> str:
    named = {"refund": each.refund_id, "payment": each.payment_id}
    for what, identifier in named.items():
        if identifier:
            return f"{what} {identifier[:12]}… {each.state or ''}"
    return ""


def counted(exchanges: Iterable[Exchange]) -> str:
    """Answers by status, as `201, 409 x4`."""
    seen = Counter(each.status for each in exchanges)
    return ", ".join(
        f"{status or 'none'}{f' x{times}' if times > 1 else ''}" for status, times in seen.items()
    )


def euros(amount: int) -> str:
    """An amount in cents, shown in euros."""
    return f"{amount / 100:.2f} EUR"


def times(count: int, what: str) -> str:
    """A number with its noun."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
