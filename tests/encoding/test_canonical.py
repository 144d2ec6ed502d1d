"""Canonical JSON against RFC 8785, its reference values, and another implementation of it."""

from __future__ import annotations

import json
import math
import struct
from decimal import Decimal
from typing import Any

import pytest
import rfc8785
from hypothesis import assume, example, given
from hypothesis import strategies as st

from oncekey.encoding.canonical import MAX_DEPTH, NotCanonical, canonical_json, canonical_value
from tests.support.json_spelling import respelled
from tests.support.stable_names import stable_repr

LARGEST_INTEGER = 2**53 - 1

# RFC 8785, appendix B: a double by its bits, and how ECMAScript spells it.
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}

# Python and ECMAScript part ways between 1e-7 and 1e-4.
SMALL_NUMBERS = {
    "1e-4": "0.0001",
    "0.00001": "0.00001",
    "1E-5": "0.00001",
    "1.5e-5": "0.000015",
    "-1e-05": "-0.00001",
    "123e-7": "0.0000123",
    "1e-6": "0.000001",
    "0.000001": "0.000001",
    "1e-7": "1e-7",
    "0.0000001": "1e-7",
    "1.5e-7": "1.5e-7",
    "1e-10": "1e-10",
    "0.00000123456": "0.00000123456",
}

REFUSED = {
    "nothing": b"",
    "not JSON": b"{amount: 1}",
    "two documents": b"1 2",
    "a comma too many": b"[1,]",
    "a control character in a text": b'"\n"',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "invalid UTF-8": b'"\xff"',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "a duplicate name": b'{"a":1,"a":1}',
    "a duplicate name, escaped": b'{"a":1,"\\u0061":2}',
    "a duplicate name, nested": b'[{"b":{"\xc3\xa9":1,"\xc3\xa9":2}}]',
    "an integer beyond 2^53-1": b"9007199254740992",
    "a negative integer beyond 2^53-1": b"-9007199254740992",
    "an integer of 5,000 digits": b"1" * 5_000,
    "a fraction of 5,000 digits": b"0." + b"1" * 5_000,
    "a float between two doubles": b"9007199254740993.0",
    "0.1 to the last bit of its double": b"0.1000000000000000055511151231257827",
    "a float above all doubles": b"1e400",
    "a float below all doubles": b"1e-400",
    "a huge exponent": b"1e99999999999999999999",
    "a huge negative exponent": b"1e-99999999999999999999",
    "a huge exponent of zero": b"0e99999999999999999999",
    "NaN": b"NaN",
    "an infinity": b"[Infinity]",
    "NaN beside a small number": b"[NaN,1e-5]",
    "a negative infinity": b"-Infinity",
    "a lone surrogate": b'"\\ud800"',
    "two surrogates the wrong way round": b'"\\ude00\\ud83d"',
    "a lone surrogate in a name": b'{"\\udfff":1}',
    "one level too deep": b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
    "objects one level too deep": b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1),
    "10,000 levels": b"[" * 10_000 + b"]" * 10_000,
    "10,000 levels of objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "10,000 levels, never closed": b"[" * 10_000,
}

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
I_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(1e-8, 1e-3)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(("bits", "spelling"), NUMBERS.items())
def test_numbers_are_spelt_as_the_rfc_lists_them(bits: str, spelling: str) -> None:
    """Every number of RFC 8785, appendix B, has the spelling given there."""
    number = struct.unpack(">d", bytes.fromhex(bits))[0]

    assert canonical_json(repr(number).encode()) == spelling.encode()
    assert canonical_value([number]) == f"[{spelling}]".encode()


@pytest.mark.parametrize(("written", "spelling"), SMALL_NUMBERS.items())
def test_small_numbers_are_spelt_as_ecmascript_does(written: str, spelling: str) -> None:
    """A number near zero has ECMAScript's spelling, where Python has another."""
    assert canonical_json(f'{{"a":[{written}]}}'.encode()) == f'{{"a":[{spelling}]}}'.encode()


