"""The only source of time, randomness and ids in the library.

A simulation replaces this object, and so controls everything that the caller does not.
"""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, Protocol

from oncekey.base64url import base64url

if TYPE_CHECKING:
    from collections.abc import Callable


# Monotonic seconds for timeouts of I/O. A correction of the wall clock does not change them. A
# simulation never waits for I/O, so this is no method of `Clock`.
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


_VARIANT = "89ab"
# A float holds so many bits exactly.
_DRAWN_BITS = 53


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
        # Without the module `random`, whose state a snapshot would repeat.
        return (int.from_bytes(os.urandom(7)) >> 3) / (1 << _DRAWN_BITS)

    def new_owner(self) -> str:
        """See `Clock.new_owner`."""
        # Without the module `secrets`, whose import takes longer than a call.
        return base64url(os.urandom(16))

    def new_operation_id(self) -> str:
        """See `Clock.new_operation_id`."""
        # Without the module `uuid`, for the same reason.
        raw = os.urandom(16)
        digits = raw.hex()
        # Of version 4, and of the variant of RFC 9562, section 4.1.
        last = f"{_VARIANT[raw[8] & 3]}{digits[17:20]}-{digits[20:]}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{last}"


def is_beyond_the_calendar(error: BaseException) -> bool:
    """Whether `error` is how `datetime` and `time` refuse a year that the system cannot count.

    Of seconds since the epoch, these are about 1e17 to 9e18, as nanoseconds taken for seconds are.
    Nearer ones are a `ValueError`, and larger ones an `OverflowError`.
    """
    return isinstance(error, OSError) and error.errno == errno.EOVERFLOW
