"""What the layer adds to an operation, in the words of OpenAPI 3.1, for a service's own document.

Its sources are the options of the protected handlers and the refusals that are really sent.
"""

from typing import TYPE_CHECKING

from oncekey import lazy

if TYPE_CHECKING:
    from oncekey.openapi.describing import (
        describe,
    )

__all__ = ["describe"]

__getattr__, __dir__ = lazy.names(__name__, {"oncekey.openapi.describing": ("describe",)})
