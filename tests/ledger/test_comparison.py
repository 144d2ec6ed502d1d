"""Comparing two ledgers that are sorted by id."""

from __future__ import annotations

import itertools
import pickle
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncekey import OncekeyError
from oncekey.ledger import (
    Different,
    FieldDifference,
    LedgerField,
    LedgerNotSorted,
    LedgerTotals,
    LedgerUnfinished,
    OnlyOurs,
    OnlyTheirs,
    compare_ledgers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from oncekey.ledger import LedgerComparison

OurRow = tuple[str, int, str]
TheirRow = dict[str, Any]

AMOUNT = LedgerField[OurRow, TheirRow](
    name="amount", ours=lambda row: row[1], theirs=lambda row: row["amount"]
)
IBAN = LedgerField[OurRow, TheirRow](
    name="iban", ours=lambda row: row[2], theirs=lambda row: row["iban"], secret=True
)
# Any id may meet any other: shared, of one side only, between two of the other's, first, last.
LEDGERS = st.dictionaries(
    st.text(st.sampled_from("aZ0é\ud800\uffff\U00010000"), max_size=3), st.integers(0, 2)
)


def theirs_of(*rows: OurRow) -> list[TheirRow]:
    """The same rows, as the provider holds them."""
    return [{"key": row_id, "amount": amount, "iban": iban} for row_id, amount, iban in rows]


def compare(
    ours: Iterable[OurRow], theirs: Iterable[TheirRow]
) -> LedgerComparison[OurRow, TheirRow]:
    """A comparison of both fields."""
    return compare_ledgers(
        ours,
        theirs,
        our_id=lambda row: row[0],
        their_id=lambda row: row["key"],
        fields=[AMOUNT, IBAN],
    )


@pytest.mark.requirement("C19")
@given(ours=LEDGERS, theirs=LEDGERS)
def test_every_difference_is_found_once_and_nothing_else(
    ours: dict[str, int], theirs: dict[str, int]
) -> None:
    """Two ledgers are told apart as two dictionaries are, whichever way their ids interleave.

    Red when the merge steps over a row, meets an end too early, or takes one side for the other.
    """
    comparison = compare(
        [(row_id, ours[row_id], "") for row_id in sorted(ours)],
        theirs_of(*((row_id, theirs[row_id], "") for row_id in sorted(theirs))),
    )
    found = [(type(each), each.id) for each in comparison]

    both = ours.keys() & theirs.keys()
    unlike = {row_id for row_id in both if ours[row_id] != theirs[row_id]}
    expected = [
        *((OnlyOurs, row_id) for row_id in ours.keys() - theirs.keys()),
        *((OnlyTheirs, row_id) for row_id in theirs.keys() - ours.keys()),
        *((Different, row_id) for row_id in unlike),
    ]
    assert found == sorted(expected, key=lambda each: each[1])
    assert comparison.totals == LedgerTotals(
        equal=len(both - unlike),
        different=len(unlike),
        only_ours=len(ours.keys() - theirs.keys()),
        only_theirs=len(theirs.keys() - ours.keys()),
    )
    assert comparison.totals.compared == len(ours.keys() | theirs.keys())
    assert comparison.totals.differences == len(found)


def test_a_difference_has_both_rows_and_the_values_that_differ() -> None:
    """Each difference carries what it was read from; a field that is the same is left out."""
    comparison = compare(
        [("a", 1, "x"), ("b", 2, "x"), ("d", 4, "x")],
        theirs_of(("b", 3, "x"), ("c", 3, "x"), ("d", 4, "x")),
    )

    assert list(comparison) == [
        OnlyOurs(id="a", row=("a", 1, "x")),
        Different(
            id="b",
            ours=("b", 2, "x"),
            theirs={"key": "b", "amount": 3, "iban": "x"},
            fields=(FieldDifference(name="amount", ours=2, theirs=3),),
        ),
        OnlyTheirs(id="c", row={"key": "c", "amount": 3, "iban": "x"}),
    ]


def test_a_secret_value_is_in_no_text() -> None:
    """Of a secret field a difference says that it differs; printed, none shows a row."""
    differences = list(
        compare(
            [("a", 1, "secret-1"), ("b", 1, "secret-2")],
            theirs_of(("a", 1, "secret-3"), ("c", 1, "secret-4")),
        )
    )

    first = differences[0]
    assert isinstance(first, Different)
    assert first.fields == (FieldDifference(name="iban", ours="(hidden)", theirs="(hidden)"),)
    assert "secret" not in repr(differences)


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        ("acb", "abc", r"row 3 of ours has the id 'b', which comes before 'c', .* sort both by id"),
        ("abc", "acb", r"row 3 of theirs has the id 'b', which comes before 'c'"),
        ("aab", "ab", r"row 2 of ours has the id 'a', and so has the row before it: give every"),
        ("ab", "abb", r"row 3 of theirs has the id 'b', and so has the row before it"),
        ("abc", "zy", r"row 2 of theirs has the id 'y', which comes before 'z'"),
        ("aB", "", r"row 2 of ours has the id 'B', which comes before 'a'"),
    ],
)
@pytest.mark.requirement("C19")
def test_rows_that_are_not_sorted_are_an_error(ours: str, theirs: str, message: str) -> None:
    """An id that does not rise ends the comparison with whose it is and where, also past the other.

    Red when the order is checked on one side only, or repeated ids pass: the output would be wrong.
    """
    comparison = compare([(each, 1, "") for each in ours], theirs_of(*((x, 1, "") for x in theirs)))

    with pytest.raises(LedgerNotSorted, match=message) as refused:
        list(comparison)

    assert isinstance(refused.value, OncekeyError)
    assert list(comparison) == []
    with pytest.raises(LedgerUnfinished):
        _ = comparison.totals
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)  # noqa: S301


