"""The store, the clock and the queue that a test has put in the place of all others.

`oncekey.testing.use_store` and `let_time_pass` set them. Whatever needs one asks here first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.clock import SystemClock

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.store.store import Store

# Outside of tests they are always None.
store: Store | None = None
clock: Clock | None = None
# The queue that delivers a worker's messages.
queue: Any = None


def clock_or(given: Clock | None) -> Clock:
    """The clock in use: the test's, else the `given` one, else the system's."""
    return clock or given or SystemClock()
