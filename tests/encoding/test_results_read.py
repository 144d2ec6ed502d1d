"""Stored results that cannot be read: malformed, of an unknown kind, or of a class that changed."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from pydantic import create_model

from oncekey.encoding.results import decode, encode
from tests.support import result_kinds
from tests.support.result_kinds import Colour, Line, Open, Pair, Point

MALFORMED = {
    "no JSON": "{",
    "nothing": "",
    "two values": "1 2",
    "a number that is none": "NaN",
    "infinity": "[Infinity]",
    "a tag without a value": '{"$":"int"}',
    "no number": '{"$":"int","v":"4242x"}',
    "no decimal": '{"$":"decimal","v":"4242x"}',
    "no date": '{"$":"datetime","v":"4242x"}',
    "no base64": '{"$":"bytes","v":"4242_"}',
    "no zone": '{"$":"time","v":"01:00:00","zone":"4242/x"}',
    "a path for a zone": '{"$":"time","v":"01:00:00","zone":"../../4242"}',
    "no UUID": '{"$":"uuid","v":"4242"}',
    "a list as a tag": '{"$":[4242],"v":1}',
    "pairs that are none": '{"$":"dict","v":[[4242]]}',
    "a list as a key": '{"$":"dict","v":[[[4242],1]]}',
    "a list in a set": '{"$":"set","v":[[4242]]}',
    "no class": '{"$":"dataclass","v":{}}',
    "no fields": '{"$":"dataclass","c":"tests.support.result_kinds:Point","v":4242}',
    "too many days": '{"$":"timedelta","v":[42424242424242]}',
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_text_is_refused_without_being_quoted(name: str) -> None:
    """A text that `encode` never made is a ValueError that shows nothing of it."""
    with pytest.raises(ValueError, match="stored result is malformed") as refused:
        decode(MALFORMED[name])

    assert "4242" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_an_unknown_tag_is_refused() -> None:
    """A kind that a newer release added is named as such."""
    with pytest.raises(
        ValueError, match="part of the kind 'tensor', which this release of oncekey"
    ):
        decode('[{"$":"tensor","v":1}]')


OTHER_CLASSES = {
    "a function": '{"$":"dataclass","c":"os:system","v":{}}',
    "a plain class": '{"$":"dataclass","c":"subprocess:Popen","v":{}}',
    "another kind": '{"$":"model","c":"tests.support.result_kinds:Item","v":{}}',
    "an instance": '{"$":"dataclass","c":"tests.support.result_kinds:CALLS","v":{}}',
    "a member of an object": '{"$":"enum","c":"sys:modules.os","v":"x"}',
    "a class that is gone": '{"$":"namedtuple","c":"tests.support.result_kinds:Gone","v":{}}',
    "a module that is gone": '{"$":"enum","c":"tests.support.gone:Colour","v":"RED"}',
}


@pytest.mark.parametrize("name", OTHER_CLASSES)
def test_only_classes_of_the_four_kinds_are_found(name: str) -> None:
    """A name that leads to anything but a class of the stored kind is refused, and not called."""
    with pytest.raises(ValueError, match=r"stored result is of the class .* keep it"):
        decode(OTHER_CLASSES[name])


def kinds_changed(monkeypatch: pytest.MonkeyPatch, old: Any, new: Any) -> ValueError:
    """What reading a stored `old` raises after a release in which `new` has its name."""
    text = encode(old)
    new.__module__, new.__qualname__ = type(old).__module__, type(old).__qualname__
    monkeypatch.setattr(result_kinds, type(old).__name__, new)
    with pytest.raises(ValueError, match="has changed since: it ") as changed:
        decode(text)
    return changed.value


def test_a_class_that_changed_its_fields_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old results of a class that has other fields now are refused; the error names the fields."""
    point = dataclasses.make_dataclass("Point", [("x", int), ("z", int)])
    assert "has gained ['z'] and lost ['y'] fields" in str(
        kinds_changed(monkeypatch, Point(1), point)
    )

    pair: Any = namedtuple("pair", ["left"])
    assert "has gained no and lost ['right'] fields" in str(
        kinds_changed(monkeypatch, Pair(1), pair)
    )

    line = create_model("Line", sku=str, price=str, tax=str)
    assert "has gained ['tax'] and lost no fields" in str(
        kinds_changed(monkeypatch, Line(sku="a", price=Decimal(1)), line)
    )

    closed = create_model("Open", id=int)
    assert "allows other fields" in str(kinds_changed(monkeypatch, Open(id=1), closed))

    colour = Enum("colour", ["BLUE"])
    assert "lacks the stored member" in str(kinds_changed(monkeypatch, Colour.RED, colour))


def test_a_model_that_changed_its_private_attributes_is_refused() -> None:
    """A model whose private attributes are others now is refused like one with other fields."""
    text = encode(Open(id=1))

    with pytest.raises(ValueError, match="has other private attributes"):
        decode(text.replace('"_secret"', '"_other"'))


def test_a_flag_that_is_none_any_more_is_refused() -> None:
    """A combination that the class does not allow is refused like a member that is gone."""
    with pytest.raises(ValueError, match="lacks the stored member"):
        decode('{"$":"enum","c":"tests.support.result_kinds:Right","v":64}')
