"""The key of a call of a function, found in its arguments."""

from __future__ import annotations

import inspect
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.errors import ConfigurationError, KeyMissing
from oncekey.functions.keys import MAX_KEY_LENGTH, KeySource, function_key

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "4242424242424242"


def work(record: Any) -> None:
    """A function of one argument."""


def charge(order_id: Any, line: Any = 1, *, event: Any = None) -> None:
    """A function of several."""


def nothing() -> None:
    """A function of none."""


def key_of(function: Callable[..., None], key: KeySource, *args: Any, **kwargs: Any) -> str:
    """The key of the call `function(*args, **kwargs)`."""
    find = function_key(key, inspect.signature(function), operation="charge")
    return find(args, kwargs)


def test_a_callable_gets_the_arguments_of_the_call() -> None:
    """A callable is called as the function is, and what it returns is the key."""
    assert key_of(charge, lambda order_id, line, *, event: f"{order_id}/{line}/{event}", "a") == (
        "a/1/None"
    )
    assert key_of(work, lambda record: record["id"], {"id": "a b"}) == "a b"


def test_a_default_that_is_given_or_left_out_is_the_same_call() -> None:
    """The key does not depend on how the arguments were passed."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (("a",), {}),
        (("a", 1), {}),
        ((), {"order_id": "a", "event": None}),
        ((), {"line": 1, "order_id": "a"}),
    ]

    for key in ("[order_id, line]", lambda order_id, line, event: [order_id, line]):
        assert {key_of(charge, key, *args, **kwargs) for args, kwargs in calls} == {'json:["a",1]'}


def test_an_expression_is_applied_to_the_only_argument() -> None:
    """A function of one parameter: the expression starts in its argument."""
    assert key_of(work, "messageId", {"messageId": "m-1"}) == "m-1"
    assert key_of(work, "messageId", record={"messageId": "m-1"}) == "m-1"
    assert key_of(work, "@", "m-1") == "m-1"


def test_an_expression_is_applied_to_several_arguments_by_name() -> None:
    """A function of several parameters: the expression starts with a parameter's name."""
    assert key_of(charge, "order_id", "o-1") == "o-1"
    assert key_of(charge, "event.detail.id", "o-1", event={"detail": {"id": "e-1"}}) == "e-1"
    assert key_of(charge, "join('/', [order_id, event.id])", "o", event={"id": "e"}) == "o/e"
    assert key_of(charge, "event.items[?ok].id | [0]", "o", event={"items": [{"ok": 1, "id": "i"}]})


@pytest.mark.parametrize(
    ("found", "key"),
    [
        ("text as it is ", "text as it is "),
        (42, "json:42"),
        (4.0, "json:4"),
        (0, "json:0"),
        (False, "json:false"),
        (2**63, "json:9223372036854775808"),
        ({"b": 1, "a": [1.0, None]}, 'json:{"a":[1,null],"b":1}'),
        ({"b": 2**63, "a": None}, 'json:{"a":null,"b":9223372036854775808}'),
        (("a", None), 'json:["a",null]'),
        (StrEnum("Name", {"A": "a"}).A, "a"),  # type: ignore[attr-defined]
        (Enum("Name", {"A": "a"}, type=str).A, "a"),  # type: ignore[attr-defined]
        ("\u00e9", "\u00e9"),
        ("k" * MAX_KEY_LENGTH, "k" * MAX_KEY_LENGTH),
    ],
)
def test_a_text_is_the_key_and_other_json_is_made_canonical(found: Any, key: str) -> None:
    """Text is taken as it is; a JSON value has one spelling, whatever its order and numbers."""
    assert key_of(work, lambda record: found, 1) == key


NOTHING = {
    "None": None,
    "empty": "",
    "spaces": " \t\n",
    "no-break spaces": "\u00a0\u2003",
    "an empty list": [],
    "an empty dict": {},
    "a list of nulls": [None, None],
    "a dict of nulls": {"a": None},
    "nested nulls": [{"a": [None, ()]}, {}],
    "blanks and nulls": ["", " ", None],
}


@pytest.mark.parametrize("name", NOTHING)
@pytest.mark.case(32)
def test_a_key_of_nothing_is_refused(name: str) -> None:
    """A blank key, or one of nothing but nulls at any depth, is no key: the call is refused.

    Red when such calls share one record.
    """
    for find in ("id", "not_null(id)", lambda record: record["id"]):
        with pytest.raises(KeyMissing, match=r"^charge: .*nothing but blanks and nulls"):
            key_of(work, find, {"id": NOTHING[name]})


