"""Middleware for the event handlers of Powertools for AWS Lambda."""

from typing import TYPE_CHECKING

from oncekey import lazy

if TYPE_CHECKING:
    from oncekey.powertools.middleware import (
        idempotent_route,
    )

__all__ = [
    "idempotent_route",
]

__getattr__, __dir__ = lazy.names(
    __name__,
    {
        "oncekey.powertools.middleware": ("idempotent_route",),
    },
)
