"""What cannot be stored as a result: refused where it stands, and told what to do instead."""

from __future__ import annotations

import dataclasses
import enum
import io
import sys
import types
from collections import Counter, OrderedDict, defaultdict
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import TZPATH, ZoneInfo

import pytest
from pydantic import SecretStr, create_model

from oncekey.encoding.results import decode, encode
from tests.support.result_kinds import (
    DictLike,
    Failure,
    Item,
    Misnamed,
    Mutable,
    NamedPair,
    Open,
    Order,
    Page,
    Pair,
    Point,
    Undeclared,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET = "4242424242424242"


def generator() -> Iterator[str]:
    """A generator."""
    yield SECRET


class Text(str):
    """A text of a class of its own."""

    __slots__ = ()


class Thing:
    """An object in general."""

    def __repr__(self) -> str:
        return SECRET


class Somewhere(tzinfo):
    """A zone that only its author knows."""

    def utcoffset(self, _: Any) -> timedelta:
        """An hour."""
        return timedelta(hours=1)

    def tzname(self, _: Any) -> str:
        """A name."""
        return SECRET

    def dst(self, _: Any) -> None:
        """None."""
        return


def local_class() -> Any:
    """An object of a class that only this call has."""

    @dataclasses.dataclass
    class Local:
        value: str = SECRET

    return Local()


def dataclass_of(module: str, name: str = "Made") -> Any:
    """An object of a class that says that it is of `module`."""
    made = dataclasses.make_dataclass(name, [("value", str)])
    made.__module__ = module
    if module == "made_at_run_time":
        setattr(sys.modules[module], name, made)
    return made(SECRET)


def cycle() -> Any:
    """A list that contains itself."""
    value: list[Any] = [1]
    value.append({"again": value})
    return value


def zone_from_file(key: str) -> ZoneInfo:
    """The zone of Berlin, read from its file."""
    for folder in TZPATH:
        path = Path(folder) / "Europe/Berlin"
        if path.exists():
            return ZoneInfo.from_file(io.BytesIO(path.read_bytes()), key=key or None)
    data = resources.files("tzdata.zoneinfo.Europe") / "Berlin"
    return ZoneInfo.from_file(io.BytesIO(data.read_bytes()), key=key or None)


def named_pair_with_more() -> NamedPair:
    """A named tuple with an attribute that is no field."""
    pair = NamedPair(1, 2)
    pair.more = SECRET  # type: ignore[attr-defined]
    return pair


def with_private(value: Any) -> Open:
    """A model that holds `value` in a private attribute."""
    model = Open(id=1)
    model._secret = value
    return model


def literal(pattern: str) -> str:
    """`pattern` for fnmatch, with no special character but `*`."""
    return pattern.replace("[", "[[]")


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "generator": (generator, "an iterator (generator), * return a list of what it yields"),
    "iterator": (lambda: iter([SECRET]), "an iterator (list_iterator), * return a list"),
    "file": (lambda: io.BytesIO(SECRET.encode()), "an open file, * return its content"),
    "function": (lambda: generator, "a function, * return what it computes"),
    "method": (lambda: SECRET.upper, "a function, * return what it computes"),
    "class": (lambda: Item, "a class, * return an instance"),
    "module": (lambda: enum, "a module, * return data"),
    "object": (Thing, "an object (*Thing), * return plain values, a dataclass or a pydantic model"),
    "exception": (lambda: ValueError(SECRET), "an object (ValueError), * return plain values"),
    "secret": (lambda: SecretStr(SECRET), "an object (pydantic.types.SecretStr), * return plain"),
    "OrderedDict": (
        lambda: OrderedDict({SECRET: 1}),
        "a subclass of dict (collections.OrderedDict), * return a plain dict",
    ),
    "defaultdict": (lambda: defaultdict(int), "a subclass of dict (*), * return a plain dict"),
    "Counter": (lambda: Counter(SECRET), "a subclass of dict (*), * return a plain dict"),
    "Text": (lambda: Text(SECRET), "a subclass of str (*Text), * return a plain str"),
    "zone": (
        lambda: datetime(2026, 1, 1, tzinfo=Somewhere()),
        "a datetime in a zone of the type *Somewhere, * use datetime.timezone or zoneinfo.ZoneInfo",
    ),
    "zone from a file": (
        lambda: datetime(2026, 1, 1, tzinfo=zone_from_file("")),
        "a time in a zone read from a file, * use ZoneInfo(key)",
    ),
    "zone from a file under another's name": (
        lambda: datetime(2026, 1, 1, tzinfo=zone_from_file("Asia/Tokyo")),
        "a time in a zone read from a file, * use ZoneInfo(key)",
    ),
    "cycle": (cycle, "a cycle back to what holds it, * return a value without cycles"),
    "local dataclass": (local_class, "of a local class (*Local), * define the class at the top"),
    "dataclass of the main program": (
        lambda: dataclass_of("__main__"),
        "of a class of the main program (Made), * define the class in a module",
    ),
    "dataclass of no module": (
        lambda: dataclass_of("no_such_module"),
        "of a class that cannot be imported again (no_such_module.Made), *",
    ),
    "dataclass of a module made at run time": (
        lambda: dataclass_of("made_at_run_time"),
        "of a class that cannot be imported again (made_at_run_time.Made), *",
    ),
    "dataclass under another's name": (
        lambda: dataclass_of("tests.support.result_kinds", "Item"),
        "of a class that cannot be imported again (tests.support.result_kinds.Item), *",
    ),
    "namedtuple under another name": (
        lambda: Misnamed(SECRET),
        "of a class that cannot be imported again (tests.support.result_kinds.SomethingElse), *",
    ),
    "model made at run time": (
        create_model("Made", value=(str, SECRET)),
        "of a class that cannot be imported again (*Made), *",
    ),
    "parametrised model": (
        lambda: Page[str](items=[SECRET]),
        "of a parametrised class (Page[str]), * derive a class of its own from it",
    ),
    "dataclass with more than its fields": (
        lambda: Undeclared(1),
        "a Undeclared that has hidden beside its fields, * declare what it holds as fields",
    ),
    "dataclass that is a dict": (
        lambda: DictLike(1),
        "of a class that builds on a type other than object (DictLike), * hold that part in",
    ),
    "dataclass that is an exception": (
        lambda: Failure(SECRET),
        "of a class that builds on a type other than object (Failure), * hold that part in",
    ),
    "dataclass without a field": (
        lambda: object.__new__(Item),
        "a Item that has no value for name, * declare what it holds as fields",
    ),
    "model without a field": (
        lambda: Order.model_construct().model_copy(update={"beside": SECRET}),
        "a Order that has *",
    ),
    "namedtuple with more than its fields": (
        named_pair_with_more,
        "a NamedPair that has more beside its fields, * declare what it holds as fields",
    ),
}

