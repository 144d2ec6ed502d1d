"""A store in memory and a manual clock, for the library's tests and for yours."""

from typing import TYPE_CHECKING

from oncekey import lazy

if TYPE_CHECKING:
    from oncekey.testing.checking.assert_idempotent import assert_idempotent
    from oncekey.testing.crash_points import CrashingStore, Killed
    from oncekey.testing.memory import (
        ManualClock,
        MemoryStore,
    )
    from oncekey.testing.replacement import (
        use_store,
    )

__all__ = [
    "CrashingStore",
    "Killed",
    "ManualClock",
    "MemoryStore",
    "assert_idempotent",
    "use_store",
]

__getattr__, __dir__ = lazy.names(
    __name__,
    {
        "oncekey.testing.checking.assert_idempotent": ("assert_idempotent",),
        "oncekey.testing.crash_points": ("CrashingStore", "Killed"),
        "oncekey.testing.memory": (
            "ManualClock",
            "MemoryStore",
        ),
        "oncekey.testing.replacement": ("use_store",),
    },
)
