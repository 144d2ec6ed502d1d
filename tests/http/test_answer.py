"""Answers: what is stored, what comes back, and what is added."""

from __future__ import annotations

import copy
import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncekey.errors import Final
from oncekey.http.answer import (
    answer_from,
    final_answer,
    is_final,
    status_code,
    stored_and_given,
    stored_form,
    with_headers,
)
from oncekey.http.event import Shape
from tests.support.stable_names import stable_repr

every_shape = pytest.mark.parametrize("shape", Shape)
TEXTS = st.text(max_size=10)
TOKENS = st.text("!#$%&'*+-.^_`|~09azAZ", min_size=1, max_size=10)
LINES = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=10)
ANSWERS = st.fixed_dictionaries(
    {"statusCode": st.integers(100, 599)},
    optional={
        "headers": st.none() | st.dictionaries(TOKENS, LINES, max_size=3),
        "multiValueHeaders": st.dictionaries(TOKENS, st.lists(LINES, max_size=2), max_size=2),
        "body": st.none() | st.text(),
        "isBase64Encoded": st.booleans(),
        "cookies": st.lists(LINES, max_size=2),
        "statusDescription": st.just("200 OK"),
    },
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@every_shape
@given(ANSWERS)
def test_an_answer_comes_back_equal(shape: Shape, answer: dict[str, Any]) -> None:
    """What is stored comes back field by field as the handler returned it.

    Red when `stored_form` keeps only status and body, or escapes anything twice.
    """
    assert answer_from(stored_form(answer, shape)) == answer


class Marked(str):
    """A text of an author's type."""

    __slots__ = ()


ODD: list[dict[str, Any]] = [
    {"body": Marked("x")},
    {"body": "\ud83d\ude00"},
    {"body": "é\ud800"},
    {"headers": {"X-A": Marked("x")}},
    {"headers": {Marked("X-A"): "x"}},
    {"headers": {"X-A": 1, "X-B": True, "X-C": None}},
    {"multiValueHeaders": {"X-A": ("a", Marked("b"))}},
    {"cookies": ("a=1",)},
    {"cookies": [Marked("a=1")]},
    {Marked("x"): 1},
    {"x": {1: {"y": [1.5, -0.0]}}},
    {"x": [[]], "y": {}, "z": []},
    {"statusCode": HTTPStatus.CREATED},
    {"statusCode": "201"},
]


@pytest.mark.parametrize("part", ODD, ids=repr)
def test_the_answer_that_is_given_is_the_stored_one(part: dict[str, Any]) -> None:
    """The first caller gets what any repeat will get, to the types of its parts.

    Red when `stored_and_given` gives a part of the handler's own answer that JSON changes.
    """
    answer = {"statusCode": 201, "headers": {"X-Y": "é"}, "body": "x", **part}
    stored, given = stored_and_given(answer, Shape.REST)

    assert typed(given) == typed(answer_from(stored))
    assert stored == stored_form(answer, Shape.REST)


def typed(value: Any) -> Any:
    """`value` with the type of each of its parts."""
    if isinstance(value, dict):
        return type(value), [(typed(name), typed(item)) for name, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [typed(item) for item in value]
    return type(value), repr(value)


@given(ANSWERS)
def test_the_answer_that_is_given_is_nobody_elses(answer: dict[str, Any]) -> None:
    """What a handler does to the answer that it returned changes nothing that is given.

    Red when `stored_and_given` gives a list or a dictionary of the handler's.
    """
    returned = copy.deepcopy(answer)
    stored, given = stored_and_given(returned, Shape.PAYLOAD_2)
    assert typed(given) == typed(answer_from(stored))
    for part in [*returned.values(), returned]:
        if isinstance(part, list | dict):
            part.clear()

    assert given == answer


@given(JSON)
def test_a_bare_value_is_what_api_gateway_makes_of_it(value: Any) -> None:
    """Behind payload 2.0 any JSON value is an answer: 200 with the value as a JSON body."""
    answer = answer_from(stored_form(value, Shape.PAYLOAD_2))

    assert json.loads(answer["body"]) == value
    assert {name: item for name, item in answer.items() if name != "body"} == {
        "statusCode": 200,
        "headers": {"Content-Type": "application/json"},
        "isBase64Encoded": False,
    }


@pytest.mark.parametrize("value", [0, False, [], {}, None, 0.0], ids=repr)
def test_an_empty_value_is_an_answer(value: Any) -> None:
    """A bare value that is false in Python is stored and comes back as itself.

    Red when an answer is asked for its truth in place of its presence.
    """
    assert json.loads(answer_from(stored_form(value, Shape.PAYLOAD_2))["body"]) == value


def test_a_bare_text_is_the_body() -> None:
    """Behind payload 2.0 a bare text is sent as it is, also an empty one."""
    for text in ("", "plain", '{"a":1}'):
        assert answer_from(stored_form(text, Shape.PAYLOAD_2))["body"] == text


@pytest.mark.parametrize("shape", [shape for shape in Shape if shape is not Shape.PAYLOAD_2])
@pytest.mark.parametrize("returned", [None, "text", {}, {"body": "x"}, [], 0], ids=repr)
def test_other_fronts_need_a_whole_answer(shape: Shape, returned: Any) -> None:
    """Where the gateway would answer 502, the handler is told what to return."""
    with pytest.raises(TypeError, match=f"behind {shape.value} returns a dict with a statusCode"):
        stored_form(returned, shape)


@every_shape
@pytest.mark.parametrize(
    "part",
    [
        {"body": b"4242secret"},
        {"body": {"card": "4242secret"}},
        {"body": 4242},
        {"body": Decimal(4242)},
        {"headers": ["4242secret"]},
        {"headers": {"X": b"4242secret"}},
        {"headers": {("4242secret",): "x"}},
        {"multiValueHeaders": "4242secret"},
        {"at": datetime(4242, 1, 1, tzinfo=UTC)},
        {"number": math.nan},
        {"number": math.inf},
        {"set": {"4242secret"}},
    ],
    ids=repr,
)
def test_what_cannot_be_sent_is_a_mistake(shape: Shape, part: dict[str, Any]) -> None:
    """An answer that could not come back equal is refused, and the message repeats no value.

    Red when `stored_form` turns what it does not know into text.
    """
    with pytest.raises(TypeError, match=r"oncekey: .*handler's answer") as caught:
        stored_form({"statusCode": 200, **part}, shape)
    assert "4242" not in str(caught.value)


@pytest.mark.parametrize("value", [math.nan, [math.inf], {1, 2}, b"x", object()], ids=stable_repr)
def test_a_bare_value_without_a_json_form_is_a_mistake(value: Any) -> None:
    """A bare value is held to JSON as an answer's parts are."""
    with pytest.raises(TypeError, match="cannot be sent as JSON"):
        stored_form(value, Shape.PAYLOAD_2)


@pytest.mark.parametrize(
    "status", [True, False, None, "abc", "", "-200", "200.0", 99, 600, 0, -200, 200.0, [200]]
)
def test_a_status_is_a_whole_number_from_100_to_599(status: Any) -> None:
    """No gateway can send another one."""
    with pytest.raises(TypeError, match="needs a statusCode from 100 to 599"):
        stored_form({"statusCode": status}, Shape.REST)


@pytest.mark.parametrize("status", [201, "201", HTTPStatus.CREATED])
def test_a_status_may_be_a_number_in_any_dress(status: Any) -> None:
    """API Gateway takes a number or its digits, and Python has names for them."""
    answer = answer_from(stored_form({"statusCode": status}, Shape.REST))

    assert status_code(answer) == 201


@pytest.mark.requirement("C8")
@pytest.mark.parametrize("spelt", [int, str])
def test_final_answers_are_those_of_the_contract(spelt: type[Any]) -> None:
    """2xx, 3xx, and 4xx except 408, 425 and 429 are final; nothing else is.

    Red when a 5xx, or an answer that says "not now", becomes final.
    """
    final = {status for status in range(100, 600) if is_final({"statusCode": spelt(status)})}

    our_refusal = {408, 425, 429}
    assert final == {*range(200, 300), *range(300, 400), *range(400, 500)} - our_refusal


@every_shape
@given(answer=ANSWERS)
def test_an_added_header_stands_once_where_the_shape_wants_it(
    shape: Shape, answer: dict[str, Any]
) -> None:
    """The header is there exactly once, whatever the handler returned, and the rest is kept."""
    sent = with_headers(answer, {"Idempotency-Key": "ours"}, shape)

    many = sent.get("multiValueHeaders") or {}
    single = sent.get("headers") or {}
    if shape is Shape.LOAD_BALANCER_MULTI_VALUE:
        assert many["Idempotency-Key"] == ["ours"]
        assert "headers" not in sent
    else:
        assert single["Idempotency-Key"] == "ours"
        assert "idempotency-key" not in {name.lower() for name in many}
    for member in ("body", "statusCode", "cookies", "isBase64Encoded"):
        assert sent.get(member) == answer.get(member)


@every_shape
@pytest.mark.parametrize("member", ["headers", "multiValueHeaders"])
def test_an_added_header_replaces_the_same_name_in_any_letter_case(
    shape: Shape, member: str
) -> None:
    """A header that the handler set itself does not appear beside ours; its others stay."""
    value: Any = "theirs" if member == "headers" else ["theirs"]
    answer = {"statusCode": 200, member: {"IDEMPOTENCY-key": value, "Location": value}}
    before = copy.deepcopy(answer)

    sent = with_headers(answer, {"Idempotency-Key": "ours"}, shape)

    names = [*(sent.get("headers") or {}), *(sent.get("multiValueHeaders") or {})]
    assert sorted(name.lower() for name in names) == ["idempotency-key", "location"]
    assert answer == before


def test_a_load_balancer_with_multi_value_headers_gets_lists_only() -> None:
    """Such a load balancer ignores single values, so the handler's are moved."""
    answer = {
        "statusCode": 200,
        "headers": {"Location": "/1", "X-Count": 2},
        "multiValueHeaders": {"Set-Cookie": ["a=1", "b=2"]},
    }

    sent = with_headers(answer, {"Idempotency-Key": "k"}, Shape.LOAD_BALANCER_MULTI_VALUE)

    assert sent == {
        "statusCode": 200,
        "multiValueHeaders": {
            "Location": ["/1"],
            "X-Count": ["2"],
            "Set-Cookie": ["a=1", "b=2"],
            "Idempotency-Key": ["k"],
        },
    }


@every_shape
@pytest.mark.parametrize(
    ("final", "answer"),
    [
        (Final(204), {"statusCode": 204, "headers": {}, "body": ""}),
        (Final(404, "none"), {"statusCode": 404, "headers": {}, "body": "none"}),
        (
            Final(402, {"error": "é"}, {"X-Reason": "declined"}),
            {
                "statusCode": 402,
                "headers": {"Content-Type": "application/json", "X-Reason": "declined"},
                "body": '{"error": "\\u00e9"}',
            },
        ),
        (
            Final(500, [0], {"Content-Type": "application/vnd.x+json"}),
            {
                "statusCode": 500,
                "headers": {"Content-Type": "application/vnd.x+json"},
                "body": "[0]",
            },
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Final) else "",
)
def test_a_final_is_an_answer_of_every_shape(
    shape: Shape, final: Final, answer: dict[str, Any]
) -> None:
    """`Final` says status, body and headers; text is sent as it is, all else as JSON."""
    assert final_answer(final) == answer
    assert answer_from(stored_form(final_answer(final), shape)) == answer


@pytest.mark.parametrize(("body", "sent"), [([], "[]"), ({}, "{}"), (0, "0"), (False, "false")])
def test_an_empty_body_of_a_final_is_a_body(body: object, sent: str) -> None:
    """A body that is false in Python is sent as JSON; only None means that there is none."""
    assert final_answer(Final(200, body))["body"] == sent


@pytest.mark.parametrize("name", ["content-type", "Content-type", "CONTENT-TYPE"])
def test_a_final_has_one_content_type_however_it_is_spelt(name: str) -> None:
    """A content type given in another case takes the place of JSON's, and stands not beside it."""
    final = Final(409, {"error": "taken"}, {name: "application/problem+json"})

    assert final_answer(final)["headers"] == {name: "application/problem+json"}


def test_a_final_that_cannot_be_sent_is_a_mistake() -> None:
    """A body without a JSON form is named by its kind."""
    with pytest.raises(TypeError, match=r"cannot be sent as JSON: .* datetime"):
        final_answer(Final(200, {"at": datetime(2026, 1, 1, tzinfo=UTC)}))
