"""The check of a webhook's signature over the raw bytes of its body."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from oncekey.errors import ConfigurationError, RequestRefused
from oncekey.store.secret_words import secret_words

if TYPE_CHECKING:
    from datetime import timedelta

    from oncekey.http.event import HttpRequest

Secrets = bytes | Sequence[bytes]
SecretsSource = Secrets | Callable[[], Secrets]

SECRET_VARIABLE = "ONCEKEY_WEBHOOK_SECRET"  # noqa: S105 -- the name of a variable
# A shorter secret can be guessed from one delivery.
_SHORTEST_SECRET_BYTES = 16
_NO_SECRET = f"secrets are bytes, {_SHORTEST_SECRET_BYTES} or more each, the newest first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """The signature in a request's headers.

    `content` is the signed content, `digests` are the claimed HMACs, and `sent_at_s` is the time of
    sending, if the scheme signs it.
    """

    content: bytes = field(repr=False)
    digests: tuple[bytes, ...] = field(repr=False)
    sent_at_s: int | None = None


class Scheme(Protocol):
    """How one provider signs and identifies its events."""

    @property
    def tolerance_ms(self) -> int:
        """How far a signed timestamp may be from our clock, in both directions."""
        ...

    @property
    def sends_again_for(self) -> timedelta:
        """For how long the provider resends an event without a 2xx answer."""
        ...

    def faults(self) -> list[str]:
        """What is wrong with the scheme's own options."""
        ...

    def key(self, secret: bytes) -> bytes:
        """The HMAC key made from `secret`.

        Raises:
            ValueError: the secret does not have the provider's form.
        """
        ...

    def stated(self, request: HttpRequest, body: bytes) -> Stated:
        """The signature in the headers of `request`.

        Raises:
            RequestRefused: a header is missing, repeated or malformed.
        """
        ...

    def event_id(self, request: HttpRequest, body: bytes) -> str:
        """The id of the event, which is the same each time. Call it for verified requests only.

        Raises:
            RequestRefused: the event has no id (`event-invalid`).
        """
        ...


def verify(
    scheme: Scheme, request: HttpRequest, body: bytes, keys: Sequence[bytes], now_ms: int
) -> None:
    """Return if `body` was signed with one of `keys`, and its timestamp is within the tolerance.

    The timestamp is checked after the signature. It must not be too far in the future either: a
    delivery with a future time could otherwise be replayed until then.

    Raises:
        RequestRefused: it was not (`signature-invalid`).
    """
    stated = scheme.stated(request, body)
    # One HMAC for each secret, because a header can claim hundreds of digests of a large body.
    expected = [hmac.digest(key, stated.content, "sha256") for key in keys]
    # All are compared, so that the duration does not reveal which one matches.
    matches = [hmac.compare_digest(one, digest) for one in expected for digest in stated.digests]
    if not any(matches):
        raise signature_refused("No signature is that of this body under a secret known here.")
    if stated.sent_at_s is not None and abs(now_ms - 1000 * stated.sent_at_s) > scheme.tolerance_ms:
        raise signature_refused("The signed timestamp is too far from the time here.")


def keys_of(scheme: Scheme, source: SecretsSource | None, where: str) -> list[bytes]:
    """The current HMAC keys, the newest first. There is at least one.

    Args:
        scheme: the scheme that makes keys from the secrets.
        source: the secrets, or a callable that returns them; by default the words of
            ONCEKEY_WEBHOOK_SECRET, or of the secret that ONCEKEY_WEBHOOK_SECRET_ARN names.
        where: the name of the webhook, for a fault.

    Raises:
        ConfigurationError: there is no secret, or a malformed one. The text does not repeat it.
        StoreError: the secret cannot be read now.
    """
    if source is None:
        named = SECRET_VARIABLE
        secrets: object = secret_words(SECRET_VARIABLE)
    else:
        named, secrets = "secrets", source() if callable(source) else source
    faults = secrets_faults(scheme, secrets)
    if faults:
        raise ConfigurationError(where, [f"{named}: {fault}" for fault in faults])
    return [scheme.key(secret) for secret in _listed(secrets)]


def secrets_faults(scheme: Scheme, secrets: object) -> list[str]:
    """What is wrong with the secrets of a webhook. An empty list is a fault, too."""
    listed = _listed(secrets)
    if secrets and not isinstance(secrets, bytes | list | tuple):
        return [_NO_SECRET]
    if not listed:
        none = (
            "there is no secret, so nothing can be accepted: set the one that the provider shows"
            f" for this endpoint, in the secret that {SECRET_VARIABLE}_ARN names, in"
            f" {SECRET_VARIABLE} or as secrets="
        )
        return [none]
    return [fault for secret in listed if (fault := _secret_fault(scheme, secret)) is not None]


def _secret_fault(scheme: Scheme, secret: object) -> str | None:
    if not isinstance(secret, bytes) or len(secret) < _SHORTEST_SECRET_BYTES:
        return _NO_SECRET
    if secret != secret.strip():
        # No provider shows such a secret. Every signature would be refused, as a sender's fault.
        return "a secret begins or ends with white space, as the text of a file does: strip it"
    try:
        scheme.key(secret)
    except ValueError as error:
        return str(error)
    return None


def _listed(secrets: object) -> list[bytes]:
    if isinstance(secrets, bytes):
        return [secrets] if secrets.strip() else []
    return list(secrets) if isinstance(secrets, list | tuple) else []


def header(request: HttpRequest, name: str) -> str:
    """The value of the header `name` (in lower case).

    Raises:
        RequestRefused: the header is missing, or is repeated, so that its signed value is unclear.
    """
    lines = request.header_lines(name)
    if len(lines) != 1:
        raise signature_refused(f"The header {name} is needed, once.")
    return lines[0]


def read_json(body: bytes) -> Any:
    """The JSON of a signed body.

    Raises:
        RequestRefused: the body is not JSON (`event-invalid`).
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise event_refused("The body is no JSON.") from None


def signature_refused(detail: str) -> RequestRefused:
    """The refusal of a missing or wrong signature. `detail` repeats no data of the request."""
    return RequestRefused("signature-invalid", detail)


def event_refused(detail: str) -> RequestRefused:
    """The refusal of a signed request that is not an event. `detail` repeats no data of it."""
    return RequestRefused("event-invalid", detail)
