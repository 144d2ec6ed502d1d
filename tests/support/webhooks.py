"""Webhooks as their senders sign them, by the senders' own descriptions, in all event shapes."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oncekey.webhooks.schemes import (
    GitHubSignature,
    ShopifySignature,
    StandardWebhooks,
    StripeSignature,
)
from tests.support import events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from oncekey.webhooks.signatures import Scheme
    from tests.support.events import Event

NOW_MS = 1_764_324_000_123
NOW_S = NOW_MS // 1000
SHAPES = [
    "apigw_http_v2_post",
    "apigw_rest_v1_post",
    "alb_post",
    "alb_multi_value_post",
    "function_url_post",
]


@dataclass(frozen=True)
class Sender:
    """A provider: the scheme that judges it, and how it signs.

    `headers` makes the headers of one event from its secret, body, id and time. `secret` and
    `other_secret` have the form that it gives secrets in; `signed_by` names the header that holds
    the signature, and `named_by` the one that holds the event's id, if any does.
    """

    scheme: Scheme
    secret: bytes = field(repr=False)
    other_secret: bytes = field(repr=False)
    headers: Callable[[bytes, bytes, str, int], dict[str, str]]
    signed_by: str
    named_by: str | None


def stripe_headers(secret: bytes, body: bytes, identifier: str, at_s: int) -> dict[str, str]:
    """`t.body`, keyed by the secret's text; the id stands in the body."""
    del identifier
    digest = _hmac(secret, f"{at_s}.".encode() + body).hex()
    return {"Stripe-Signature": f"t={at_s},v1={digest}"}


def github_headers(secret: bytes, body: bytes, identifier: str, at_s: int) -> dict[str, str]:
    """The body alone."""
    del at_s
    digest = _hmac(secret, body).hex()
    return {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Delivery": identifier}


def shopify_headers(secret: bytes, body: bytes, identifier: str, at_s: int) -> dict[str, str]:
    """The body alone, in base64."""
    del at_s
    digest = base64.b64encode(_hmac(secret, body)).decode("ascii")
    return {"X-Shopify-Hmac-Sha256": digest, "X-Shopify-Webhook-Id": identifier}


def standard_headers(secret: bytes, body: bytes, identifier: str, at_s: int) -> dict[str, str]:
    """`id.time.body`, keyed by what the secret's base64 stands for."""
    key = base64.b64decode(secret.removeprefix(b"whsec_"))
    digest = base64.b64encode(_hmac(key, f"{identifier}.{at_s}.".encode() + body)).decode("ascii")
    return {
        "webhook-id": identifier,
        "webhook-timestamp": str(at_s),
        "webhook-signature": f"v1,{digest}",
    }


SENDERS = {
    "stripe": Sender(
        scheme=StripeSignature(),
        secret=b"whsec_stripe_0123456789abcdef",
        other_secret=b"whsec_stripe_fedcba9876543210",
        headers=stripe_headers,
        signed_by="Stripe-Signature",
        named_by=None,
    ),
    "github": Sender(
        scheme=GitHubSignature(),
        secret=b"It's a Secret to Everybody",
        other_secret=b"It's a Secret to Nobody else",
        headers=github_headers,
        signed_by="X-Hub-Signature-256",
        named_by="X-GitHub-Delivery",
    ),
    "shopify": Sender(
        scheme=ShopifySignature(),
        secret=b"shpss_0123456789abcdef0123456789abcdef",
        other_secret=b"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",
        headers=shopify_headers,
        signed_by="X-Shopify-Hmac-Sha256",
        named_by="X-Shopify-Webhook-Id",
    ),
    "standard": Sender(
        scheme=StandardWebhooks(),
        secret=b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        other_secret=b"whsec_" + base64.b64encode(bytes(range(32))),
        headers=standard_headers,
        signed_by="webhook-signature",
        named_by="webhook-id",
    ),
}


def event_with(
    headers: Mapping[str, str | list[str]], body: str | bytes, shape: str = "apigw_http_v2_post"
) -> Event:
    """An event of `shape` with these headers (a list is several lines), and this body.

    Text is the body as it is, bytes are sent in base64.
    """
    event = events.with_key(events.with_body(events.load(shape), body))
    for name, value in headers.items():
        event = events.with_header(event, name, *([value] if isinstance(value, str) else value))
    return event


def _hmac(key: bytes, content: bytes) -> bytes:
    return hmac.new(key, content, hashlib.sha256).digest()
