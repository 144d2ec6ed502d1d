"""What a queue and the reader behind it take: characters, depth, and names of groups."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncekey.encoding.canonical import MAX_DEPTH
from oncekey.outbox.envelope import sealed, unsealed
from oncekey.record.message_text import (
    is_too_deep,
    is_value_too_deep,
    queue_name,
    queue_text,
)
from tests.support.memory_outbox import waiting
from tests.support.strict_sqs import NAME, TEXT

# One of each class of characters, and the edges of what SQS takes.
CHARACTERS = {
    "NUL": "\0",
    "another control": "\x1b",
    "tab": "\t",
    "line feed": "\n",
    "carriage return": "\r",
    "DEL": "\x7f",
    "a C1 control": "\x85",
    "the last before the surrogates": "\ud7ff",
    "the first after them": "\ue000",
    "BOM": "\ufeff",
    "the last that SQS takes": "\ufffd",
    "U+FFFE": "\ufffe",
    "U+FFFF": "\uffff",
    "after a backslash": "\\\uffff",
    "U+10000": "\U00010000",
    "U+1FFFE": "\U0001fffe",
    "U+10FFFF": "\U0010ffff",
    "line separator": "\u2028",
}


@pytest.mark.fault("K5.1")
@pytest.mark.parametrize("text", CHARACTERS.values(), ids=CHARACTERS)
def test_every_character_goes_through_the_queue(text: str) -> None:
    """Whatever text a payload, a topic or a tenant holds, SQS takes the message, and its worker
    reads the same text.

    Red when U+FFFE and U+FFFF are sent as they are.
    """
    payload = queue_text(json.dumps({text: [text]}, ensure_ascii=False))
    message = waiting(1, tenant=text, topic=text, payload=payload)

    body = sealed(message)

    assert TEXT.fullmatch(body)
    read = unsealed(body)
    assert json.loads(read.payload) == {text: [text]}
    assert (read.topic, read.tenant) == (text, text)


@pytest.mark.fault("K5.1")
@given(st.recursive(st.text() | st.none(), lambda inner: st.dictionaries(st.text(), inner)))
def test_escaping_changes_no_value(value: object) -> None:
    """What is escaped for the queue means the same, and is no longer than it has to be.

    Red when an escape is put where JSON takes none.
    """
    text = json.dumps(value, ensure_ascii=False)

    assert json.loads(queue_text(text)) == value
    if "\ufffe" not in text and "\uffff" not in text:
        assert queue_text(text) == text


def test_an_item_of_an_earlier_release_is_escaped_when_it_is_sent() -> None:
    """What stands in the table unescaped is escaped on its way."""
    assert TEXT.fullmatch(sealed(waiting(1, payload='"\uffff"')))
    with pytest.raises(UnicodeEncodeError):
        sealed(waiting(1, payload='"\ud800"'))


@pytest.mark.fault("K5.2")
@pytest.mark.parametrize(
    ("text", "is_deep"),
    [
        ("[" * 128 + "]" * 128, False),
        ("[" * 129 + "]" * 129, True),
        ('{"a":' * 128 + "1" + "}" * 128, False),
        ('{"a":' * 129 + "1" + "}" * 129, True),
        ("[" * 100_000 + "]" * 100_000, True),
        (json.dumps("[" * 1000), False),
        (json.dumps(['"[' * 1000, "\\"]), False),
        (json.dumps([[]] * 1000), False),
        ('{"a\\"[":[' * 100 + "]}" * 100, True),
    ],
)
def test_depth_is_that_of_arrays_and_objects(text: str, is_deep: bool) -> None:
    """Only brackets that are not text count, and those that are closed no more.

    Red when the bound is the reader's own, or brackets in strings count.
    """
    assert is_too_deep(text) is is_deep


@pytest.mark.fault("K5.1")
@pytest.mark.parametrize(
    "name", ["acme corp", "müller", "x" * 129, "x" * 10_000, "", "a\nb", "\uffff", "日本"]
)
def test_a_group_that_sqs_does_not_take_is_replaced_by_its_hash(name: str) -> None:
    """A tenant's name makes a group whatever it is: the same one always, and no other's.

    Red when such a name is sent as it is, cut, or refused.
    """
    group = queue_name(name)

    assert NAME.fullmatch(group)
    assert group == queue_name(name) != queue_name(name + "x")


@pytest.mark.parametrize("name", ["acme", "x" * 128, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"])
def test_a_group_that_sqs_takes_is_left_as_it_is(name: str) -> None:
    """The whole set of what SQS takes stays readable."""
    assert queue_name(name) == name


def nested(depth: int, *, in_lists: bool) -> object:
    """A value of so many levels."""
    value: object = "a text, with [[[ and {{{"
    for _ in range(depth):
        value = [value, 1] if in_lists else {"a": value, "b": 1}
    return value


@pytest.mark.parametrize("in_lists", [True, False], ids=["lists", "dictionaries"])
def test_depth_is_counted_exactly(in_lists: bool) -> None:
    """A value, and its JSON, may be nested as deep as the limit and no deeper. Brackets in a text
    do not count, and neither do values side by side.
    """
    deepest = nested(MAX_DEPTH, in_lists=in_lists)
    beyond = nested(MAX_DEPTH + 1, in_lists=in_lists)
    wide: list[list[Any]] = [[] for _ in range(MAX_DEPTH + 1)]

    verdicts = [
        (is_value_too_deep(value), is_too_deep(json.dumps(value)))
        for value in (deepest, beyond, wide, "text")
    ]

    assert verdicts == [(False, False), (True, True), (False, False), (False, False)]
