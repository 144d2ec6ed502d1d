"""The fast way to a canonical form gives the form of the general way, or none."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncekey.encoding.canonical import MAX_DEPTH, NotCanonical, general_form, plain_form
from tests.encoding.test_canonical import I_JSON, REFUSED
from tests.support.json_spelling import respelled

DEEP = MAX_DEPTH + 1
# Each of these has a fault, or an order of names, that one check of the fast way alone sees.
TRAPS = {
    "a name twice": '{"a":1,"a":1}',
    "a name twice, its colon made up for": '{"a":1,"a":"\\u003a"}',
    "the same in capitals": '{"a":1,"a":"\\u003A"}',
    "a name with a colon twice": '{":":1,":":"::"}',
    "a name twice, written as an escape": '{"a":[{}],"\\u0061":":"}',
    "a name twice, deep inside": '[[[{"b":{"a":":","a":":"}}]]]',
    "names beyond U+FFFF": '{"\ufb33":1,"\U0001f600":2}',
    "names beyond U+FFFF, escaped": '{"\\ufb33":1,"\\ud83d\\ude00":2}',
    "a text beyond U+FFFF": '{"b":"\U0001f600","a":":"}',
    "a lone surrogate": '{"a":"\\ud800"}',
    "a lone surrogate beside one beyond U+FFFF": '["\U0001f600","\\udc00"]',
    "an integer beyond 2^53-1": '{"a":9007199254740992}',
    "a number of 16 digits that is exact": '{"b":9007199254740991,"a":"4242424242424242"}',
    "numbers that are written otherwise": "[1e5,1E-5,-0.0,1.50,1e21,123456789012345678e3,5e-324]",
    "a text like a small number": '["1e-05",1e-05]',
    "arrays too deep": "[" * DEEP + "]" * DEEP,
    "objects too deep": '{"a":' * DEEP + "1" + "}" * DEEP,
    "arrays and objects too deep": '[{"a":' * DEEP + "1" + "}]" * DEEP,
    "too deep by brackets in texts": '["]",' * DEEP + "1" + ',"["]' * DEEP,
    "too deep with an escaped quote": '["\\"]",' * DEEP + "1" + ',"[\\""]' * DEEP,
    "too deep with two escaped quotes": '["\\"]\\"",' * DEEP + "1" + ',"\\"[\\""]' * DEEP,
    "brackets in texts alone": json.dumps(["[" * DEEP, "{" * DEEP]),
    "as deep as may be, and wide": "[[],{}," + "[" * (MAX_DEPTH - 1) + "]" * MAX_DEPTH,
    "white space about": '\n {"b" : 1 ,\t"a":2}\r\n ',
    "white space that JSON does not have": '\u00a0{"a":1}',
    "a byte order mark": '\ufeff{"a":1}',
    "two documents": "{} {}",
    "an escaped backslash before an escape": '{"a":"\\\\u003a","b":":"}',
}
# What services are sent.
PLAIN = {
    "a payment": '{"customer_id": "cus_1", "amount": 1200, "currency": "eur"}',
    "amounts": '{"total": 12.50, "items": [{"price": 0.1, "quantity": 3}, {"price": 1e3}]}',
    "names in any order": '{"b": {"d": null, "c": true}, "a": []}',
    "text of other languages": '{"name": "Zoë", "город": "Псков", "note": "\\u00e9\\n"}',
    "times and addresses": '{"at": "2026-11-29T10:00:00Z", "url": "https:\\/\\/example.com"}',
    "a card's number": '{"card": "4242424242424242", "amount": 5}',
    "many items": json.dumps([{"id": n, "tags": ["a", {"b": "c"}]} for n in range(MAX_DEPTH)]),
    "a scalar": "1",
}


def generally(document: bytes, only: frozenset[str] | None = None) -> bytes | None:
    """The general form, or None where there is none."""
    try:
        return general_form(document, only)
    except NotCanonical:
        return None


def assert_same(document: bytes, only: frozenset[str] | None = None) -> None:
    """The fast way gives the general form, or none at all."""
    form = plain_form(document, only)

    assert form is None or form == generally(document, only), document


@pytest.mark.requirement("C7")
@pytest.mark.parametrize("document", TRAPS.values(), ids=TRAPS)
def test_what_the_fast_way_cannot_see_it_leaves_to_the_general_one(document: str) -> None:
    """A duplicate name, an order by UTF-16, a number that is not exact and too deep a nesting are
    never missed, whatever hides them.

    Red when any one check of `plain_form` is left out.
    """
    assert_same(document.encode("utf-8"))
    assert_same(f'{{"x":{document},"b":[":"]}}'.encode(), frozenset("b"))


@pytest.mark.requirement("C7")
@pytest.mark.parametrize("document", REFUSED.values(), ids=REFUSED)
def test_no_document_is_accepted_that_has_no_form(document: bytes) -> None:
    """What the general way refuses, the fast way gives no form.

    Red when the fast way rounds a number or takes a document for JSON that is none.
    """
    assert plain_form(document) is None


@pytest.mark.parametrize("document", PLAIN.values(), ids=PLAIN)
def test_what_services_are_sent_goes_the_fast_way(document: str) -> None:
    """Ordinary bodies do not need the general way.

    Red when a check of `plain_form` refuses what it need not, which nothing else would show.
    """
    raw = document.encode("utf-8")

    assert plain_form(raw) == general_form(raw)


@pytest.mark.requirement("C7")
@given(I_JSON, st.randoms(use_true_random=False), st.frozensets(st.text(max_size=3), max_size=3))
def test_both_ways_give_one_form(value: Any, chance: Any, only: frozenset[str]) -> None:
    """For every I-JSON value, in any spelling, the fast form is the general form.

    Red when the fast way sorts, escapes or spells a number otherwise.
    """
    document = respelled(value, chance).encode("utf-8")

    assert_same(document)
    assert_same(document, only)


PIECES = [
    *(
        '{"a":',
        '"a":',
        '"b":',
        '{"\\u0061":',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        '":"',
        '"\\u003a"',
    ),
    *('"]"', '"["', '"\\""', '"{}"', "1", "1e-5", "0.1", "9007199254740993", "-0", "NaN", "null"),
    *("\ufb33", "\U0001f600", '"\ufb33":1', '"\U0001f600":1', '"\\ud800"', " ", "\n", "\\"),
]


@pytest.mark.requirement("C7")
@given(st.lists(st.sampled_from(PIECES), max_size=24))
def test_both_ways_give_one_form_of_anything(pieces: list[str]) -> None:
    """Whatever a client puts together, the fast way gives the general form or none.

    Red when a check of `plain_form` can be got round.
    """
    assert_same("".join(pieces).encode("utf-8"))
    assert_same(f"[{','.join(pieces)}]".encode())


def test_thousands_of_documents_have_one_form() -> None:
    """Random documents with names that repeat, and with colons and brackets in texts, have the same
    form both ways; many have one, and many have none.
    """
    chance = random.Random(20261129)  # noqa: S311 -- the same documents in every run
    found: set[bool] = set()
    for _ in range(3_000):
        document = _by_chance(chance, 4).encode("utf-8")
        found.add(generally(document) is None)
        assert_same(document)
    assert found == {True, False}


def _by_chance(chance: random.Random, depth: int) -> str:
    texts = ['"a"', '"b"', '"a:b"', '"\\u0061"', '"\\u003a"', '"]"', '"\U0001f600"', '"\ufb33"']
    kind = chance.randrange(4) if depth else 3
    if kind == 0:
        return f"[{','.join(_by_chance(chance, depth - 1) for _ in range(chance.randrange(4)))}]"
    if kind in {1, 2}:
        members = (
            f"{chance.choice(texts)}:{_by_chance(chance, depth - 1)}"
            for _ in range(chance.randrange(4))
        )
        return f"{{{','.join(members)}}}"
    return chance.choice([*texts, "1", "1.0", "12.5", "1e-6", "true", "null", "12345678901234567"])
