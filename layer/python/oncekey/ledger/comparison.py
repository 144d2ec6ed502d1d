"""Comparing two ledgers, ours and a provider's: what one of them lacks, and where they differ.

Both are read once, side by side, as a merge of sorted files is. No more of them is held than the
row that stands next on each side, so they may be of any size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from oncekey.ledger.values import (
    HIDDEN,
    Difference,
    Different,
    FieldDifference,
    LedgerField,
    LedgerNotSorted,
    LedgerTotals,
    LedgerUnfinished,
    OnlyOurs,
    OnlyTheirs,
    Ours,
    Side,
    Theirs,
    checked_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

Row = TypeVar("Row")


class LedgerComparison(Generic[Ours, Theirs]):
    """An iterator over the differences, in the order of their ids, that ends with `totals`."""

    def __init__(
        self, differences: Generator[Difference[Ours, Theirs], None, LedgerTotals]
    ) -> None:
        self._differences = differences
        self._totals: LedgerTotals | None = None

    def __iter__(self) -> Iterator[Difference[Ours, Theirs]]:
        return self

    def __next__(self) -> Difference[Ours, Theirs]:
        """The next difference; reads on until there is one.

        Raises:
            StopIteration: there are no more, and `totals` is there.
            LedgerNotSorted: see there. Nothing more comes, and there never are totals.
            TypeError: an id is no str; the same.
        """
        try:
            return next(self._differences)
        except StopIteration as end:
            # A second StopIteration of the generator, or the first after an error, carries none.
            if isinstance(end.value, LedgerTotals):
                self._totals = end.value
            raise

    @property
    def totals(self) -> LedgerTotals:
        """What came of it.

        Raises:
            LedgerUnfinished: differences are still to come, or the comparison has failed.
        """
        if self._totals is None:
            raise LedgerUnfinished
        return self._totals


def compare_ledgers(
    ours: Iterable[Ours],
    theirs: Iterable[Theirs],
    *,
    our_id: Callable[[Ours], str],
    their_id: Callable[[Theirs], str],
    fields: Sequence[LedgerField[Ours, Theirs]],
) -> LedgerComparison[Ours, Theirs]:
    """Compare two ledgers that are sorted by an id which both know.

    Nothing is read before the first difference is asked for. Ids are compared as `str`, that is by
    code point, as `sorted` does; a database that sorts by locale, without regard to case, or by
    number, sorts otherwise, and is told so by `LedgerNotSorted`. What has been yielded before an
    error is true of the rows that were read.

    Args:
        ours: our rows.
        theirs: the provider's rows.
        our_id: the id of a row of ours.
        their_id: the id of a row of theirs.
        fields: what should be the same on both sides, compared by `==`; empty compares ids alone.

    Raises:
        ValueError: two fields have one name.
    """
    names = [each.name for each in fields]
    if len(set(names)) < len(names):
        raise ValueError(f"the names of the fields are not all different: {', '.join(names)}")
    differences = _compare(
        _Reader("ours", ours, our_id), _Reader("theirs", theirs, their_id), tuple(fields)
    )
    return LedgerComparison(differences)


class _Reader(Generic[Row]):
    """One ledger, of which one row is held."""

    def __init__(self, side: Side, rows: Iterable[Row], id_of: Callable[[Row], str]) -> None:
        self._side: Side = side
        self._rows = iter(rows)
        self._id_of = id_of
        self._row_number = 0
        self._held: list[Row] = []
        self.id: str | None = None

    @property
    def row(self) -> Row:
        """The row that is held; there is one unless `id` is None."""
        (row,) = self._held
        return row

    def advance(self) -> None:
        """Hold the next row, or at the end none; the one before is let go first."""
        previous_id, self._held, self.id = self.id, [], None
        for row in self._rows:
            self._held = [row]
            break
        else:
            return
        self._row_number += 1
        self.id = checked_id(self._id_of(self.row), f"row {self._row_number} of {self._side}")
        if previous_id is not None and self.id <= previous_id:
            raise LedgerNotSorted(self._side, self._row_number, self.id, previous_id)


def _compare(
    ours: _Reader[Ours],
    theirs: _Reader[Theirs],
    fields: tuple[LedgerField[Ours, Theirs], ...],
) -> Generator[Difference[Ours, Theirs], None, LedgerTotals]:
    equal = different = only_ours = only_theirs = 0
    ours.advance()
    theirs.advance()
    while True:
        if ours.id is None and theirs.id is None:
            return LedgerTotals(
                equal=equal, different=different, only_ours=only_ours, only_theirs=only_theirs
            )
        if ours.id is not None and (theirs.id is None or ours.id < theirs.id):
            only_ours += 1
            yield OnlyOurs(id=ours.id, row=ours.row)
            ours.advance()
        elif theirs.id is not None and (ours.id is None or theirs.id < ours.id):
            only_theirs += 1
            yield OnlyTheirs(id=theirs.id, row=theirs.row)
            theirs.advance()
        else:
            assert ours.id is not None
            unlike = _unlike(ours.row, theirs.row, fields)
            if unlike:
                different += 1
                yield Different(id=ours.id, ours=ours.row, theirs=theirs.row, fields=unlike)
            else:
                equal += 1
            ours.advance()
            theirs.advance()


def _unlike(
    ours: Ours, theirs: Theirs, fields: tuple[LedgerField[Ours, Theirs], ...]
) -> tuple[FieldDifference, ...]:
    values = ((each, each.ours(ours), each.theirs(theirs)) for each in fields)
    return tuple(
        FieldDifference(
            name=each.name,
            ours=HIDDEN if each.secret else our_value,
            theirs=HIDDEN if each.secret else their_value,
        )
        for each, our_value, their_value in values
        if our_value != their_value
    )
