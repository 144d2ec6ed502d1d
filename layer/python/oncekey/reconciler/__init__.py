"""The reconciler: a Lambda function on a schedule that settles what nobody else has settled."""

from typing import TYPE_CHECKING

from oncekey import lazy

if TYPE_CHECKING:
    from oncekey.reconciler.reconciler import (
        Reconciler,
    )
    from oncekey.reconciler.report import (
        Report,
    )
    from oncekey.reconciler.settings import (
        ReconcilerSettings,
    )

__all__ = [
    "Reconciler",
    "ReconcilerSettings",
    "Report",
]

__getattr__, __dir__ = lazy.names(
    __name__,
    {
        "oncekey.reconciler.reconciler": ("Reconciler",),
        "oncekey.reconciler.report": ("Report",),
        "oncekey.reconciler.settings": ("ReconcilerSettings",),
    },
)
