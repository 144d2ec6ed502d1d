"""The comparison of two ledgers, ours and a provider's: missing rows and different values.

Both are read once, side by side, as in a merge of sorted files. Only the next row of each side is
in memory, so the ledgers may have any size.
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
    from collections.abc import Callable, Generator, Iterable, Iterator

Row = TypeVar("Row")


class LedgerComparison(Generic[Ours, Theirs]):
    """An iterator over the differences, in the order of their ids; `totals` follow at its end."""

    def __init__(
        self, differences: Generator[Difference[Ours, Theirs], None, LedgerTotals]
    ) -> None:
        self._differences = differences
        self._totals: LedgerTotals | None = None

    def __iter__(self) -> Iterator[Difference[Ours, Theirs]]:
        return self

    def __next__(self) -> Difference[Ours, Theirs]:
        """The next difference. It reads rows until there is one.

        Raises:
            StopIteration: there are no more differences, and `totals` can be read.
            LedgerNotSorted: the ids do not rise. The comparison has failed and never has totals.
            TypeError: an id is not a str. The comparison has failed in the same way.
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
        """The totals of the whole comparison.

        Raises:
            LedgerUnfinished: not all differences were read, or the comparison has failed.
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
    fields: Iterable[LedgerField[Ours, Theirs]],
) -> LedgerComparison[Ours, Theirs]:
    """Compare two ledgers that are sorted by an id which both have.

    No row is read before the first difference is requested. Ids are compared as `str`, by code
    point, as `sorted` does. A database may sort by locale, without case, or by number; the
    comparison then raises `LedgerNotSorted`. Differences yielded before an error are correct for
    the rows that were read.

    Args:
        ours: our rows.
        theirs: the provider's rows.
        our_id: returns the id of one of our rows.
        their_id: returns the id of one of the provider's rows.
        fields: the values that should be equal on both sides, compared by `==`. Without fields,
            only the ids are compared.

    Raises:
        ValueError: two fields have one name.
    """
    # Read once: a second reading of a generator would find no fields, and so no differences.
    fields = tuple(fields)
    names = [each.name for each in fields]
    if len(set(names)) < len(names):
        raise ValueError(f"the names of the fields are not all different: {', '.join(names)}")
    differences = _compare(
        _Reader("ours", ours, our_id), _Reader("theirs", theirs, their_id), fields
    )
    return LedgerComparison(differences)


class _Reader(Generic[Row]):
    """A reader of one ledger that holds one row."""

    def __init__(self, side: Side, rows: Iterable[Row], id_of: Callable[[Row], str]) -> None:
        self._side: Side = side
        self._rows = iter(rows)
        self._id_of = id_of
        self._row_number = 0
        self._held: list[Row] = []
        self.id: str | None = None

    @property
    def row(self) -> Row:
        """The current row. There is one unless `id` is None."""
        (row,) = self._held
        return row

    def advance(self) -> None:
        """Read the next row, or none at the end. The previous row is released first."""
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
