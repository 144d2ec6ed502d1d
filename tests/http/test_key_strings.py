"""Quoted keys are the strings of structured fields (RFC 9651, section 3.3.3): a table of cases.

The cases are those of the public suite httpwg/structured-field-tests (`string.json` and
`string-generated.json`), written anew. A key is at least one character that is not a space, and at
most 255; the suite's strings have no such bounds.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from oncekey.errors import RequestRefused
from oncekey.http.key import idempotency_key


class Case(NamedTuple):
    """One case of the suite: the header's lines, and the string that they are, if they are one."""

    name: str
    lines: tuple[str, ...]
    string: str | None


_BACKSLASH = "\\"
_CONTROLS = (*range(0x20), 0x7F)
_PRINTABLE = range(0x20, 0x7F)
_ESCAPED = {'"', _BACKSLASH}
_LONG = "foo " * 65


def _inside(code: int) -> Case:
    character = chr(code)
    is_valid = code in _PRINTABLE and character not in _ESCAPED
    name = f"0x{code:02x} in string"
    return Case(name, (f'" {character} "',), f" {character} " if is_valid else None)


def _escaped(code: int) -> Case:
    character = chr(code)
    string = character if character in _ESCAPED else None
    return Case(f"Escaped 0x{code:02x} in string", (f'"{_BACKSLASH}{character}"',), string)


WRITTEN = [
    Case("basic string", ('"foo bar"',), "foo bar"),
    Case("empty string", ('""',), ""),
    Case("long string", (f'"{_LONG}"',), _LONG),
    Case("whitespace string", ('"   "',), "   "),
    Case("non-ascii string", ('"füü"',), None),
    Case("tab in string", ('"\t"',), None),
    Case("newline in string", ('" \n "',), None),
    Case("single quoted string", ("'foo'",), None),
    Case("unbalanced string", ('"foo',), None),
    Case("string quoting", (r'"foo \"bar\" \\ baz"',), r'foo "bar" \ baz'),
    Case("bad string quoting", (r'"foo \,"',), None),
    Case("ending string quote", (r'"foo \"',), None),
    Case("abruptly ending string quote", ('"foo \\',), None),
    # The suite lets a parser refuse this one, as ours does: which of two lines was meant?
    Case("two lines string", ('"foo', 'bar"'), None),
]
GENERATED = [case(code) for case in (_inside, _escaped) for code in range(0x80)]
SUITE = [*WRITTEN, *GENERATED]
STRINGS = [case for case in SUITE if case.string is not None]
# Blank ones name nothing, and a longer one is no key in either form.
KEYS = [case for case in STRINGS if case.string and case.string.strip() and len(case.string) < 256]
# In the bare form, which the suite has not, a quotation mark of this kind is a character.
BARE = {"single quoted string"}


def test_the_table_has_every_case_of_the_suite() -> None:
    """The suite has 14 cases by hand, one of which may fail, and 256 that are generated."""
    assert (len(WRITTEN), len(GENERATED)) == (14, 256)
    # With "two lines string" the suite counts 101.
    assert len(STRINGS) == 100
    assert len(KEYS) == 96


@pytest.mark.fault("K15.1")
@pytest.mark.parametrize("case", KEYS, ids=lambda case: case.name)
def test_every_string_that_is_not_blank_is_a_key(case: Case) -> None:
    """A quoted key takes every string of RFC 9651 of 1 to 255 characters that is not blank.

    Red when a printable character, the space among them, or one of the two escapes is refused.
    """
    assert idempotency_key(list(case.lines), min_length=1) == case.string


@pytest.mark.fault("K15.2")
@pytest.mark.parametrize(
    "case",
    [case for case in SUITE if case not in KEYS and case.name not in BARE],
    ids=lambda c: c.name,
)
def test_what_is_no_string_stays_refused(case: Case) -> None:
    """What the suite says must fail is refused, and so are blank strings and longer ones.

    Red when a control character, a letter beyond ASCII, or an escape of anything but a quote or a
    backslash is taken.
    """
    with pytest.raises(RequestRefused) as caught:
        idempotency_key(list(case.lines), min_length=1)
    assert caught.value.code == "key-invalid"


@pytest.mark.fault("K15.2")
def test_the_bare_form_has_characters_of_its_own() -> None:
    """What is no structured field may still be a bare key: that form is a text without quotes.

    Red when the bare form is held to the syntax of a structured field.
    """
    assert idempotency_key(["'foo'"], min_length=1) == "'foo'"


@pytest.mark.fault("K15.1")
@pytest.mark.parametrize("length", [1, 16, 255])
def test_a_quoted_key_has_1_to_255_characters(length: int) -> None:
    """Spaces count like any other character, at either end too.

    Red when a quoted key is stripped, or its spaces are not counted.
    """
    for key in ("k".ljust(length, " "), "k".rjust(length, " ")):
        assert idempotency_key([f'"{key}"'], min_length=1) == key
    with pytest.raises(RequestRefused, match="has 256 characters"):
        idempotency_key([f'"{"k".ljust(256)}"'], min_length=1)
