"""The only source of time, randomness and ids in the library.

A simulation replaces this object, and so controls everything that the caller does not.
"""

from __future__ import annotations

import random
import secrets
import time
import uuid
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


# Seconds since some moment, which no correction of the wall clock changes: for timeouts of I/O.
elapsed_s: Callable[[], float] = time.monotonic


class Clock(Protocol):
    """Time, randomness and ids."""

    def now_ms(self) -> int:
        """The wall clock in milliseconds since the epoch; leases and expiry are compared to it."""
        ...

    def pause(self, duration_ms: int) -> None:
        """Return after about `duration_ms` milliseconds."""
        ...

    def random_fraction(self) -> float:
        """A number in [0, 1), for jitter only."""
        ...

    def new_owner(self) -> str:
        """A random token for one attempt: 128 bits, never derived from the request."""
        ...

    def new_operation_id(self) -> str:
        """A random UUID for one life of a record."""
        ...


class SystemClock:
    """The real clock and the operating system's randomness, which a snapshot does not repeat."""

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return time.time_ns() // 1_000_000

    def pause(self, duration_ms: int) -> None:
        """See `Clock.pause`."""
        time.sleep(duration_ms / 1000)

    def random_fraction(self) -> float:
        """See `Clock.random_fraction`."""
        return random.random()  # noqa: S311 -- jitter needs no secrecy

    def new_owner(self) -> str:
        """See `Clock.new_owner`."""
        return secrets.token_urlsafe(16)

    def new_operation_id(self) -> str:
        """See `Clock.new_operation_id`."""
        return str(uuid.uuid4())
