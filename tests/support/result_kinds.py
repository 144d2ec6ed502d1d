"""Classes that results are made of, and a comparison that looks at types as well."""

from __future__ import annotations

import dataclasses
import math
from collections import namedtuple
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel, field_validator

T = TypeVar("T")

# What was called while a result was read: nothing may be.
CALLS: list[str] = []


class Colour(Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796 -- an alias is what is tested
    PAIR = (1, 2)


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class State(StrEnum):
    PAID = "paid"


class Right(Flag):
    READ = auto()
    WRITE = auto()


class Bits(IntFlag):
    ONE = 1
    TWO = 2


@dataclass
class Item:
    name: str
    total: Any = None
    made_by: ClassVar[str] = "class"

    def __post_init__(self) -> None:
        CALLS.append("Item")


@dataclass
class SpecialItem(Item):
    rebate: Decimal = Decimal("0.10")


@dataclass(frozen=True, slots=True)
class Point:
    x: Any
    y: Any = 0


@dataclass(eq=True)
class Derived:
    base: int
    doubled: int = field(init=False)
    constant: int = field(init=False, default=7)

    def __post_init__(self) -> None:
        self.doubled = 2 * self.base

    @cached_property
    def tripled(self) -> int:
        """Three times the base."""
        return 3 * self.base


@dataclass
class Undeclared:
    base: int

    def __post_init__(self) -> None:
        self.hidden = self.base


@dataclass
class DictLike(dict[str, int]):
    base: int


@dataclass
class Failure(Exception):
    reason: str


@dataclass(unsafe_hash=True)
class Mutable:
    value: int


@dataclass
class Found(Generic[T]):
    items: list[T]


class SummerTime(tzinfo):
    """A zone without a name. Like every zone with summer time, it has no offset without a day."""

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        """An hour."""
        return None if at is None else self.dst(at)

    def dst(self, _at: datetime | None) -> timedelta:
        """An hour."""
        return timedelta(hours=1)

    def tzname(self, _at: datetime | None) -> str:
        """The word that calendars print."""
        return "summer"


class Pair(NamedTuple):
    left: Any
    right: Any = None


class NamedPair(Pair):
    pass


Old = namedtuple("Old", ["a", "b"])
Misnamed = namedtuple("SomethingElse", ["a"])  # type: ignore[name-match]


class Outer:
    class Inner(Enum):
        """An enum inside a class."""

        ONE = 1

    @dataclass
    class Nested:
        """A dataclass inside a class."""

        value: int


class Line(BaseModel):
    sku: str
    price: Decimal


class Order(BaseModel):
    id: int
    lines: list[Line] = []
    at: datetime | None = None
    hour: time | None = None
    note: str = Field(default="-", alias="remark", exclude=True)
    any_value: Any = None

    @field_validator("id")
    @classmethod
    def _grow(cls, value: int) -> int:
        CALLS.append("Order")
        return value + 1

    @cached_property
    def shown(self) -> str:
        """The id as text."""
        return f"{self.id}"


class Open(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)
    id: int
    _secret: Any = PrivateAttr(default=3)
    _unset: int = PrivateAttr()


class Defaults(BaseModel):
    value: int = 1


class Numbers(RootModel[list[int]]):
    pass


class Page(BaseModel, Generic[T]):
    items: list[T]


def state_of(value: Any) -> Any:
    """All that an object holds, but for cached properties."""
    if isinstance(value, BaseModel):
        fields = {name: vars(value)[name] for name in type(value).model_fields}
        return (fields, value.model_extra, value.__pydantic_private__, value.model_fields_set)
    return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}


def same(first: Any, second: Any) -> bool:
    """Whether two values are equal in type, order, sign and zone, all the way down."""
    if type(first) is not type(second):
        return False
    if isinstance(first, Enum):
        return first is second
    if isinstance(first, float):
        return ((math.isnan(first) and math.isnan(second)) or first == second) and (
            math.copysign(1, first) == math.copysign(1, second)
        )
    if isinstance(first, Decimal):
        return str(first) == str(second)
    if isinstance(first, datetime | time):
        return (first.isoformat(), first.fold, first.tzname(), repr(first.tzinfo)) == (
            second.isoformat(),
            second.fold,
            second.tzname(),
            repr(second.tzinfo),
        ) and type(first.tzinfo) is type(second.tzinfo)
    if isinstance(first, dict):
        return same(list(first.items()), list(second.items()))
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, set | frozenset):
        return len(first) == len(second) and all(
            any(same(one, other) for other in second) for one in first
        )
    if isinstance(first, BaseModel) or dataclasses.is_dataclass(first):
        return same(state_of(first), state_of(second))
    return bool(first == second)
