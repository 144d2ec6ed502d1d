"""The four signature schemes: Stripe's, GitHub's, Shopify's and Standard Webhooks.

Each scheme reads the signed content and the digests; `oncekey.webhooks.signatures` checks them.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from oncekey.webhooks.signatures import (
    Stated,
    event_refused,
    header,
    read_json,
    signature_refused,
)

if TYPE_CHECKING:
    from oncekey.http.event import HttpRequest

_TOLERANCE = timedelta(minutes=5)
_LONGEST_TOLERANCE = timedelta(days=1)
# Visible ASCII without a comma, because gateways join repeated headers with commas.
_ID = re.compile(r"[!-+\--~]{1,255}")
_HEX_DIGEST = re.compile(r"[0-9a-f]{64}")
_BASE64_DIGEST = re.compile(r"[A-Za-z0-9+/]{43}=")
# Seconds until the year 33658.
_SECONDS = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, kw_only=True)
class _SignsTime:
    """The part common to schemes that sign the time: a tolerance."""

    tolerance: timedelta = _TOLERANCE

    @property
    def tolerance_ms(self) -> int:
        """See `Scheme.tolerance_ms`."""
        return self.tolerance // timedelta(milliseconds=1)

    def faults(self) -> list[str]:
        """See `Scheme.faults`."""
        given: object = self.tolerance
        if isinstance(given, timedelta) and timedelta() < given <= _LONGEST_TOLERANCE:
            return []
        return [f"tolerance is {given!r}: a timedelta is needed, more than 0 and at most a day"]


@dataclass(frozen=True, kw_only=True)
class _SignsBodyAlone:
    """The part common to schemes that sign the body only: no options, and a plain secret."""

    tolerance_ms = 0

    def faults(self) -> list[str]:
        """None."""
        return []

    def key(self, secret: bytes) -> bytes:
        """The secret, unchanged."""
        return secret


@dataclass(frozen=True, kw_only=True)
class StripeSignature(_SignsTime):
    """`Stripe-Signature: t=...,v1=...`. The event's id is the signed body's `id`.

    The secret is the endpoint's `whsec_...` as Stripe shows it. Stripe resends an event for three
    days. https://docs.stripe.com/webhooks/signature

    Args:
        tolerance: how far the signed timestamp may be from the time here, in both directions.
    """

    sends_again_for = timedelta(days=3)

    def key(self, secret: bytes) -> bytes:
        """The secret, unchanged. Its `whsec_` does not mean base64 here."""
        return secret

    def stated(self, request: HttpRequest, body: bytes) -> Stated:
        """See `Scheme.stated`. Signatures of other versions than `v1` are ignored."""
        fields = [part.partition("=") for part in header(request, "stripe-signature").split(",")]
        times = [value for name, _, value in fields if name.strip() == "t"]
        if len(times) != 1:
            raise signature_refused("The signature has a timestamp, once.")
        return Stated(
            content=times[0].encode("utf-8", "surrogatepass") + b"." + body,
            digests=tuple(
                bytes.fromhex(value)
                for name, _, value in fields
                if name.strip() == "v1" and _HEX_DIGEST.fullmatch(value)
            ),
            sent_at_s=_seconds(times[0]),
        )

    def event_id(self, request: HttpRequest, body: bytes) -> str:
        """The body's `id`."""
        del request
        event = read_json(body)
        return checked_id(event.get("id") if isinstance(event, dict) else None)


@dataclass(frozen=True, kw_only=True)
class GitHubSignature(_SignsBodyAlone):
    """`X-Hub-Signature-256: sha256=...`. The event's id is `X-GitHub-Delivery`, and is not signed.

    GitHub does not sign a time either. So an attacker who has one delivery can send it again with
    another id, until the secret changes. GitHub can redeliver an event for three days, with its id.
    https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    """

    sends_again_for = timedelta(days=3)

    def stated(self, request: HttpRequest, body: bytes) -> Stated:
        """See `Scheme.stated`."""
        name, _, digest = header(request, "x-hub-signature-256").partition("=")
        if name != "sha256" or not _HEX_DIGEST.fullmatch(digest):
            raise signature_refused("The signature is sha256= and 64 hexadecimal digits.")
        return Stated(content=body, digests=(bytes.fromhex(digest),))

    def event_id(self, request: HttpRequest, body: bytes) -> str:
        """The delivery's id."""
        del body
        return _id_in_header(request, "x-github-delivery")


