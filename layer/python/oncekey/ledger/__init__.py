"""The comparison of two ledgers, ours and a provider's."""

from typing import TYPE_CHECKING

from oncekey import lazy

if TYPE_CHECKING:
    from oncekey.ledger.comparison import (
        LedgerComparison,
        compare_ledgers,
    )
    from oncekey.ledger.sort import (
        sorted_by_id,
    )
    from oncekey.ledger.values import (
        Different,
        FieldDifference,
        LedgerField,
        LedgerNotSorted,
        LedgerTotals,
        LedgerUnfinished,
        OnlyOurs,
        OnlyTheirs,
    )

__all__ = [
    "Different",
    "FieldDifference",
    "LedgerComparison",
    "LedgerField",
    "LedgerNotSorted",
    "LedgerTotals",
    "LedgerUnfinished",
    "OnlyOurs",
    "OnlyTheirs",
    "compare_ledgers",
    "sorted_by_id",
]

__getattr__, __dir__ = lazy.names(
    __name__,
    {
        "oncekey.ledger.comparison": (
            "LedgerComparison",
            "compare_ledgers",
        ),
        "oncekey.ledger.sort": ("sorted_by_id",),
        "oncekey.ledger.values": (
            "Different",
            "FieldDifference",
            "LedgerField",
            "LedgerNotSorted",
            "LedgerTotals",
            "LedgerUnfinished",
            "OnlyOurs",
            "OnlyTheirs",
        ),
    },
)
