"""The Idempotency-Key header: both spellings of the key, one key.

draft-ietf-httpapi-idempotency-key-header-07, section 2.1, makes it a quoted structured-field string
(RFC 9651, section 3.3.3); Stripe and most clients send it bare. `"abc"` and `abc` are the same key.
"""

from __future__ import annotations

import re

from oncekey.errors import RequestRefused
from oncekey.settings import MAX_KEY_LENGTH

HEADER = "idempotency-key"
DEFAULT_MIN_KEY_LENGTH = 16

# Visible ASCII. A bare key has no quote, comma or semicolon: those would begin a string, a list or
# parameters.
_BARE = re.compile(r"[!#-+\--:<-~]+")
# A structured-field string, whole: printable ASCII with the space; a backslash escapes only a quote
# or a backslash.
_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_ESCAPE = re.compile(r"\\(.)")


def idempotency_key(lines: list[str], min_length: int = DEFAULT_MIN_KEY_LENGTH) -> str:
    """The key in the header's `lines`; one line repeated unchanged counts once.

    Raises:
        RequestRefused: no header (`key-missing`), or no single key of `min_length` to 255
            characters in it (`key-invalid`): printable ASCII in quotes, visible ASCII without.
    """
    distinct = {line.strip(" \t") for line in lines}
    if not distinct:
        raise RequestRefused(
            "key-missing",
            "This operation needs an Idempotency-Key header: a value that the client draws at"
            " random for each new operation, such as a UUID, and sends again with every retry.",
        )
    if len(distinct) > 1:
        raise _invalid(
            "The Idempotency-Key header was sent more than once, with different values:"
            " send one key."
        )
    key = _unquoted(distinct.pop())
    if not max(1, min_length) <= len(key) <= MAX_KEY_LENGTH:
        raise _invalid(
            f"The Idempotency-Key has {len(key)} characters:"
            f" {max(1, min_length)} to {MAX_KEY_LENGTH} are allowed. A random UUID is a good key."
        )
    return key


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        if value and not _BARE.fullmatch(value):
            raise _invalid(
                "The Idempotency-Key may contain visible ASCII characters only, and without quotes"
                " no comma, semicolon or quote: send one key, without parameters."
            )
        return value
    quoted = _QUOTED.fullmatch(value)
    if quoted is None:
        raise _invalid(
            "The Idempotency-Key is not one quoted string of printable ASCII characters:"
            " send one key, without parameters."
        )
    key = _ESCAPE.sub(r"\1", quoted[1])
    if key and not key.strip(" "):
        raise _invalid("The Idempotency-Key is blank: send a random value, such as a UUID.")
    return key


def _invalid(detail: str) -> RequestRefused:
    return RequestRefused("key-invalid", detail)