def test_the_rfcs_example_has_the_rfcs_form() -> None:
    """The example of RFC 8785, section 3.2.2, comes out as there.

    One number is left out: the RFC rounds 333333333.33333329 to the nearest double.
    """
    document = rb"""{
      "numbers": [1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"""

    assert canonical_json(document).decode() == (
        '{"literals":[null,true,false],"numbers":[1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_a_number_that_would_be_rounded_is_refused() -> None:
    """333333333.33333329 has no form here, though the RFC's example rounds it.

    A double does not hold it as it was written, so its form would be that of a different number.
    """
    with pytest.raises(NotCanonical, match="precision of a double"):
        canonical_json(b"[333333333.33333329]")


def test_names_are_sorted_as_in_the_rfcs_example() -> None:
    """The example of RFC 8785, section 3.2.3: names in the order of their UTF-16 code units.

    By code points the Hebrew letter (U+FB33) would stand before the emoji (U+1F600).
    """
    document = rb"""{
      "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
      "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control",
      "\u00f6": "Latin Small Letter O With Diaeresis"
    }"""

    names = list(json.loads(canonical_json(document)))

    assert names == ["\r", "1", "\x80", "ö", "€", "😀", "\ufb33"]
    assert names != sorted(names)


@pytest.mark.requirement("C7")
@given(I_JSON)
@example([1e-05, {"é": -0.0, "\x7f": "\u2028", "\U0001f600": 1e21, "\ufb33": 5e-324}])
@example({'"1e-05': ["-1e-05\\", 1e-05, "1e-07", '\\"1e-06'], "e-06": -2.5e-07})
def test_the_form_is_that_of_another_implementation(value: Any) -> None:
    """For every I-JSON value the form is the one that the library `rfc8785` makes of it.

    Red when names are sorted otherwise, a number or an escape is spelt in Python's way, or a text
    that looks like a number is spelt anew.
    """
    written = json.dumps(value).encode()

    assert canonical_json(written) == canonical_value(value) == rfc8785.dumps(value)


@pytest.mark.requirement("C7")
@pytest.mark.case(28)
@given(I_JSON, st.randoms(use_true_random=False))
def test_a_respelled_document_has_the_same_form(value: Any, chance: Any) -> None:
    """Another key order, white space, escapes and spelling of numbers make no difference.

    Red when `canonical_json` no longer sorts, or keeps a number or an escape as it was written.
    """
    assert canonical_json(respelled(value, chance).encode()) == rfc8785.dumps(value)


NUMBER_SPELLINGS = st.builds(
    "{}.{}e{}".format, st.integers(-(10**9), 10**9), st.integers(0, 10**6), st.integers(-20, 20)
)
NEIGHBOURS = st.floats(allow_nan=False, allow_infinity=False).flatmap(
    lambda number: st.tuples(
        st.just(repr(number)), st.sampled_from([repr(math.nextafter(number, 0)), f"{number:.25e}"])
    )
)


@given(st.tuples(NUMBER_SPELLINGS, NUMBER_SPELLINGS) | NEIGHBOURS)
@example(("0.1", "0.1000000000000000055511151231257827"))
@example(("9007199254740992.0", "9007199254740993.0"))
@example(("5e-324", "4.9e-324"))
def test_equal_forms_mean_equal_numbers(spellings: tuple[str, str]) -> None:
    """Two spellings with one form are exactly the same number: none has been rounded."""
    one, other = (form_or_none(spelling.encode()) for spelling in spellings)
    assume(one is not None and other is not None)

    assert (one == other) == (Decimal(spellings[0]) == Decimal(spellings[1]))


@given(I_JSON, I_JSON)
def test_equal_forms_mean_equal_values(one: Any, other: Any) -> None:
    """Two documents with one form parse to equal values, and a form parses to what it is of."""
    one_form, other_form = canonical_value(one), canonical_value(other)

    assert exactly(one_form) == exactly(json.dumps(one).encode())
    assert (one_form == other_form) == (exactly(one_form) == exactly(other_form))


def exactly(document: bytes) -> Any:
    """A document's value; numbers exact, and apart from true and false."""
    return json.loads(
        document,
        parse_int=lambda text: ("number", Decimal(text)),
        parse_float=lambda text: ("number", Decimal(text)),
    )


def form_or_none(document: bytes) -> bytes | None:
    """The canonical form, or None where there is none."""
    try:
        return canonical_json(document)
    except NotCanonical:
        return None


@given(I_JSON)
def test_a_canonical_form_is_its_own_form(value: Any) -> None:
    """Canonicalising twice changes nothing, or is refused for an integer that 1e20 is spelt as."""
    form = canonical_value(value)

    assert form_or_none(form) in {form, None}


@pytest.mark.parametrize("document", REFUSED.values(), ids=REFUSED)
def test_a_document_that_is_not_i_json_has_no_form(document: bytes) -> None:
    """What two parsers could read differently, or not at all, is refused, and quickly."""
    with pytest.raises(NotCanonical):
        canonical_json(document)


@pytest.mark.parametrize(
    "document",
    [
        b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
        b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH,
        b"[" + b"[]," * MAX_DEPTH + b'"[[["]',
        b"[[]," + b"[" * (MAX_DEPTH - 1) + b"]" * MAX_DEPTH,
        b"-9007199254740991",
        b"9007199254740991",
        b'"\\u0000"',
    ],
    ids=["arrays", "objects", "wide", "wide and deep", "least integer", "largest integer", "NUL"],
)
def test_a_document_at_the_limit_is_its_own_form(document: bytes) -> None:
    """Nesting of MAX_DEPTH, any width, and integers of 53 bits are within I-JSON."""
    assert canonical_json(document) == document


def test_equal_numbers_have_one_form() -> None:
    """1, 1.0, 1e0 and 10e-1 are one number, and so are all zeros."""
    assert {canonical_json(n) for n in (b"1", b"1.0", b"1e0", b"1E+0", b"10e-1")} == {b"1"}
    assert {canonical_json(n) for n in (b"0", b"-0", b"0.0", b"-0.0", b"0e7")} == {b"0"}


def test_a_number_is_neither_a_flag_nor_a_text() -> None:
    """1, true, "1" and [1] are four values."""
    assert len({canonical_json(n) for n in (b"1", b"true", b'"1"', b"[1]")}) == 4


@pytest.mark.parametrize(
    "value",
    [{1, 2}, b"bytes", Decimal(1), math.nan, math.inf, 2**53, "\ud800", {(1,): 1}, object()],
    ids=stable_repr,
)
def test_a_value_without_a_json_form_has_no_canonical_form(value: Any) -> None:
    """What JSON cannot say exactly is refused as a value too."""
    with pytest.raises(NotCanonical):
        canonical_value(value)


def test_a_value_nested_beyond_the_stack_has_no_canonical_form() -> None:
    """A value of 100,000 levels, or one that holds itself, is refused like a deep document."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    circle: list[Any] = []
    circle.append(circle)

    for value in (deep, circle):
        with pytest.raises(NotCanonical):
            canonical_value(value)


def test_the_limits_are_what_they_are_said_to_be() -> None:
    """128 levels have a form and 129 have none; a number has 64 characters at the most, even where
    those beyond say nothing.

    Red when a limit is moved: what was refused before would get a fingerprint, or the reverse.
    """
    assert canonical_json(b"[" * 128 + b"]" * 128) == b"[" * 128 + b"]" * 128
    assert canonical_json(b"1." + b"0" * 62) == b"1"
    for document in (b"[" * 129 + b"]" * 129, b"1." + b"0" * 63, b"-1." + b"0" * 62):
        with pytest.raises(NotCanonical):
            canonical_json(document)
