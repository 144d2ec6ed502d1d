"""A client's side of the contract: transports that retry with one key, for httpx and requests.

    httpx.Client(transport=IdempotentTransport())
    session.mount("https://", IdempotentAdapter())

Install `oncekey[httpx]` or `oncekey[requests]`. No handler loads this package.
"""

from typing import TYPE_CHECKING

from oncekey import lazy

if TYPE_CHECKING:
    from oncekey.client.key_file import (
        KeyFile,
    )
    from oncekey.client.requests_adapter import (
        IdempotentAdapter,
    )
    from oncekey.client.retrying import (
        BodyNotReplayable,
        Retrying,
    )
    from oncekey.client.transport import (
        IdempotentTransport,
    )

__all__ = [
    "BodyNotReplayable",
    "IdempotentAdapter",
    "IdempotentTransport",
    "KeyFile",
    "Retrying",
]

__getattr__, __dir__ = lazy.names(
    __name__,
    {
        "oncekey.client.key_file": ("KeyFile",),
        "oncekey.client.requests_adapter": ("IdempotentAdapter",),
        "oncekey.client.retrying": ("BodyNotReplayable", "Retrying"),
        "oncekey.client.transport": ("IdempotentTransport",),
    },
)