PLACES: dict[str, Callable[[Any], Any]] = {
    "result": lambda value: value,
    "result['items'][3].total": lambda value: {"items": [0, 1, 2, Item("a", value)]},
    "result.any_value[1]": lambda value: Order(id=1, any_value=(1, value)),
    "result.model_extra['more'].right": lambda value: Open.model_validate(
        {"id": 1, "more": Pair(1, value)}
    ),
    "result[5][<str>]": lambda value: {5: {f"{SECRET}@example.org": value}},
    "result[<Decimal>].x": lambda value: {Decimal(1): Point(value)},
}


@pytest.fixture(autouse=True)
def module_made_at_run_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded module that no other process could load."""
    made = types.ModuleType("made_at_run_time")
    monkeypatch.setitem(sys.modules, "made_at_run_time", made)


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("path", PLACES)
@pytest.mark.case(23)
def test_what_cannot_be_stored_is_refused_with_the_path_to_it(kind: str, path: str) -> None:
    """The refusal names the path, the kind and the remedy, and never the value.

    Red when something is stored that would not come back, or the message leaves one of them out.
    """
    make, message = REFUSED[kind]
    value = make()
    below = "[1]['again']" if kind == "cycle" else ""

    with pytest.raises(TypeError) as refused:
        encode(PLACES[path](value))

    assert str(refused.value).startswith(f"{path}{below} is ")
    assert fnmatchcase(str(refused.value), literal(f"{path}{below} is {message}*"))
    assert "cannot be stored: " in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_key_and_an_element_have_a_path_too() -> None:
    """What stands in a set, or is a dictionary's key, is found by its path."""
    with pytest.raises(TypeError, match=r"^result\['a'\]\{\} is an object"):
        encode({"a": {Thing()}})
    with pytest.raises(TypeError, match=r"^result\.keys\(\)\[1\]\[0\] is an object"):
        encode({1: 1, (Thing(),): 2})
    with pytest.raises(TypeError, match=r"^result\._secret is an object"):
        encode(with_private(Thing()))


def test_an_awaitable_that_was_not_awaited_is_refused() -> None:
    """A coroutine in place of what it gives: the message says to await it."""

    async def work() -> str:
        return SECRET

    coroutine = work()
    with pytest.raises(TypeError, match=r"^result is an awaitable, .* await it"):
        encode(coroutine)
    coroutine.close()


def test_a_value_that_is_held_twice_is_no_cycle() -> None:
    """The same list in two places is stored twice."""
    twice = [1]

    assert decode(encode([twice, twice, {"a": twice}])) == [[1], [1], {"a": [1]}]


@pytest.mark.case(23)
def test_what_would_not_come_back_equal_is_refused_when_it_is_written() -> None:
    """Elements of a set that became equal would come back as one: refused before it is stored.

    Red when the text is not read once before it is stored.
    """
    first, second = Mutable(1), Mutable(2)
    elements = {first, second}
    second.value = 1

    with pytest.raises(TypeError, match="result would not come back equal"):
        encode(elements)
    assert decode(encode({first})) == {first}
