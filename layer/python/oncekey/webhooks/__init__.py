"""Webhooks: the signature is checked first, and then each event is accepted once."""

from typing import TYPE_CHECKING

from oncekey import lazy

if TYPE_CHECKING:
    from oncekey.webhooks.decorator import (
        webhook,
    )
    from oncekey.webhooks.delivery import (
        Delivery,
        Publish,
    )
    from oncekey.webhooks.schemes import (
        GitHubSignature,
        ShopifySignature,
        StandardWebhooks,
        StripeSignature,
    )

__all__ = [
    "Delivery",
    "GitHubSignature",
    "Publish",
    "ShopifySignature",
    "StandardWebhooks",
    "StripeSignature",
    "webhook",
]

__getattr__, __dir__ = lazy.names(
    __name__,
    {
        "oncekey.webhooks.decorator": ("webhook",),
        "oncekey.webhooks.delivery": (
            "Delivery",
            "Publish",
        ),
        "oncekey.webhooks.schemes": (
            "GitHubSignature",
            "ShopifySignature",
            "StandardWebhooks",
            "StripeSignature",
        ),
    },
)
