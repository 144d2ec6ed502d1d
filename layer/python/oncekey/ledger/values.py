"""The values of a ledger comparison: fields, differences, totals and errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from oncekey.errors import OncekeyError

if TYPE_CHECKING:
    from collections.abc import Callable

Ours = TypeVar("Ours")
Theirs = TypeVar("Theirs")

Side = Literal["ours", "theirs"]
# Reported in place of a secret value.
HIDDEN = "(hidden)"


class LedgerNotSorted(OncekeyError):  # noqa: N818 -- a property of what was given
    """A ledger's ids do not rise, so a comparison would give wrong results.

    Attributes:
        side: the ledger, `ours` or `theirs`.
        row_number: the number of the row in it, counted from 1.
        row_id: the row's id.
        previous_id: the id of the row before it; the same id if it is repeated.
    """

    def __init__(self, side: Side, row_number: int, row_id: str, previous_id: str) -> None:
        self.side: Side = side
        self.row_number = row_number
        self.row_id = row_id
        self.previous_id = previous_id
        super().__init__(side, row_number, row_id, previous_id)

    def __str__(self) -> str:
        place = f"row {self.row_number} of {self.side} has the id {self.row_id!r}"
        if self.row_id == self.previous_id:
            return f"{place}, and so has the row before it: give every id once, for instance summed"
        return (
            f"{place}, which comes before {self.previous_id!r}, the id of the row before it: sort"
            " both by id, as str (sorted_by_id does)"
        )


class LedgerUnfinished(OncekeyError):  # noqa: N818 -- a state of the comparison
    """The totals were read before the comparison had reached the end of both ledgers."""

    def __str__(self) -> str:
        return (
            "the comparison has not come to the end of both ledgers: read all its differences"
            " first; after an error there are no totals"
        )


@dataclass(frozen=True, kw_only=True)
class LedgerField(Generic[Ours, Theirs]):
    """A value that should be equal in our row and the provider's row with the same id.

    Attributes:
        name: the field's name in a difference.
        ours: reads the value from one of our rows.
        theirs: reads the value from one of the provider's rows.
        secret: whether a difference hides both values and only says that they differ.
    """

    name: str
    ours: Callable[[Ours], object] = field(repr=False)
    theirs: Callable[[Theirs], object] = field(repr=False)
    secret: bool = False


@dataclass(frozen=True, kw_only=True)
class FieldDifference:
    """A field that differs between two rows. Both values are `HIDDEN` if the field is secret."""

    name: str
    ours: object
    theirs: object


@dataclass(frozen=True, kw_only=True)
class OnlyOurs(Generic[Ours]):
    """We have it, and the provider does not."""

    id: str
    row: Ours = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class OnlyTheirs(Generic[Theirs]):
    """The provider has it, and we do not."""

    id: str
    row: Theirs = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Different(Generic[Ours, Theirs]):
    """Both have the row, with different values. `fields` are those that differ, at least one."""

    id: str
    ours: Ours = field(repr=False)
    theirs: Theirs = field(repr=False)
    fields: tuple[FieldDifference, ...]


Difference = OnlyOurs[Ours] | OnlyTheirs[Theirs] | Different[Ours, Theirs]


@dataclass(frozen=True, kw_only=True)
class LedgerTotals:
    """The totals of a whole comparison, in rows.

    `equal` and `different` count ids that both ledgers have, `only_ours` and `only_theirs` the
    others.
    """

    equal: int = 0
    different: int = 0
    only_ours: int = 0
    only_theirs: int = 0

    @property
    def compared(self) -> int:
        """How many different ids the two ledgers have together."""
        return self.equal + self.differences

    @property
    def differences(self) -> int:
        """How many of these ids are missing on one side or have different values."""
        return self.different + self.only_ours + self.only_theirs


def checked_id(row_id: object, place: str) -> str:
    """The id, checked.

    Raises:
        TypeError: it is not a str.
    """
    if not isinstance(row_id, str):
        raise TypeError(f"the id of {place} must be a str, but it is {type(row_id).__name__}")
    return row_id
