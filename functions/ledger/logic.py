"""The comparison of one ledger, without entries that moved no money."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from oncekey.ledger import LedgerComparison, OnlyOurs, OnlyTheirs, compare_ledgers, sorted_by_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from functions.ledger.models import Entry, Found, Window
    from functions.ledger.sources import Ledger
    from functions.ledger.time_budget import TimeBudget
    from oncekey.ledger import LedgerTotals


class Findings:
    """An iterator over the relevant differences of one ledger. At its end there are `totals`.

    An entry that is on one side only and has moved no money is left out and not counted. Examples
    are a payment that is not charged yet, and one that was declined before the provider stored it.
    """

    def __init__(self, comparison: LedgerComparison[Entry, Entry]) -> None:
        self._comparison = comparison
        self._ignored_ours = 0
        self._ignored_theirs = 0

    def __iter__(self) -> Iterator[Found]:
        for found in self._comparison:
            if isinstance(found, OnlyOurs) and not found.row.moves_money:
                self._ignored_ours += 1
            elif isinstance(found, OnlyTheirs) and not found.row.moves_money:
                self._ignored_theirs += 1
            else:
                yield found

    @property
    def totals(self) -> LedgerTotals:
        """The totals of the whole comparison.

        Raises:
            LedgerUnfinished: not all differences have been read.
        """
        totals = self._comparison.totals
        return replace(
            totals,
            only_ours=totals.only_ours - self._ignored_ours,
            only_theirs=totals.only_theirs - self._ignored_theirs,
        )


@contextlib.contextmanager
def compare(ledger: Ledger, window: Window, budget: TimeBudget) -> Iterator[Findings]:
    """Compare a ledger over a window, until the block ends.

    The provider is read before our table, so that an entry settled in between is not reported.
    """
    with (
        sorted_by_id(ledger.theirs(window, budget), id_of=lambda entry: entry.id) as theirs,
        sorted_by_id(ledger.ours(window, budget), id_of=lambda entry: entry.id) as ours,
    ):
        yield Findings(
            compare_ledgers(
                _checked(ours, budget),
                summed(theirs),
                our_id=lambda entry: entry.id,
                their_id=lambda entry: entry.id,
                fields=ledger.fields,
            )
        )


def _checked(entries: Iterable[Entry], budget: TimeBudget) -> Iterator[Entry]:
    for entry in entries:
        budget.check()
        yield entry


def summed(entries: Iterable[Entry]) -> Iterator[Entry]:
    """One entry for each id. The entries must be in the order of their ids.

    A payment may have several intents. Declined intents are ignored if there is another one. If two
    intents were charged, which is an error, their sum exceeds the payment's amount.
    """
    for _, group in itertools.groupby(entries, key=lambda entry: entry.id):
        total: Entry | None = None
        for entry in group:
            if total is None or (entry.moves_money and not total.moves_money):
                total = entry
            elif entry.moves_money:
                total = replace(
                    total,
                    provider_id=f"{total.provider_id} {entry.provider_id}",
                    amount=(total.amount or 0) + (entry.amount or 0),
                )
        if total is not None:
            yield total
