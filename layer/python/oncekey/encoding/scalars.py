"""Simple results as JSON and back: numbers, texts, bytes, times, ids.

JSON can hold most numbers and texts unchanged. All other values are tagged objects:
`{"$": kind, "v": ...}`.
"""

from __future__ import annotations

import base64
import math
import re
import sys
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

from oncekey.encoding.refusals import Unstorable
from oncekey.problem import NotNowBody

if TYPE_CHECKING:
    from collections.abc import Callable

TAG = "$"

# Python can be configured to read at most 640 decimal digits. Hexadecimal has no such limit.
_LARGEST_PLAIN_INTEGER = 10**300
# JSON escapes this pair and the single character beyond U+FFFF in the same way.
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def node(kind: str, value: Any, **more: Any) -> dict[str, Any]:
    """A tagged object, without those members of `more` that are None or 0."""
    return {TAG: kind, "v": value} | {name: item for name, item in more.items() if item}


def is_plain_text(text: str) -> bool:
    """Whether `text` is the same after writing and reading JSON."""
    return text.isascii() or _SURROGATE_PAIR.search(text) is None


def _write_integer(value: int) -> Any:
    return value if abs(value) < _LARGEST_PLAIN_INTEGER else node("int", hex(value))


def _write_float(value: float) -> Any:
    if math.isnan(value):
        return node("float", "-nan" if math.copysign(1, value) < 0 else "nan")
    return value if math.isfinite(value) else node("float", str(value))


def _write_text(value: str) -> Any:
    if is_plain_text(value):
        return value
    return node("str", _base64(value.encode("utf-8", "surrogatepass")))


def _base64(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode("ascii")


def _write_datetime(value: datetime) -> Any:
    return _write_time_of_day("datetime", value)


def _write_time(value: time) -> Any:
    return _write_time_of_day("time", value)


def _write_time_of_day(kind: str, value: datetime | time) -> Any:
    zone = value.tzinfo
    if zone is None:
        return node(kind, value.isoformat(), fold=value.fold)
    if type(zone) is ZoneInfo:
        return node(
            kind,
            value.replace(tzinfo=None).isoformat(),
            fold=value.fold,
            zone=_zone_key(zone, value),
        )
    if type(zone) is timezone:
        name = zone.tzname(None)
        unnamed = timezone(zone.utcoffset(None)).tzname(None)
        # The list distinguishes an empty name from no name.
        named = [name] if name != unnamed else None
        return node(kind, value.isoformat(), fold=value.fold, named=named)
    if type(zone) is _pydantic_zone():
        return node(kind, value.isoformat(), fold=value.fold, pydantic=True)
    raise Unstorable(
        f"a {kind} in a zone of the type {type(zone).__module__}.{type(zone).__qualname__}",
        "use datetime.timezone or zoneinfo.ZoneInfo",
    )


def _zone_key(zone: ZoneInfo, value: datetime | time) -> str:
    # A zone read from a file has no name, or the name of another zone.
    try:
        is_found = bool(zone.key) and _offset(value.replace(tzinfo=ZoneInfo(zone.key))) == _offset(
            value
        )
    except (KeyError, ValueError, OSError):
        is_found = False
    if not is_found:
        raise Unstorable("a time in a zone read from a file", "use ZoneInfo(key)")
    return zone.key


def _offset(value: datetime | time) -> tuple[timedelta | None, str | None]:
    return value.utcoffset(), value.tzname()


def _pydantic_zone() -> Any:
    # The zone type of every time that pydantic parsed from text. None without pydantic.
    return getattr(sys.modules.get("pydantic_core"), "TzInfo", None)


def _read_time_of_day(value: Any, tree: dict[str, Any]) -> Any:
    value = value.replace(fold=tree.get("fold", 0))
    if "zone" in tree:
        return value.replace(tzinfo=ZoneInfo(tree["zone"]))
    if "named" in tree:
        return value.replace(tzinfo=timezone(value.utcoffset(), *tree["named"]))
    if "pydantic" in tree:
        offset_s = int(value.utcoffset().total_seconds())
        zone = _pydantic_zone()
        # Without pydantic, a standard zone of the same offset, because reading imports nothing.
        made: Any = timezone(value.utcoffset()) if zone is None else zone(offset_s)
        return value.replace(tzinfo=made)
    return value


WRITERS: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    int: _write_integer,
    float: _write_float,
    str: _write_text,
    # A refusal of ours is stored as plain text.
    NotNowBody: lambda value: _write_text(str.__str__(value)),
    bytes: lambda value: node("bytes", _base64(value)),
    bytearray: lambda value: node("bytearray", _base64(value)),
    Decimal: lambda value: node("decimal", str(value)),
    datetime: _write_datetime,
    date: lambda value: node("date", value.isoformat()),
    time: _write_time,
    timedelta: lambda value: node("timedelta", [value.days, value.seconds, value.microseconds]),
    UUID: lambda value: node("uuid", str(value)),
}

READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "int": lambda tree: int(tree["v"], 16),
    "float": lambda tree: float(tree["v"]),
    "str": lambda tree: base64.b64decode(tree["v"], validate=True).decode("utf-8", "surrogatepass"),
    "bytes": lambda tree: base64.b64decode(tree["v"], validate=True),
    "bytearray": lambda tree: bytearray(base64.b64decode(tree["v"], validate=True)),
    "decimal": lambda tree: Decimal(tree["v"]),
    "datetime": lambda tree: _read_time_of_day(datetime.fromisoformat(tree["v"]), tree),
    "date": lambda tree: date.fromisoformat(tree["v"]),
    "time": lambda tree: _read_time_of_day(time.fromisoformat(tree["v"]), tree),
    "timedelta": lambda tree: timedelta(*tree["v"]),
    "uuid": lambda tree: UUID(tree["v"]),
}
