"""Canonical JSON as RFC 8785 describes it, for documents that are I-JSON (RFC 7493).

Any other document is refused.

Two documents have the same canonical form only if they have the same meaning. So a number that a
double cannot hold exactly is refused and not rounded: a rounded number could equal another amount.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from oncekey.encoding import json_text

# The largest integer that every JSON implementation reads exactly (RFC 7493, section 2.2).
_LARGEST_INTEGER = 2**53 - 1
# Deeper documents are refused. Without this limit, the depth of Python's stack would decide, which
# differs between versions.
MAX_DEPTH = 128
# No double needs more characters. Longer numbers are refused, because they only cost time.
_LONGEST_NUMBER = 64
# A double holds any number of up to fifteen digits exactly enough to print it again, unless the
# number is so small or so large that doubles are less dense there.
_EXACT_DIGITS = 15
_LEAST_EXACT, _LARGEST_EXACT = 1e-290, 1e290
# A string, or a number that Python writes differently from ECMAScript, in Python's JSON.
_TEXT_OR_SMALL_NUMBER = r'"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9.]+e-0[0-9]'
# ECMAScript writes these zeros in place of e-05 and e-06. From e-07 on, only the exponent differs.
_ZEROS = {"5": "0.0000", "6": "0.00000"}
_CONTAINERS = (dict, list)

_DIGITS_AS_ZEROS = bytes(ord("0") if chr(byte).isdecimal() else ord(" ") for byte in range(256))
_SIXTEEN_ZEROS = b"0" * 16
# For the depth of a document: an array counts as an object, and all but brackets and quotes goes.
_ARRAYS_AS_OBJECTS = bytes.maketrans(b"[]", b"{}")
_NO_BRACKETS_OR_QUOTES = bytes(byte for byte in range(256) if byte not in b'[]{}"')


class NotCanonical(ValueError):  # noqa: N818 -- a property of a document, not an error of the program
    """The document has no canonical form: it is not JSON, or not I-JSON."""


def canonical_json(document: bytes, *, only: frozenset[str] | None = None) -> bytes:
    """The canonical form of a JSON document in UTF-8.

    With `only`, the result contains only these members of an object. The whole document must still
    have a canonical form.

    Raises:
        NotCanonical: not JSON; duplicate names; integers beyond 2^53-1; numbers that a double does
            not hold exactly as written; NaN and infinities; lone surrogates; nesting beyond
            `MAX_DEPTH`.
    """
    form = plain_form(document, only)
    return general_form(document, only) if form is None else form


def plain_form(document: bytes, only: frozenset[str] | None = None) -> bytes | None:
    """The canonical form, where the parser and the writer in C give it; None where they may not.

    The C parser and writer do not know I-JSON. Four checks make up for that:

    - A duplicate name is lost, and with it its colon. Nothing else changes the number of colons,
      unless one was written as an escape.
    - The writer sorts by code points. UTF-16 code units have the same order, unless a character
      beyond U+FFFF takes two of them.
    - Integers in a document with a run of 16 digits are bounded as they are read.
    - The writer has no limit of depth, so brackets are counted.
    """
    try:
        text = document.decode("utf-8")
        may_be_beyond = _SIXTEEN_ZEROS in document.translate(_DIGITS_AS_ZEROS)
        value = (_read_bounded if may_be_beyond else _read)(text)
        form = _written_sorted(value)
        has_lost_names = form.count(":") != text.count(":")
        is_beyond_bmp = not form.isascii() and len(form.encode("utf-16-le")) != 2 * len(form)
    except (ValueError, RecursionError):
        return None
    if has_lost_names or is_beyond_bmp:
        return None
    is_shallow = document.count(b"[") + document.count(b"{") <= MAX_DEPTH
    if not is_shallow and not _is_known_shallow(document):
        return None
    if "\\" in text and ("\\u003a" in text or "\\u003A" in text):
        return None
    if only is not None and isinstance(value, dict):
        form = _written_sorted({name: item for name, item in value.items() if name in only})
    return (_with_small_numbers(form) if "e-0" in form else form).encode("utf-8")


def _is_known_shallow(document: bytes) -> bool:
    """Whether the nesting of a JSON document is surely within `MAX_DEPTH`."""
    if b"\\" in document:
        return False
    # Strings without a bracket are pairs of quotes now. Where one has a bracket, a quote is left.
    nesting = document.translate(_ARRAYS_AS_OBJECTS, _NO_BRACKETS_OR_QUOTES).replace(b'""', b"")
    depth = 0
    while nesting and depth < MAX_DEPTH:
        nesting, depth = nesting.replace(b"{}", b""), depth + 1
    return not nesting


def general_form(document: bytes, only: frozenset[str] | None = None) -> bytes:
    """The canonical form of any document that has one; see `canonical_json`."""
    try:
        value = json.loads(
            document.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_constant,
        )
        if document.count(b"[") + document.count(b"{") > MAX_DEPTH:
            _check_depth(value)
        if only is not None and isinstance(value, dict):
            value = {name: item for name, item in value.items() if name in only}
        form = _written(value)
        return (_with_small_numbers(form) if "e-0" in form else form).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise NotCanonical(str(error)) from None


def canonical_value(value: Any) -> bytes:
    """The canonical form of a JSON value, for example one that a callable selected.

    Raises:
        NotCanonical: as for `canonical_json`, or the value has no JSON form.
    """
    try:
        return canonical_json(json.dumps(value, allow_nan=False).encode("utf-8"))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotCanonical(str(error)) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # RFC 8785 sorts by UTF-16 code units, which differs from Python's order only beyond ASCII.
    ordered = dict(
        sorted(pairs, key=_utf16_name)
        if not all(name.isascii() for name, _ in pairs)
        else sorted(pairs, key=_name)
    )
    if len(ordered) != len(pairs):
        raise ValueError("an object has a duplicate name")
    return ordered


def _name(pair: tuple[str, Any]) -> str:
    return pair[0]


def _utf16_name(pair: tuple[str, Any]) -> bytes:
    return pair[0].encode("utf-16-be", "surrogatepass")


def _integer(text: str) -> int:
    if len(text) > len(str(-_LARGEST_INTEGER)) or abs(int(text)) > _LARGEST_INTEGER:
        raise ValueError("an integer is beyond 2^53-1")
    return int(text)


def _number(text: str) -> int | float:
    number = float(text)
    if len(text) > _LONGEST_NUMBER or not _is_exact(text, number):
        raise ValueError("a number is beyond the precision of a double")
    if number.is_integer() and abs(number) < 1e21:
        return int(number) if abs(number) <= _LARGEST_INTEGER else _shortest_integer(number)
    return number


def _shortest_integer(number: float) -> int:
    """The integer that ECMAScript prints for a large `number`: its shortest digits, and zeros."""
    from decimal import Decimal

    return int(Decimal(repr(number)))


def _is_exact(text: str, number: float) -> bool:
    if len(text) <= _EXACT_DIGITS and _LEAST_EXACT < abs(number) < _LARGEST_EXACT:
        return True
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(text) == Decimal(repr(number))
    except InvalidOperation:
        return False


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, _CONTAINERS)]:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"the document is nested deeper than {MAX_DEPTH}")
        level = [
            child for item in level for child in (item.values() if isinstance(item, dict) else item)
        ]


def _with_small_numbers(text: str) -> str:
    # Python and ECMAScript write a double alike unless it is smaller than 1e-4. A string may look
    # like such a number, so strings are skipped.
    return re.sub(_TEXT_OR_SMALL_NUMBER, _respelled, text)


def _respelled(found: re.Match[str]) -> str:
    text = found[0]
    if text[0] == '"':
        return text
    zeros = _ZEROS.get(text[-1])
    if zeros is None:
        return f"{text[:-2]}{text[-1]}"
    digits = text[:-4].replace(".", "")
    return f"-{zeros}{digits[1:]}" if digits[0] == "-" else zeros + digits


_written = json_text.writer()
_written_sorted = json_text.writer(sort_keys=True)
_read = json_text.reader(json.JSONDecoder(parse_float=_number, parse_constant=_constant))
_read_bounded = json_text.reader(
    json.JSONDecoder(parse_int=_integer, parse_float=_number, parse_constant=_constant)
)