@dataclass(frozen=True, kw_only=True)
class ShopifySignature(_SignsBodyAlone):
    """`X-Shopify-Hmac-Sha256`. The event's id is `X-Shopify-Webhook-Id`, and is not signed.

    The secret is the app's client secret. Shopify does not sign a time either. So an attacker who
    has one delivery can send it again with another id, until the secret changes. Shopify resends
    an event for four hours (earlier, for two days).
    https://shopify.dev/docs/apps/build/webhooks/subscribe/https
    """

    sends_again_for = timedelta(days=2)

    def stated(self, request: HttpRequest, body: bytes) -> Stated:
        """See `Scheme.stated`."""
        digest = header(request, "x-shopify-hmac-sha256")
        if not _BASE64_DIGEST.fullmatch(digest):
            raise signature_refused("The signature is 32 bytes in base64.")
        return Stated(content=body, digests=(base64.b64decode(digest),))

    def event_id(self, request: HttpRequest, body: bytes) -> str:
        """The webhook's id."""
        del body
        return _id_in_header(request, "x-shopify-webhook-id")


@dataclass(frozen=True, kw_only=True)
class StandardWebhooks(_SignsTime):
    """`webhook-id`, `webhook-timestamp` and `webhook-signature`. Id and time are signed, too.

    The secret is `whsec_` and base64. Only symmetric signatures (`v1`) are checked; others, such as
    `v1a`, are ignored. The specification's example resends an event for three days and four hours.
    https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

    Args:
        tolerance: how far the signed timestamp may be from the time here, in both directions.
    """

    sends_again_for = timedelta(hours=76)

    def key(self, secret: bytes) -> bytes:
        """The decoded base64 of the secret, with or without `whsec_`."""
        try:
            key = base64.b64decode(secret.removeprefix(b"whsec_"), validate=True)
        except ValueError:
            key = b""
        if not 24 <= len(key) <= 64:
            # Not chained, because its text could contain a part of the secret.
            raise ValueError("a secret is whsec_ and 24 to 64 bytes in base64") from None
        return key

    def stated(self, request: HttpRequest, body: bytes) -> Stated:
        """See `Scheme.stated`."""
        identifier, time = header(request, "webhook-id"), header(request, "webhook-timestamp")
        versions = [word.partition(",") for word in header(request, "webhook-signature").split(" ")]
        if "." in identifier:
            # A full stop separates id and time in the signed text, so the id must not contain one.
            raise signature_refused("The webhook-id has no full stop.")
        return Stated(
            content=f"{identifier}.{time}.".encode("utf-8", "surrogatepass") + body,
            digests=tuple(
                base64.b64decode(digest)
                for version, _, digest in versions
                if version == "v1" and _BASE64_DIGEST.fullmatch(digest)
            ),
            sent_at_s=_seconds(time),
        )

    def event_id(self, request: HttpRequest, body: bytes) -> str:
        """The signed id."""
        del body
        return _id_in_header(request, "webhook-id")


def _seconds(text: str) -> int:
    if not _SECONDS.fullmatch(text):
        raise signature_refused("The timestamp is a whole number of seconds since 1970.")
    return int(text)


def _id_in_header(request: HttpRequest, name: str) -> str:
    lines = request.header_lines(name)
    return checked_id(lines[0] if len(lines) == 1 else None)


def checked_id(identifier: object) -> str:
    """`identifier`, checked: 1 to 255 visible ASCII characters without a comma.

    Raises:
        RequestRefused: it is not a valid id (`event-invalid`).
    """
    if not isinstance(identifier, str) or not _ID.fullmatch(identifier):
        raise event_refused("The event has no id, or one that cannot be.")
    return identifier
