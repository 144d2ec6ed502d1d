"""Middleware for FastAPI, Starlette and other ASGI apps, behind Mangum or Lambda Web Adapter."""

from typing import TYPE_CHECKING

from oncekey import lazy

if TYPE_CHECKING:
    from oncekey.asgi.middleware import (
        IdempotencyMiddleware,
    )

__all__ = [
    "IdempotencyMiddleware",
]

__getattr__, __dir__ = lazy.names(
    __name__,
    {
        "oncekey.asgi.middleware": ("IdempotencyMiddleware",),
    },
)
