"""Immutable values: what they share with frozen dataclasses."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from typing import Any, ClassVar

import pytest

from oncekey.value import Value, field, replace


class Point(Value):
    """Two fields by place or by name, and one with a default."""

    x: int
    y: int
    unit: str = "m"
    count: ClassVar[int] = 0


class Named(Value, kw_only=True):
    """Fields by name: one hidden, one made, one not compared, and one that it computes."""

    name: str
    secret: str = field(default="", repr=False)
    parts: list[int] = field(default_factory=list, hash=False)
    note: str = field(default="", compare=False)
    length: int = field(init=False)

    def __post_init__(self) -> None:
        """Compute the length."""
        object.__setattr__(self, "length", len(self.name))


class Deeper(Point):
    """A class adds its fields to those of its base."""

    z: int = 0


# As a type checker does not see them, which refuses what is refused here.
POINT: Any = Point
NAMED: Any = Named


def test_fields_are_given_by_place_or_by_name() -> None:
    """Both ways make equal values; what is left out has its default."""
    assert Point(1, 2) == Point(x=1, y=2) == Point(1, y=2, unit="m")
    assert (Point(1, 2).x, Point(1, 2).unit) == (1, "m")
    assert Deeper(1, 2, "km", 3).z == 3


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: POINT(1), "Point needs 'y'"),
        (lambda: POINT(1, z=2), "Point needs 'y' and has no 'z'"),
        (lambda: POINT(1, 2, w=3), "Point has no 'w'"),
        (lambda: POINT(1, 2, "m", 4), "Point takes at most 3 positional values"),
        (lambda: POINT(1, 2, x=1), "Point got two values of 'x'"),
        (lambda: NAMED("a"), "Named takes at most 0 positional values"),
        (lambda: NAMED(name="a", length=1), "Named fills 'length' itself"),
        (lambda: replace(Named(name="a"), length=1), "Named fills 'length' itself"),
        (lambda: replace(Point(1, 2), w=1), "Point has no 'w'"),
    ],
)
def test_a_wrong_field_is_named(make: Any, says: str) -> None:
    """A value that lacks a field, or is given one that it has not, is never made."""
    with pytest.raises(TypeError) as refused:
        make()

    assert str(refused.value) == says


def test_a_field_of_dataclasses_is_refused() -> None:
    """It would be taken for a default, and what it says would have no effect."""
    with pytest.raises(TypeError, match=r"Wrong\.name: use the `field` of oncekey\.value"):
        type(
            "Wrong",
            (Value,),
            {"__annotations__": {"name": "str"}, "name": dataclasses.field(repr=False)},
        )


def test_a_value_cannot_be_changed() -> None:
    """Neither a field nor a new attribute can be set or deleted."""
    point = Point(1, 2)

    with pytest.raises(AttributeError, match="a Point cannot be changed"):
        setattr(point, "x", 5)  # noqa: B010 -- a type checker refuses the statement
    with pytest.raises(AttributeError, match="a Point cannot be changed"):
        setattr(point, "new", 5)  # noqa: B010 -- as above
    with pytest.raises(AttributeError, match="a Point cannot be changed"):
        delattr(point, "x")
    assert point == Point(1, 2)


def test_values_are_equal_by_class_and_compared_fields() -> None:
    """Another class with the same fields is another value; a field that is not compared is not."""
    assert Point(1, 2) != Point(1, 3)
    assert Point(1, 2) != Deeper(1, 2)
    assert Named(name="a", note="x") == Named(name="a", note="y")
    assert Named(name="a", parts=[1]) != Named(name="a")
    assert hash(Point(1, 2)) == hash(Point(1, 2))
    assert hash(Named(name="a", note="x", parts=[1])) == hash(Named(name="a", note="y"))
    assert len({Point(1, 2), Point(1, 2), Point(2, 1)}) == 2


def test_what_is_made_is_made_for_each_value() -> None:
    """Two values never share a default that can be changed."""
    assert Named(name="a").parts is not Named(name="a").parts


def test_a_hidden_field_is_not_printed() -> None:
    """What may hold a secret stays out of logs."""
    assert repr(Named(name="a", secret="s")) == "Named(name='a', parts=[], note='', length=1)"


def test_a_copy_has_the_changes_and_computes_again() -> None:
    """A copy keeps what is not changed; what the class computes follows the change."""
    changed = replace(Named(name="a", secret="s"), name="abc")

    assert (changed.secret, changed.length) == ("s", 3)
    assert replace(Deeper(1, 2, z=3), x=9) == Deeper(9, 2, z=3)


def test_a_value_is_copied_pickled_and_matched() -> None:
    """The standard library's own ways to take a value apart work."""
    point = Deeper(1, 2)

    assert copy.copy(point) == copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point  # noqa: S301 -- of our own
    match point:
        case Deeper(x, y, unit=unit):
            assert (x, y, unit) == (1, 2, "m")
        case _:
            pytest.fail("a value is not matched by its fields")


def test_a_decorated_handler_loads_neither_dataclasses_nor_its_engine_for_steps() -> None:
    """What a cold start does not need is not loaded: generated classes, queues, quotas, steps.

    Red when a module of the plain path imports one of them.
    """
    program = (
        "import sys; before = set(sys.modules); import oncekey\n"
        "@oncekey.idempotent(operation='POST /x', tenant=oncekey.single_tenant())\n"
        "def handler(event, context): ...\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", _with_path(program)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    ours = [name for name in loaded if name.startswith("oncekey")]
    assert "oncekey.engine.engine" in ours
    unneeded = {
        *("dataclasses", "pydantic", "asyncio", "email", "decimal", "boto3", "difflib", "uuid"),
        *("oncekey.engine.acceptance", "oncekey.engine.quota_counting", "oncekey.engine.job"),
        *("oncekey.effects.journal", "oncekey.effects.bare_run", "oncekey.store.dynamodb.store"),
    }
    assert set(loaded) & unneeded == set()


def _with_path(program: str) -> str:
    return f"import sys; sys.path[:] = {sys.path!r}\n{program}"
