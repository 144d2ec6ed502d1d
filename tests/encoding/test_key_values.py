"""Values of Python as keys and fingerprints of functions: different ones never meet."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, localcontext
from enum import Enum, Flag, IntEnum, StrEnum, auto
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, SecretStr

from oncekey import ConfigurationError, KeyReused, idempotent_function, single_tenant
from oncekey.encoding.key_values import NotAKeyValue, json_value
from oncekey.errors import KeyMissing
from oncekey.functions.keys import function_key
from oncekey.http.fingerprint import selected_fingerprint
from oncekey.testing.memory import MemoryStore
from tests.support.result_kinds import SummerTime

ID = UUID("8e03978e-40d5-43e8-bc93-6894a57f9324")
NOON = datetime(2026, 11, 28, 12, 0, 0, 250, tzinfo=UTC)


class Colour(Enum):
    """An enum."""

    RED = "red"
    BLUE = 1


class Shade(Enum):
    """Another of the same names."""

    RED = "red"


class Word(StrEnum):
    """Texts."""

    RED = "red"


class Level(IntEnum):
    """Numbers."""

    HIGH = 3


class Right(Flag):
    """Flags."""

    READ = auto()
    WRITE = auto()


class Point(NamedTuple):
    """A tuple with names."""

    x: int
    y: int


@dataclass
class Line:
    """A dataclass in a dataclass, with a field that does not count."""

    sku: str
    price: Decimal = Decimal("1.00")
    cache: object = field(default=None, compare=False)


@dataclass
class Order:
    """A dataclass."""

    id: UUID
    lines: list[Line]


@dataclass
class Basket:
    """Another with the same fields."""

    id: UUID
    lines: list[Line]


class Payment(BaseModel):
    """A pydantic model."""

    id: UUID
    amount: Decimal
    due: date
    lines: list[Line] = []


class Refund(BaseModel):
    """Another with the same fields."""

    id: UUID
    amount: Decimal
    due: date
    lines: list[Line] = []


PAYMENT = Payment(id=ID, amount=Decimal("12.50"), due=date(2026, 11, 28))
REFUND = Refund(id=ID, amount=Decimal("12.50"), due=date(2026, 11, 28))

# No two of these are one key or one fingerprint.
APART: list[Any] = [
    "a",
    ["a"],
    '["a"]',
    'json:["a"]',
    'text:json:["a"]',
    "text:a",
    {"a": 1},
    {"a": "1"},
    '{"a":1}',
    'json:{"a":1}',
    1,
    "1",
    True,
    "true",
    False,
    0,
    "0",
    2**53,
    2**53 + 1,
    2**64,
    1.5,
    "1.5",
    Decimal("1.5"),
    Decimal(1),
    Decimal("1.00000000000000000000000000000000000000000000001"),
    Decimal("1.00000000000000000000000000000000000000000000002"),
    Decimal("1E+400"),
    ID,
    str(ID),
    ID.hex,
    ID.bytes,
    b"a",
    b"YQ==",
    "YQ==",
    NOON,
    NOON.isoformat(),
    NOON.replace(tzinfo=None),
    NOON.date(),
    NOON.date().isoformat(),
    NOON.time(),
    NOON.timetz(),
    *(NOON.time().replace(tzinfo=ZoneInfo(name)) for name in ("Asia/Tokyo", "Africa/Cairo")),
    NOON + timedelta(microseconds=1),
    timedelta(days=1),
    timedelta(seconds=1),
    Colour.RED,
    Colour.BLUE,
    Shade.RED,
    "red",
    "RED",
    Right.READ,
    Right.READ | Right.WRITE,
    {"a"},
    {"a", "b"},
    {1: "a"},
    {"1": "a"},
    {True: "a"},
    {None: "a"},
    {ID: "a"},
    {"$uuid": str(ID)},
    {"$dict": {"$uuid": str(ID)}},
    {"$decimal": "15e-1"},
    {"$mapping": [[1, "a"]]},
    {"$set": ["a"]},
    {"$object": ["Line", {"sku": "a"}]},
    Order(ID, [Line("a")]),
    Order(ID, [Line("b")]),
    Order(ID, []),
    Basket(ID, []),
    {"id": ID, "lines": []},
    PAYMENT,
    REFUND,
    PAYMENT.model_copy(update={"amount": Decimal("12.51")}),
    PAYMENT.model_copy(update={"lines": [Line("a")]}),
    PAYMENT.model_dump(),
    PAYMENT.model_dump_json(),
    Line("a"),
    Line("a", price=Decimal(2)),
    [["a"], "b"],
    [["a", "b"]],
    [[], ["a", "b"]],
]
# The members of each are one.
TOGETHER: list[list[Any]] = [
    [1, 1.0, Level.HIGH - 2],
    [Level.HIGH, 3],
    [Word.RED, "red"],
    [["a", 1], ("a", 1)],
    [Point(1, 2), [1, 2]],
    [Decimal("1.0"), Decimal("1.00"), Decimal("0.1E1"), Decimal(1)],
    [Decimal(0), Decimal("-0.00"), Decimal("0E+5")],
    [100, 1e2],
    [NOON, NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))],
    [{"a": 1, "b": ID}, {"b": ID, "a": 1}, MappingProxyType({"b": ID, "a": 1})],
    [{"a", "b", "c"}, frozenset(["c", "b", "a"])],
    [{1: "a", "1": "b"}, {"1": "b", 1: "a"}],
    [b"a", bytearray(b"a")],
    [Line("a", cache=1), Line("a", cache=2)],
    [PAYMENT, PAYMENT.model_copy(update={"amount": Decimal("12.5")})],
]

GOLDEN: list[tuple[Any, str]] = [
    ("a text", "a text"),
    ("json:1", "text:json:1"),
    ("text:1", "text:text:1"),
    (1, "json:1"),
    (["a", 1.5, None, True], 'json:["a",1.5,null,true]'),
    ({"b": 1, "a": []}, 'json:{"a":[],"b":1}'),
    (ID, 'json:{"$uuid":"8e03978e-40d5-43e8-bc93-6894a57f9324"}'),
    (NOON, 'json:{"$datetime":"2026-11-28T12:00:00.000250+00:00"}'),
    (NOON.replace(tzinfo=None), 'json:{"$datetime":"2026-11-28T12:00:00.000250"}'),
    (NOON.date(), 'json:{"$date":"2026-11-28"}'),
    (time(12, 30), 'json:{"$time":"12:30:00"}'),
    (time(9, tzinfo=ZoneInfo("Asia/Tokyo")), 'json:{"$time":["09:00:00","Asia/Tokyo"]}'),
    (timedelta(days=1, seconds=2), 'json:{"$timedelta":[1,2,0]}'),
    (Decimal("-12.50"), 'json:{"$decimal":"-125e-1"}'),
    (b"\x00\xff", 'json:{"$bytes":"AP8="}'),
    (Colour.RED, 'json:{"$enum":["Colour","RED"]}'),
    (Right.READ | Right.WRITE, 'json:{"$enum":["Right",3]}'),
    ({"b", "a"}, 'json:{"$set":["a","b"]}'),
    ({1: "a"}, 'json:{"$mapping":[[1,"a"]]}'),
    ({"$x": 1}, 'json:{"$dict":{"$x":1}}'),
    (Line("a"), 'json:{"$object":["Line",{"price":{"$decimal":"1"},"sku":"a"}]}'),
    (
        PAYMENT,
        (
            'json:{"$object":["Payment",{"amount":{"$decimal":"125e-1"},"due":{"$date":"2026-11-28"},'
            '"id":{"$uuid":"8e03978e-40d5-43e8-bc93-6894a57f9324"},"lines":[]}]}'
        ),
    ),
]


def key_of(found: Any) -> str:
    """The key of a call that `key=` finds this for."""

    def function(record: Any) -> None: ...

    find = function_key(lambda _: found, inspect.signature(function), operation="x")
    return find((1,), {})


@pytest.mark.fault("K11.1")
@pytest.mark.parametrize(("value", "key"), GOLDEN, ids=[key[:40] for _, key in GOLDEN])
def test_a_key_has_the_spelling_that_it_has_always_had(value: Any, key: str) -> None:
    """The spelling of a key is part of what is stored: another one forgets every record.

    Red when any of it is spelled in another way.
    """
    assert key_of(value) == key


@pytest.mark.fault("K11.2")
@pytest.mark.fault("K11.1")
def test_different_values_are_different_keys_and_fingerprints() -> None:
    """No two of many values, of different types or of one, are one key or one fingerprint.

    Red when a text and a list, or a UUID and its text, are spelled alike.
    """
    keys = [key_of(value) for value in APART]
    fingerprints = [selected_fingerprint(value).current for value in APART]

    assert [a for a, b in itertools.pairwise(sorted(keys)) if a == b] == []
    assert len(set(fingerprints)) == len(APART)


@pytest.mark.fault("K11.1")
@pytest.mark.parametrize("values", TOGETHER, ids=range(len(TOGETHER)))
def test_equal_values_are_one_key_and_one_fingerprint(values: list[Any]) -> None:
    """What is equal is one, however it was written.

    Red when the order of a set, the zeros of a Decimal or a time zone make another key.
    """
    with localcontext(prec=3):
        assert len({key_of(value) for value in values}) == 1
    assert len({selected_fingerprint(value).current for value in values}) == 1


REFUSED: list[tuple[Any, str]] = [
    (object(), "it is of the type object"),
    ({"payload": {"items": [1, 2, 3, {"blob": memoryview(b"4242")}]}}, "payload.items[3].blob"),
    ({"payload": [object()]}, "payload[0] is of the type object"),
    (Order(ID, [Line("4242", price=3 + 4j)]), "lines[0].price is of the type complex"),  # type: ignore[arg-type]
    ({"card": SecretStr("4242")}, "card is of the type pydantic.types.SecretStr"),
    ({"a": {"4242 4242": object()}}, "a[str] is of the type object"),
    ({"a": {ID: object()}}, "a[UUID] is of the type object"),
    ({"a": float("inf")}, "a is a float without a value"),
    ({"a": Decimal("NaN")}, "a is a Decimal without a value"),
    ({"a": ["\ud800"]}, "a[0] is not valid Unicode text"),
    ({"a": {"x": {object()}}}, "a.x is of the type object"),
    ({"a": Line}, "a is of the type type"),
    ({"a": time(9, tzinfo=SummerTime())}, "a is a time in a zone without an offset or a name"),
]


@pytest.mark.fault("K11.1")
@pytest.mark.parametrize(("value", "told"), REFUSED, ids=[told for _, told in REFUSED])
def test_what_is_refused_is_named_by_its_path_and_type(value: Any, told: str) -> None:
    """The message says which part of the value it is, and of what type; never the value.

    Red when it names the type of the whole, or shows what is in it.
    """
    with pytest.raises(ConfigurationError) as key:
        key_of(value)
    assert told in str(key.value)
    assert "4242" not in str(key.value)

    with pytest.raises(ConfigurationError) as fingerprint:
        selected_fingerprint({"also": ID, "value": value})
    assert told.removeprefix("it") in str(fingerprint.value)
    assert "4242" not in str(fingerprint.value)


@pytest.mark.fault("K11.1")
def test_a_circle_is_refused() -> None:
    """A value that holds itself has no spelling.

    Red when it takes the stack down, or is followed for ever.
    """
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(NotAKeyValue, match="nested deeper"):
        json_value(circle)
    with pytest.raises(ConfigurationError, match="too deep"):
        selected_fingerprint(circle)


@pytest.mark.fault("K11.1")
@pytest.mark.parametrize(
    ("expression", "argument", "key"),
    [
        ("id", PAYMENT, key_of(ID)),
        ("[id, amount]", PAYMENT, key_of([ID, Decimal("12.5")])),
        ("id", Order(ID, []), key_of(ID)),
        ("lines[0].sku", Order(ID, [Line("a")]), "a"),
        ("lines[*].sku", Order(ID, [Line("a"), Line("b")]), key_of(["a", "b"])),
        ("body.id", {"body": PAYMENT}, key_of(ID)),
        ("[0].id", (PAYMENT, "b"), key_of(ID)),
        ("detail.due", MappingProxyType({"detail": PAYMENT}), key_of(date(2026, 11, 28))),
        ("x", Point(1, 2), None),
    ],
)
def test_an_expression_sees_the_fields_of_dataclasses_and_models(
    expression: str, argument: Any, key: str | None
) -> None:
    """A JMESPath expression finds a field as it finds a member, and its value keeps its type.

    Red when the expression is applied to the object itself, which it sees nothing in.
    """

    def function(record: Any) -> None: ...

    find = function_key(expression, inspect.signature(function), operation="x")
    if key is None:
        with pytest.raises(KeyMissing):
            find((argument,), {})
    else:
        assert find((argument,), {}) == key


@pytest.mark.fault("K11.1")
def test_an_expression_is_not_lost_in_a_circle() -> None:
    """Objects that refer to each other are searched like any others.

    Red when an argument is dumped for as long as it goes on.
    """
    order = Order(ID, [])
    order.lines = [order, order]  # type: ignore[list-item]

    def function(record: Any) -> None: ...

    find = function_key("lines[1].lines[0].id", inspect.signature(function), operation="x")
    assert find((order,), {}) == key_of(ID)


@pytest.mark.fault("K11.1")
@pytest.mark.parametrize(
    "empty",
    [Line("", price=None, cache=1), b"", set(), [Line(" ", price=None)]],  # type: ignore[arg-type]
)
def test_an_object_of_nothing_is_no_key(empty: Any) -> None:
    """An object whose fields are all blank or null tells no call from another.

    Red when every call without an id shares one record.
    """
    with pytest.raises(KeyMissing):
        key_of(empty)


@pytest.mark.fault("K11.2")
def test_a_text_and_a_list_run_as_two_calls() -> None:
    """Calls whose keys are a text and a value that is spelled like it both run, and each is
    replayed on its own.

    Red when the spelling of the value is the text.
    """
    runs: list[Any] = []

    @idempotent_function(
        operation="two types", key=lambda found: found, tenant=single_tenant(), store=MemoryStore()
    )
    def function(found: Any) -> str:
        runs.append(found)
        return repr(found)

    given: list[Any] = ["1", 1, True, '["a"]', ["a"], ID, str(ID)]
    for _ in range(2):
        assert [function(found) for found in given] == [repr(found) for found in given]

    assert runs == given


@pytest.mark.fault("K11.1")
def test_a_fingerprint_of_a_model_is_compared() -> None:
    """A repeat with an equal model is the same call, and one with another amount is refused.

    Red when a model cannot be selected, or counts by its address.
    """

    @idempotent_function(
        operation="pay",
        key="id",
        tenant=single_tenant(),
        fingerprint=lambda payment: payment,
        store=MemoryStore(),
    )
    def pay(payment: Payment) -> str:
        return "paid"

    assert pay(PAYMENT) == pay(PAYMENT.model_copy()) == "paid"
    with pytest.raises(KeyReused):
        pay(PAYMENT.model_copy(update={"amount": Decimal(13)}))
