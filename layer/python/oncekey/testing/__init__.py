"""A store in memory and a manual clock, for the library's tests and for yours."""

from typing import TYPE_CHECKING

from oncekey import lazy

if TYPE_CHECKING:
    from oncekey.testing.memory import (
        ManualClock,
        MemoryStore,
    )
    from oncekey.testing.replacement import (
        use_store,
    )

__all__ = [
    "ManualClock",
    "MemoryStore",
    "use_store",
]

__getattr__, __dir__ = lazy.names(
    __name__,
    {
        "oncekey.testing.memory": (
            "ManualClock",
            "MemoryStore",
        ),
        "oncekey.testing.replacement": ("use_store",),
    },
)
