"""The headers that make a request repeatable: its key, and the time when it was first sent.

In draft-ietf-httpapi-idempotency-key-header-07, section 2.1, the key is a quoted structured-field
string (RFC 9651, section 3.3.3). Stripe and most clients send it without quotes. `"abc"` and `abc`
are the same key. Repeatability-First-Sent:
https://docs.oasis-open.org/odata/repeatable-requests/v1.0/repeatable-requests-v1.0.html
"""

from __future__ import annotations

import re

from oncekey.errors import RequestRefused
from oncekey.http import wire
from oncekey.http.http_date import read_http_date
from oncekey.settings import MAX_KEY_LENGTH

# As `HttpRequest.header_lines` takes them.
HEADER = wire.KEY.lower()
FIRST_SENT = wire.FIRST_SENT.lower()
DEFAULT_MIN_KEY_LENGTH = 16

# Visible ASCII. A key without quotes has no quote, comma or semicolon, because these begin a
# string, a list or parameters.
_BARE = r"[!#-+\--:<-~]+"
# A whole structured-field string: printable ASCII, including spaces. A backslash escapes only a
# quote or a backslash.
_QUOTED = r'"((?:[ !#-\[\]-~]|\\["\\])*)"'
_ESCAPE = r"\\(.)"


def idempotency_key(lines: list[str], min_length: int = DEFAULT_MIN_KEY_LENGTH) -> str:
    """The key in the header's `lines`. Identical lines count once.

    Raises:
        RequestRefused: there is no header (`key-missing`). Or it is not one key of `min_length` to
            255 characters (`key-invalid`): printable ASCII in quotes, or visible ASCII without.
    """
    if not lines:
        raise RequestRefused(
            "key-missing",
            "This operation needs an Idempotency-Key header: a value that the client draws at"
            " random for each new operation, such as a UUID, and sends again with every retry.",
        )
    sent = lines[0].strip(" \t")
    if len(lines) > 1 and any(line.strip(" \t") != sent for line in lines):
        raise _invalid(
            "The Idempotency-Key header was sent more than once, with different values:"
            " send one key."
        )
    key = _unquoted(sent)
    least = max(1, min_length)
    if not least <= len(key) <= MAX_KEY_LENGTH:
        raise _invalid(
            f"The Idempotency-Key has {len(key)} characters:"
            f" {least} to {MAX_KEY_LENGTH} are allowed. A random UUID is a good key."
        )
    return key


def _unquoted(value: str) -> str:
    # A fast path: most keys are UUIDs.
    if value.isascii() and value.replace("-", "").isalnum():
        return value
    if not value.startswith('"'):
        if value and not re.fullmatch(_BARE, value):
            raise _invalid(
                "The Idempotency-Key may contain visible ASCII characters only, and without quotes"
                " no comma, semicolon or quote: send one key, without parameters."
            )
        return value
    quoted = re.fullmatch(_QUOTED, value)
    if quoted is None:
        raise _invalid(
            "The Idempotency-Key is not one quoted string of printable ASCII characters:"
            " send one key, without parameters."
        )
    key = re.sub(_ESCAPE, r"\1", quoted[1])
    if key and not key.strip(" "):
        raise _invalid("The Idempotency-Key is blank: send a random value, such as a UUID.")
    return key


def _invalid(detail: str) -> RequestRefused:
    return RequestRefused("key-invalid", detail)


def first_sent_ms(lines: list[str]) -> int | None:
    """When the request was first sent, in epoch milliseconds; None without the header.

    Raises:
        RequestRefused: the header is not one IMF-fixdate (`request-invalid`).
    """
    if not lines:
        return None
    distinct = {line.strip() for line in lines}
    at_s = read_http_date(distinct.pop())
    if distinct or at_s is None:
        raise RequestRefused(
            "request-invalid",
            "Repeatability-First-Sent is not a date such as 'Fri, 27 Nov 2026 10:00:00 GMT'.",
        )
    return at_s * 1000