@pytest.mark.parametrize(
    ("key", "record"),
    [
        ("id", {}),
        ("id", SECRET),
        ("id", None),
        ("[id, detail.id]", {"other": SECRET}),
        ("{a: id, b: detail.id}", {"other": SECRET}),
        ("items[*].id", {"items": [{"other": SECRET}]}),
        ("items[*].id", {"items": []}),
        ("join('/', [id, other])", {"other": SECRET}),
        ("length(other)", {"other": 4242}),
        (lambda record: record["id"], {"other": SECRET}),
        (lambda record: record["items"][0], {"items": []}),
        (lambda record: "k" * (MAX_KEY_LENGTH + 1), SECRET),
        (lambda record: "4242\ud800", SECRET),
    ],
)
@pytest.mark.case(32)
def test_a_call_without_a_usable_key_is_refused_and_not_quoted(key: Any, record: Any) -> None:
    """An absent key, one that is too long, or no text: refused, and no argument is shown.

    Red when a projection whose values are all absent counts as a key.
    """
    with pytest.raises(KeyMissing, match="^charge: ") as refused:
        key_of(work, key, record)

    assert not refused.value.retryable
    assert "4242" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("found", [object(), float("nan"), [object()], {"a": object()}, range(3)])
def test_a_key_that_has_no_spelling_is_a_fault_of_the_program(found: Any) -> None:
    """A key of another type is refused with the way to make it a text. The text of the object
    itself may name its place in memory, and a repeat would have another key.
    """
    with pytest.raises(ConfigurationError, match=r"operation='charge'.*str\(\.\.\.\) of its id, "):
        key_of(work, lambda record: found, 1)


async def asynchronous(record: Any) -> str:
    """No key function: it gives a promise of a key."""
    return str(record)


@pytest.mark.parametrize(
    ("function", "key", "fault"),
    [
        (work, "", "is no JMESPath expression"),
        (work, "a.", "is no JMESPath expression"),
        (work, "[a", "is no JMESPath expression"),
        (work, "a b", "is no JMESPath expression"),
        (work, "powertools_json(body)", r"JMESPath has no function powertools_json\(\)"),
        (work, "a[?lenght(@) > `1`]", r"JMESPath has no function lenght\(\)"),
        (work, "sort_by(a)", r"sort_by\(\) takes 2 argument\(s\), not 1"),
        (work, "merge()", r"merge\(\) takes 1 argument\(s\), not 0"),
        (charge, "id", "'id' is none of the parameters order_id, line, event"),
        (charge, "[order_id, id.x]", "'id' is none of the parameters"),
        (charge, "{a: order_id, b: id[0]}", "'id' is none of the parameters"),
        (charge, "join(order_id, id[*].x)", "'id' is none of the parameters"),
        (charge, "order_id || id", "'id' is none of the parameters"),
        (nothing, "id", "no parameters that could hold a key"),
        (work, None, "of the type NoneType: give a JMESPath expression or a function"),
        (work, asynchronous, r"of the type function: .* \(not async\)"),
    ],
)
@pytest.mark.case(32)
def test_a_key_that_can_never_be_found_is_refused_when_decorated(
    function: Callable[..., None], key: Any, fault: str
) -> None:
    """What is wrong with `key=` by itself is told before any call is made.

    Red when it is found at the first call.
    """
    with pytest.raises(ConfigurationError, match=f"operation='charge'.*{fault}"):
        function_key(key, inspect.signature(function), operation="charge")


def test_every_fault_of_an_expression_is_told_at_once() -> None:
    """Two faults, one message."""
    with pytest.raises(ConfigurationError) as refused:
        function_key("[id, nope(x)]", inspect.signature(charge), operation="charge")

    assert len(refused.value.faults) == 3


def test_names_below_a_parameter_are_the_arguments_own() -> None:
    """Only names that the expression looks up first have to be parameters."""
    for key in (
        "event.id",
        "event[*].id",
        "event[?id].id",
        "event.*.id",
        "event | id",
        "event[0].id",
        "event[].id",
    ):
        function_key(key, inspect.signature(charge), operation="charge")
    for key in ("sort_by(event, &id)[0]", "not_null(event.id, order_id, line)"):
        function_key(key, inspect.signature(charge), operation="charge")


def test_arguments_that_do_not_fit_are_pythons_own_error() -> None:
    """A call that the function itself would refuse is refused in the same way."""
    with pytest.raises(TypeError, match="missing a required argument: 'order_id'"):
        key_of(charge, "order_id")
