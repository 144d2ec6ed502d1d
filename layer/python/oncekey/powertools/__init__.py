"""Powertools for AWS Lambda: middleware for its event handlers, and help with its utilities."""

from typing import TYPE_CHECKING

from oncekey import lazy

if TYPE_CHECKING:
    from oncekey.powertools.context_keys import (
        operation_keys,
    )
    from oncekey.powertools.metrics import (
        share_metrics,
    )
    from oncekey.powertools.middleware import (
        idempotent_route,
    )
    from oncekey.powertools.migration import (
        handed_over,
        powertools_key,
        powertools_payload,
    )

__all__ = [
    "handed_over",
    "idempotent_route",
    "operation_keys",
    "powertools_key",
    "powertools_payload",
    "share_metrics",
]

__getattr__, __dir__ = lazy.names(
    __name__,
    {
        "oncekey.powertools.context_keys": ("operation_keys",),
        "oncekey.powertools.metrics": ("share_metrics",),
        "oncekey.powertools.middleware": ("idempotent_route",),
        "oncekey.powertools.migration": ("handed_over", "powertools_key", "powertools_payload"),
    },
)
