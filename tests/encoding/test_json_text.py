"""JSON text, beside what the standard library's own functions make and read."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncekey.encoding import json_text
from tests.support.stable_names import stable_repr

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
READ = json_text.reader(json.JSONDecoder())
SPACES = st.text(" \t\n\r", max_size=2)
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize("sort_keys", [False, True])
@given(VALUES)
def test_a_value_is_written_as_the_standard_library_writes_it(sort_keys: bool, value: Any) -> None:
    """The text is that of `json.dumps`, or both refuse the value.

    Red when names are not sorted, spaces are left, text is escaped or an infinity is written.
    """
    write = json_text.writer(sort_keys=sort_keys)

    def expected() -> str:
        return json.dumps(
            value,
            ensure_ascii=False,
            allow_nan=False,
            sort_keys=sort_keys,
            separators=(",", ":"),
        )

    try:
        text = expected()
    except ValueError:
        with pytest.raises(ValueError, match="not JSON compliant"):
            write(value)
    else:
        assert write(value) == text


@given(VALUES, SPACES, SPACES)
def test_a_document_is_read_as_the_standard_library_reads_it(
    value: Any, before: str, after: str
) -> None:
    """White space about it is nothing, and each value comes back."""
    text = before + json.dumps(value) + after

    assert repr(READ(text)) == repr(json.loads(text))


@pytest.mark.parametrize(
    "text", ["", " ", "{", "{} {}", "1 2", "\ufeff{}", "\u00a01", "{}\x00", "nul", "[1,]", "'a'"]
)
def test_what_is_no_document_is_refused(text: str) -> None:
    """What `json.loads` refuses is refused.

    Red when what follows the document is not looked at.
    """
    with pytest.raises(ValueError, match=r"."):
        READ(text)


@pytest.mark.parametrize("value", [math.nan, [math.inf], {1, 2}, b"x", object()], ids=stable_repr)
def test_what_has_no_json_form_is_refused(value: Any) -> None:
    """A value without a JSON form raises, as in `json.dumps`."""
    with pytest.raises((TypeError, ValueError)):
        json_text.writer()(value)


def test_a_deep_value_and_a_deep_document_are_refused() -> None:
    """What is nested beyond the stack raises and does not end the process."""
    circle: list[Any] = []
    circle.append(circle)
    for value in (DEEP, circle):
        with pytest.raises(RecursionError):
            json_text.writer()(value)
    with pytest.raises(RecursionError):
        READ("[" * 100_000)


def test_numbers_are_read_by_hooks() -> None:
    """A hook is given the number as it was written."""
    decoder = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)
    read = json_text.reader(decoder)

    assert read("[1.50, -1, NaN]") == ["1.50", "-1", "NaN"]


def test_without_the_encoder_in_c_the_text_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another Python may have no encoder in C, and writes the same.

    Red when the writer depends on what is no part of Python's documented interface.
    """
    monkeypatch.setattr("json.encoder.c_make_encoder", None)

    assert (
        json_text.writer(sort_keys=True)({"é": [1.5, None], "a": "x"}) == '{"a":"x","é":[1.5,null]}'
    )
