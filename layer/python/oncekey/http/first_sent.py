"""When a request was first sent: the `Repeatability-First-Sent` header.

https://docs.oasis-open.org/odata/repeatable-requests/v1.0/repeatable-requests-v1.0.html
"""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime

from oncekey.errors import RequestRefused

HEADER = "repeatability-first-sent"

# IMF-fixdate (RFC 9110, section 5.6.7); the parser alone takes a lot more.
_IMF_FIXDATE = re.compile(
    r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
    r" [1-9]\d{3} \d\d:\d\d:\d\d GMT",
    re.ASCII,
)


def first_sent_ms(lines: list[str]) -> int | None:
    """When the request was first sent, in epoch milliseconds, or None if it does not say.

    Raises:
        RequestRefused: the header is no single IMF-fixdate (`request-invalid`).
    """
    distinct = {line.strip() for line in lines}
    if not distinct:
        return None
    text = distinct.pop()
    if distinct or not _IMF_FIXDATE.fullmatch(text):
        raise _invalid()
    try:
        return int(parsedate_to_datetime(text).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise _invalid() from error


def _invalid() -> RequestRefused:
    return RequestRefused(
        "request-invalid",
        "Repeatability-First-Sent is not a date such as 'Fri, 27 Nov 2026 10:00:00 GMT'.",
    )
