"""Ids and times as the gateway and Lambda give them."""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime


def new_id() -> str:
    """A random UUID."""
    return str(uuid.UUID(bytes=os.urandom(16), version=4))


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return int(datetime.now(tz=UTC).timestamp() * 1000)


def new_trace_root() -> str:
    """The root of an X-Ray trace, as in the header `X-Amzn-Trace-Id`."""
    return f"Root=1-{now_ms() // 1000:08x}-{os.urandom(12).hex()}"
