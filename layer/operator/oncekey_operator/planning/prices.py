"""The prices of DynamoDB that a plan multiplies with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

REGION = "us-east-1"
# Prices change. Compare this table with the page before you decide on its figures.
AS_OF = "mid-2026"
SOURCE = "https://aws.amazon.com/dynamodb/pricing/on-demand/"


@dataclass(frozen=True, kw_only=True)
class Prices:
    """US dollars, on demand, in the standard table class.

    Attributes:
        write: a million write units.
        read: a million read units.
        storage: a GB stored for a month. The first 25 GB of an account, which are free, are
            counted as all others.
        backup: a GB for a month of point-in-time recovery.
    """

    write: float = 0.625
    read: float = 0.125
    storage: float = 0.25
    backup: float = 0.20

    def changed(self, given: Mapping[str, float]) -> Prices:
        """These prices, with some replaced."""
        return replace(self, **given)
