"""HTTP dates: IMF-fixdate (RFC 9110, section 5.6.7), with English names in every locale."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_IMF_FIXDATE = (
    f"(?:{'|'.join(_DAYS)}), "
    rf"(\d\d) ({'|'.join(_MONTHS)}) ([1-9]\d{{3}}) (\d\d):(\d\d):(\d\d) GMT"
)


@lru_cache(8)
def http_date(at_s: int) -> str:
    """The header form of an instant in epoch seconds."""
    at = datetime.fromtimestamp(at_s, UTC)
    day, month = _DAYS[at.weekday()], _MONTHS[at.month - 1]
    time = f"{at.hour:02}:{at.minute:02}:{at.second:02}"
    return f"{day}, {at.day:02} {month} {at.year:04} {time} GMT"


def read_http_date(text: str) -> int | None:
    """The instant in epoch seconds; None if `text` is not such a date."""
    found = re.fullmatch(_IMF_FIXDATE, text, re.ASCII)
    if found is None:
        return None
    day, month, year, *time = found.groups()
    hour, minute, second = map(int, time)
    try:
        at = datetime(
            int(year), _MONTHS.index(month) + 1, int(day), hour, minute, second, tzinfo=UTC
        )
    except ValueError:
        return None
    return int(at.timestamp())
