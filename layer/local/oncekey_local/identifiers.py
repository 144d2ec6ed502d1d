"""Ids and times as the gateway, Lambda and the provider make them.

This is the local runtime's only source of random values, like `oncekey.clock` for the library. The
two are separate, because a test may replace the library's clock. Elsewhere, `uuid.uuid4` and
`secrets.token_hex` are banned.
"""

from __future__ import annotations

import os
import secrets
import string
import uuid
from datetime import UTC, datetime

_LETTERS_AND_DIGITS = string.ascii_letters + string.digits


def new_id() -> str:
    """A random UUID."""
    return str(uuid.UUID(bytes=os.urandom(16), version=4))


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return int(datetime.now(tz=UTC).timestamp() * 1000)


def new_trace_root() -> str:
    """The root of an X-Ray trace, as in the header `X-Amzn-Trace-Id`."""
    return f"Root=1-{now_ms() // 1000:08x}-{os.urandom(12).hex()}"


def new_segment_id() -> str:
    """The id of a segment of an X-Ray trace."""
    return os.urandom(8).hex()


def new_letters(length: int) -> str:
    """A text of `length` random letters and digits."""
    return "".join(secrets.choice(_LETTERS_AND_DIGITS) for _ in range(length))
