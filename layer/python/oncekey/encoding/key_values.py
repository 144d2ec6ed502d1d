"""Python values as JSON values, for keys and fingerprints. Different values stay different.

A JSON value is unchanged. Any other value becomes an object with one member, whose name begins with
`$` and states the type. A caller's own object that looks like this is wrapped as `$dict`. So a UUID
and its text differ, `Decimal("1")`, 1 and True differ, and a text never equals a list.

These are equal on purpose: 1 and 1.0, as in JSON; a list and a tuple, named or not; a member of a
`StrEnum` or `IntEnum` and its text or number; any two mappings with the same members; equal
Decimals (1.0 and 1.00); one instant in different time zones. A class is compared by its name
without its module, so that it can be moved.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import enum
import json
import uuid
from collections.abc import Mapping
from typing import Any

from oncekey.encoding.canonical import MAX_DEPTH, NotCanonical, canonical_value

_LONGEST_SHOWN_NAME = 40


class NotAKeyValue(ValueError):  # noqa: N818 -- a property of the value
    """A part of a value has a type that keys and fingerprints do not support.

    The text names the part's path and its type, never its value.
    """


class UnfitValue(NotAKeyValue):
    """The part has a supported type, and no form: the caller's data, not the code, is the cause."""


def json_value(value: Any) -> Any:
    """`value` as a JSON value. Two results are equal only if their values are.

    Raises:
        UnfitValue: a part is NaN or infinite, is not valid Unicode, or is nested deeper than
            `MAX_DEPTH`.
        NotAKeyValue: a part has an unsupported type.
    """
    return _converted(value, "", 0)


def is_json(value: Any) -> bool:
    """Whether `value` is already a JSON value."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and is_json(item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_json, value))
    return value is None or isinstance(value, str | int | float)


def searchable(value: Any) -> Any:
    """`value` for JMESPath: dataclasses, models and mappings become dicts, tuples become lists.

    Other values are unchanged. An object that occurs twice is converted once, and a cycle stays a
    cycle.
    """
    return _searchable(value, {})


def _searchable(value: Any, made: dict[int, Any]) -> Any:
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    if id(value) in made:
        return made[id(value)]
    if isinstance(value, list | tuple):
        items: list[Any] = []
        made[id(value)] = items
        items.extend(_searchable(item, made) for item in value)
        return items
    fields = value if isinstance(value, Mapping) else fields_of(value)
    if fields is None:
        return value
    members: dict[Any, Any] = {}
    made[id(value)] = members
    members.update((name, _searchable(item, made)) for name, item in fields.items())
    return members


def fields_of(value: Any) -> dict[str, Any] | None:
    """The compared fields of a dataclass or a pydantic model; None for any other value."""
    kind = type(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.compare]
        return {name: getattr(value, name) for name in names}
    names_of_model = getattr(kind, "model_fields", None)
    if isinstance(names_of_model, dict) and hasattr(kind, "model_validate_json"):
        extra = getattr(value, "model_extra", None) or {}
        return {**{name: getattr(value, name) for name in names_of_model}, **extra}
    return None


def _converted(value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise UnfitValue(f"{path or 'it'} is nested deeper than {MAX_DEPTH}")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise UnfitValue(f"{path or 'it'} is a float without a value: NaN or infinite")
        return float(value)
    if isinstance(value, list | tuple):
        return [_converted(item, f"{path}[{n}]", depth + 1) for n, item in enumerate(value)]
    if isinstance(value, Mapping):
        return _mapping(value, path, depth)
    scalar = _scalar(value, path)
    if scalar is not None:
        return scalar
    if isinstance(value, set | frozenset):
        return {"$set": sorted((_converted(item, path, depth + 1) for item in value), key=spelled)}
    fields = fields_of(value)
    if fields is not None:
        return {"$object": [type(value).__qualname__, _mapping(fields, path, depth)]}
    raise _refused(value, path)


def _scalar(value: Any, path: str) -> dict[str, Any] | None:
    match value:
        case uuid.UUID():
            return {"$uuid": str(value)}
        case decimal.Decimal():
            return {"$decimal": _decimal(value, path)}
        case dt.datetime():
            return {"$datetime": _instant(value, path)}
        case dt.date():
            return {"$date": value.isoformat()}
        case dt.time():
            return {"$time": _time(value, path)}
        case dt.timedelta():
            return {"$timedelta": [value.days, value.seconds, value.microseconds]}
        case bytes() | bytearray():
            return {"$bytes": base64.b64encode(value).decode("ascii")}
        case enum.Flag():
            return {"$enum": [type(value).__qualname__, value.value]}
        case enum.Enum():
            return {"$enum": [type(value).__qualname__, value.name]}
        case _:
            return None


def _mapping(value: Mapping[Any, Any], path: str, depth: int) -> dict[str, Any]:
    if not all(isinstance(name, str) for name in value):
        # JSON's names are always text, so 1 and "1" would become equal.
        pairs = [
            [_converted(name, f"{path}[a key]", depth + 1), _member(name, item, path, depth)]
            for name, item in value.items()
        ]
        return {"$mapping": sorted(pairs, key=spelled)}
    made = {_text(name, path): _member(name, item, path, depth) for name, item in value.items()}
    is_like_ours = len(made) == 1 and next(iter(made)).startswith("$")
    return {"$dict": made} if is_like_ours else made


def _member(name: Any, item: Any, path: str, depth: int) -> Any:
    is_shown = isinstance(name, str) and name.isidentifier() and len(name) <= _LONGEST_SHOWN_NAME
    # Any other key may be private data and is not shown.
    shown = f"{path}.{name}".removeprefix(".") if is_shown else f"{path}[{type(name).__name__}]"
    return _converted(item, shown, depth + 1)


def _text(value: str, path: str) -> str:
    # A subclass, such as an enum's member, may have another `__str__`.
    text = str.__str__(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UnfitValue(f"{path or 'it'} is not valid Unicode text") from None
    return text


def _decimal(value: decimal.Decimal, path: str) -> str:
    if not value.is_finite():
        raise UnfitValue(f"{path or 'it'} is a Decimal without a value: NaN or infinite")
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    # `normalize` would round to the context's precision.
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    if not kept:
        return "0"
    exponent += len(text) - len(kept)
    return f"{'-' if sign else ''}{kept}{f'e{exponent}' if exponent else ''}"


def _instant(value: dt.datetime, path: str) -> str:
    if value.utcoffset() is None:
        return value.isoformat()
    try:
        return value.astimezone(dt.UTC).isoformat()
    except OverflowError:
        raise UnfitValue(f"{path or 'it'} is a datetime beyond the years of UTC") from None


def _time(value: dt.time, path: str) -> str | list[str]:
    text = value.isoformat()
    if value.tzinfo is None or value.utcoffset() is not None:
        return text
    # The offset depends on the day, so the text is that of every zone.
    zone: object = getattr(value.tzinfo, "key", None)
    if not isinstance(zone, str):
        raise NotAKeyValue(f"{path or 'it'} is a time in a zone without an offset or a name")
    return [text, zone]


def _refused(value: object, path: str) -> NotAKeyValue:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return NotAKeyValue(f"{path or 'it'} is of the type {module}{kind.__qualname__}")


def spelled(value: Any) -> str:
    """The one text of a JSON value.

    Raises:
        ValueError: a number in it is too long.
    """
    try:
        return canonical_value(value).decode("utf-8")
    except NotCanonical:
        # Integers beyond 2^53-1 and the like. Python writes them exactly.
        return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))