@given(
    rows=st.lists(st.text(st.sampled_from("abc"), max_size=2), max_size=6),
    other=st.lists(st.text(st.sampled_from("abc"), max_size=2), max_size=4, unique=True).map(
        sorted
    ),
    swapped=st.booleans(),
)
def test_no_order_but_a_rising_one_comes_to_its_end(
    rows: list[str], other: list[str], *, swapped: bool
) -> None:
    """Totals come exactly where each id stands once and in order, on whichever side."""
    ours, theirs = (other, rows) if swapped else (rows, other)
    comparison = compare([(x, 1, "") for x in ours], theirs_of(*((x, 1, "") for x in theirs)))
    rises = all(first < second for first, second in itertools.pairwise(rows))

    if rises:
        list(comparison)
        assert comparison.totals.compared == len({*rows, *other})
    else:
        with pytest.raises(LedgerNotSorted) as refused:
            list(comparison)
        assert refused.value.side == ("theirs" if swapped else "ours")


@pytest.mark.parametrize(
    ("ours", "theirs", "side"),
    [([(1, 1, "")], [], "ours"), ([], [{"key": None, "amount": 1, "iban": ""}], "theirs")],
)
def test_an_id_that_is_no_str_is_an_error(ours: Any, theirs: Any, side: str) -> None:
    """Numbers would sort otherwise than their digits do, so no id is converted."""
    with pytest.raises(TypeError, match=f"the id of row 1 of {side} must be a str"):
        list(compare(ours, theirs))


def test_there_are_no_totals_before_the_end() -> None:
    """A comparison that was not read to its end does not say what came of it."""
    comparison = compare([("a", 1, "")], [])

    with pytest.raises(LedgerUnfinished, match="read all its differences"):
        _ = comparison.totals
    next(comparison)
    with pytest.raises(LedgerUnfinished):
        _ = comparison.totals
    assert list(comparison) == []
    assert comparison.totals == LedgerTotals(only_ours=1)
    assert list(comparison) == []
    assert comparison.totals.only_ours == 1


def test_an_error_of_a_source_is_passed_on() -> None:
    """A source that fails fails the comparison: there are no totals of what was read till then."""

    def broken() -> Iterable[OurRow]:
        yield ("a", 1, "")
        raise ConnectionError("the table went away")

    comparison = compare(broken(), theirs_of(("a", 1, "")))

    with pytest.raises(ConnectionError):
        list(comparison)
    with pytest.raises(LedgerUnfinished):
        _ = comparison.totals


def test_fields_may_be_any_iterable() -> None:
    """A generator of fields is read once, and none of them is passed over.

    Red when only the ids are compared, and two ledgers count as equal that are not.
    """
    fields: Any = (each for each in [AMOUNT, IBAN])
    differences = compare_ledgers(
        [("a", 1, "x")],
        theirs_of(("a", 2, "x")),
        our_id=lambda row: row[0],
        their_id=lambda row: row["key"],
        fields=fields,
    )

    assert [type(each) for each in differences] == [Different]


def test_two_fields_of_one_name_are_refused() -> None:
    """A difference names its field, so no two may share a name; nothing is read."""
    with pytest.raises(ValueError, match="not all different: amount, amount"):
        compare_ledgers([], [], our_id=str, their_id=str, fields=[AMOUNT, AMOUNT])


class Counted:
    """A row that counts how many of its side are alive."""

    alive: dict[str, int]
    most: dict[str, int]

    def __init__(self, side: str, number: int) -> None:
        self.side, self.id = side, f"{number:06d}"
        Counted.alive[side] = Counted.alive.get(side, 0) + 1
        Counted.most[side] = max(Counted.most.get(side, 0), Counted.alive[side])

    def __del__(self) -> None:
        Counted.alive[self.side] -= 1


@pytest.mark.requirement("C19")
def test_one_row_of_each_side_is_held() -> None:
    """However long the ledgers are, no more than one row of each is alive at any time.

    Red when a row is read before the one it follows is let go, or rows are collected.
    """
    Counted.alive, Counted.most = {}, {}
    comparison = compare_ledgers(
        (Counted("ours", number) for number in range(0, 3000, 2)),
        (Counted("theirs", number) for number in range(0, 3000, 3)),
        our_id=lambda row: row.id,
        their_id=lambda row: row.id,
        fields=[],
    )

    deque(comparison, maxlen=0)

    assert comparison.totals == LedgerTotals(equal=500, only_ours=1000, only_theirs=500)
    assert Counted.most == {"ours": 1, "theirs": 1}
    assert Counted.alive == {"ours": 0, "theirs": 0}


def test_ledgers_without_an_end_are_compared_as_they_come() -> None:
    """A difference is told as soon as both sides have come to it; nothing is read before."""
    comparison = compare_ledgers(
        (f"{number:09d}" for number in itertools.count(0, 2)),
        (f"{number:09d}" for number in itertools.count(0, 3)),
        our_id=str,
        their_id=str,
        fields=[],
    )

    found = [each.id for each in itertools.islice(comparison, 4)]

    assert found == ["000000002", "000000003", "000000004", "000000008"]
