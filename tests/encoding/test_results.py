"""Results as text and back: a replay equals the first answer, types included."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncekey.encoding.results import MAX_DEPTH, decode, encode
from tests.support.result_kinds import (
    CALLS,
    Bits,
    Colour,
    Defaults,
    Derived,
    Found,
    Item,
    Level,
    Line,
    NamedPair,
    Numbers,
    Old,
    Open,
    Order,
    Outer,
    Pair,
    Point,
    Right,
    SpecialItem,
    State,
    same,
)

BERLIN = ZoneInfo("Europe/Berlin")

KINDS: dict[str, Any] = {
    "None": None,
    "True": True,
    "False": False,
    "0": 0,
    "an empty text": "",
    "an empty list": [],
    "an empty dict": {},
    "an empty tuple": (),
    "an empty set": set(),
    "no bytes": b"",
    "an integer of 5,000 digits": 10**5_000,
    "a negative integer of 5,000 digits": -(10**5_000) + 1,
    "an integer of 300 digits": 10**300 - 1,
    "minus zero": -0.0,
    "NaN": math.nan,
    "a negative NaN": -math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "the smallest double": 5e-324,
    "an integral double": 1e300,
    "a lone surrogate": "a\ud800b",
    "a pair of surrogates": "\ud83d\ude00",
    "a surrogate beside a character beyond U+FFFF": "\ud83d\U0001f600",
    "a pair of surrogates as a key": {"\ud83d\ude00": 1, "\U0001f600": 2},
    "control characters": "\x00\x1f\u2028\x7f",
    "keys of many types": {1: 1, "1": 2, (1,): 3, None: 4, b"1": 5, frozenset({1}): 6, 1.5: 7},
    "keys in their order": {"b": 1, "a": 2, "c": 3},
    "a key that is no text, in its order": {"b": 1, 0: 2, "a": 3},
    "an enum's member as a key": {State.PAID: 1},
    "a tuple in a list in a tuple": ([(1, 2)],),
    "a set of several types": {1, "1", (1,), b"1", None, Decimal("1.5")},
    "a set of sets": {frozenset({1, 2}), frozenset()},
    "bytes": bytes(range(256)),
    "a bytearray": bytearray(b"\x00\xff"),
    "a Decimal's trailing zeros": Decimal("1.500"),
    "a Decimal's exponent": Decimal("1E+400"),
    "a Decimal beyond the context's precision": Decimal("1." + "3" * 60),
    "a negative zero Decimal": Decimal("-0.00"),
    "a quiet NaN Decimal": Decimal("-NaN123"),
    "a signalling NaN Decimal": Decimal("sNaN7"),
    "an infinite Decimal": Decimal("-Infinity"),
    "a naive datetime": datetime(2026, 3, 1, 12, 30, 0, 1),  # noqa: DTZ001
    "a naive datetime in the fold": datetime(2026, 10, 25, 2, 30, fold=1),  # noqa: DTZ001
    "a UTC datetime": datetime(1, 1, 1, tzinfo=UTC),
    "an offset of seconds": datetime(2026, 1, 1, tzinfo=timezone(timedelta(seconds=-3_601))),
    "a named offset": datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
    "an offset with an empty name": datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1), "")),
    "a zone": datetime(2026, 7, 1, 12, tzinfo=BERLIN),
    "a zone in the fold": datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    "a zone before the fold": datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
    "a zone in the gap": datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN),
    "a date": date(999, 12, 31),
    "a time": time(23, 59, 59, 999_999, fold=1),
    "an aware time": time(1, tzinfo=timezone(timedelta(hours=-3))),
    "a time in a zone": time(1, tzinfo=BERLIN),
    "a timedelta": timedelta(days=-1, microseconds=1),
    "the longest timedelta": timedelta.max,
    "a UUID": UUID(int=1),
    "an enum's member": Colour.RED,
    "an enum's alias": Colour.CRIMSON,
    "an enum's tuple": Colour.PAIR,
    "an IntEnum's member": Level.HIGH,
    "a StrEnum's member": State.PAID,
    "a flag": Right.READ,
    "flags combined": Right.READ | Right.WRITE,
    "no flag": Right(0),
    "int flags with unknown bits": Bits.ONE | 64,
    "a nested enum": Outer.Inner.ONE,
    "a dataclass": Item("a", [1, (2, Decimal("1.0"))]),
    "an inherited dataclass": SpecialItem("a", 1),
    "a frozen dataclass with slots": Point(Point(1, 2), {Point(0)}),
    "a dataclass with fields outside __init__": Derived(4),
    "a nested dataclass": Outer.Nested(1),
    "a dataclass as a key": {Point(1): Item("b")},
    "a named tuple": Pair(1, [Pair(2)]),
    "a subclass of a named tuple": NamedPair(1, 2),
    "a collections.namedtuple": Old(1, (2,)),
    "a model": Order(
        id=1, lines=[Line(sku="a", price=Decimal("1.10"))], remark="x", any_value=(1,)
    ),
    "a model's times": Order.model_validate(
        {"id": 1, "at": "2026-01-01T00:00:00Z", "hour": "10:00:00+02:30"}
    ),
    "a model made without validation": Order.model_construct(id="no number"),
    "a model with fields of its own": Open.model_validate({"id": 1, "$": [(1,)], "more": "x"}),
    "a model of which nothing was given": Defaults(),
    "a root model": Numbers([1, 2]),
    "a model in a dataclass": Item("a", Open(id=1)),
    "a dictionary that looks like a tag": {"$": "tuple", "v": [1]},
    "a dictionary that looks like a class": {"$": "enum", "c": "enum:Enum", "v": "x"},
    "a dictionary that looks like a tagged dictionary": {"$": "dict", "v": [[1, 2]]},
    "a dictionary with only the tag's key": {"a": [{"$": None}]},
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.case(22)
@pytest.mark.case(23)
def test_a_value_of_every_kind_comes_back_equal(name: str) -> None:
    """Each kind comes back equal, of the same types, and has the same text again.

    Red when a kind is turned into a similar one, such as a tuple into a list.
    """
    value = KINDS[name]
    text = encode(value)
    again = decode(text)

    assert same(value, again)
    assert encode(again) == text
    assert text.encode("utf-8").decode("utf-8") == text


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.text(st.characters(categories=["Cs"])),
    st.binary(max_size=8),
    st.decimals(),
    st.datetimes(timezones=st.none() | st.sampled_from([UTC, BERLIN, ZoneInfo("Asia/Kathmandu")])),
    st.datetimes(timezones=st.sampled_from([timezone(timedelta(minutes=m)) for m in (-5, 90)])),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.uuids(),
    st.sampled_from([*Colour, *Level, *State, *Right, Right.READ | Right.WRITE, Bits(5)]),
)
KEYS = st.recursive(
    SCALARS.filter(lambda key: not (isinstance(key, Decimal) and key.is_snan())),
    lambda inner: st.one_of(
        st.tuples(inner, inner), st.frozensets(inner, max_size=3), st.builds(Point, inner)
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner),
        st.dictionaries(KEYS, inner, max_size=4),
        st.dictionaries(st.sampled_from(["$", "v", "c", "a"]), inner),
        st.sets(KEYS, max_size=3),
        st.builds(Item, st.text(), inner),
        st.builds(Pair, inner, inner),
        st.builds(lambda value: Order(id=1, any_value=value), inner),
        st.builds(lambda value: Open.model_validate({"id": 1, "$": value}), inner),
    ),
    max_leaves=12,
)


@given(VALUES)
@pytest.mark.case(22)
def test_any_value_comes_back_equal(value: Any) -> None:
    """Whatever is made of these kinds comes back equal, of the same types.

    Red when any kind loses something on the way, in any combination.
    """
    assert same(value, decode(encode(value)))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text("a$\u00e9\U0001f600\n"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab\u00e9"), inner),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_plain_json_is_stored_as_it_is(value: Any) -> None:
    """A result of plain JSON values is stored as compact JSON that anybody can read."""
    assert encode(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_equal_sets_have_one_text() -> None:
    """The order in which a set gives its elements does not show in the text."""
    assert encode({8, 0, 16}) == encode({16, 8, 0}) == '{"$":"set","v":[0,16,8]}'


def test_reading_a_result_runs_no_code_of_its_classes() -> None:
    """Neither `__post_init__` nor a validator runs when a result is written or read."""
    value = [Item("a"), Order(id=1)]
    CALLS.clear()

    assert same(value, decode(encode(value)))
    assert CALLS == []


def test_a_model_keeps_what_was_given_and_what_it_hides() -> None:
    """A model knows which fields were given, and keeps those that its dumps exclude."""
    again = decode(encode(Order(id=1, remark="x")))

    assert (again.id, again.note, again.model_fields_set) == (2, "x", {"id", "note"})
    assert again.model_dump(exclude_unset=True) == {"id": 2}


def test_a_frozen_model_is_frozen_again() -> None:
    """A frozen object that was read is as frozen, and hashes as before."""
    point = decode(encode(Point(1)))

    assert hash(point) == hash(Point(1))
    with pytest.raises(AttributeError):
        point.x = 2


def test_a_cached_property_is_computed_again() -> None:
    """What an object keeps to save time is no part of the result."""
    derived, order = Derived(4), Order(id=1)
    assert (derived.tripled, order.shown) == (12, "2")

    assert "tripled" not in encode(derived)
    assert "shown" not in encode(order)
    assert decode(encode(derived)).tripled == 12


def test_a_generic_dataclass_is_stored_however_it_was_made() -> None:
    """`Found[int](...)` is the same value as `Found(...)`: type arguments are no field."""
    assert encode(Found[int]([1])) == encode(Found([1]))
    assert decode(encode(Found[int]([1]))) == Found[int]([1])


def test_every_zone_is_found_again() -> None:
    """Each zone of the machine is read back as the same zone."""
    for key in sorted(available_timezones())[::20]:
        at = datetime(2026, 7, 1, tzinfo=ZoneInfo(key))
        assert decode(encode(at)).tzinfo is at.tzinfo


def nested(levels: int, wrap: Any) -> Any:
    """A value of `levels` levels, each made by `wrap`."""
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {1: v}, Point, Pair, lambda v: (v,)])
def test_a_value_may_be_nested_up_to_the_limit(wrap: Any) -> None:
    """The deepest value that is allowed can be written and read, of whatever it is made."""
    value = nested(MAX_DEPTH, wrap)

    assert same(value, decode(encode(value)))


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 100_000])
@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {1: v}, Point, Pair])
def test_a_value_beyond_the_limit_is_refused(wrap: Any, levels: int) -> None:
    """One level more is refused with the limit, and any number more in the same way."""
    value = nested(levels, wrap)
    try:
        with pytest.raises(TypeError, match=f"nested deeper than {MAX_DEPTH} levels"):
            encode(value)
    finally:
        # Python itself takes a deep value apart level by level, or its stack would end.
        while not isinstance(value, int):
            value = (
                next(iter(value.values()))
                if isinstance(value, dict)
                else (value.x if isinstance(value, Point) else value[0])
            )


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 100_000])
def test_a_text_beyond_the_limit_is_refused(levels: int) -> None:
    """A text that is nested deeper than any that is written is refused with the limit."""
    with pytest.raises(ValueError, match=f"nested deeper than {MAX_DEPTH} levels"):
        decode("[" * levels + "]" * levels)
