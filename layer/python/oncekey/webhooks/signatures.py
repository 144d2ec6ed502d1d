"""Who sent a webhook: its signature, judged over the raw bytes of the body."""

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
# Shorter ones can be found by trying them against one delivery.
_SHORTEST_SECRET_BYTES = 16
_NO_SECRET = f"secrets are bytes, {_SHORTEST_SECRET_BYTES} or more each, the newest first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What a request states about its signature, in well-formed headers.

    `content` is what was signed, `digests` are the HMACs that it claims to have, and `sent_at_s` is
    when it was sent, where the scheme signs that as well.
    """

    content: bytes = field(repr=False)
    digests: tuple[bytes, ...] = field(repr=False)
    sent_at_s: int | None = None


class Scheme(Protocol):
    """How one provider signs what it sends, and names it."""

    @property
    def tolerance_ms(self) -> int:
        """How far a signed timestamp may be from our clock, in both directions."""
        ...

    @property
    def sends_again_for(self) -> timedelta:
        """For how long the provider sends an event again that was not answered with a 2xx."""
        ...

    def faults(self) -> list[str]:
        """What is wrong with the scheme's own options."""
        ...

    def key(self, secret: bytes) -> bytes:
        """The HMAC's key that `secret` stands for.

        Raises:
            ValueError: it has not the form that the provider gives secrets in.
        """
        ...

    def stated(self, request: HttpRequest, body: bytes) -> Stated:
        """What `request` states about its signature.

        Raises:
            RequestRefused: a header is missing, stands more than once or is malformed.
        """
        ...

    def event_id(self, request: HttpRequest, body: bytes) -> str:
        """The id of the event, the same whenever it is sent. Asked of verified requests only.

        Raises:
            RequestRefused: there is none (`event-invalid`).
        """
        ...


def verify(
    scheme: Scheme, request: HttpRequest, body: bytes, keys: Sequence[bytes], now_ms: int
) -> None:
    """Return if `body` was signed with one of `keys`, and not too long ago or ahead of us.

    The timestamp counts only once its signature holds. In both directions: a sender whose clock is
    ahead, or who signs for later, could otherwise be replayed for as long as that.

    Raises:
        RequestRefused: it was not (`signature-invalid`).
    """
    stated = scheme.stated(request, body)
    # Once for each secret: a header can claim hundreds of digests of a body of megabytes.
    expected = [hmac.digest(key, stated.content, "sha256") for key in keys]
    # All of them, whichever matches: the time that it takes says nothing of a secret.
    matches = [hmac.compare_digest(one, digest) for one in expected for digest in stated.digests]
    if not any(matches):
        raise signature_refused("No signature is that of this body under a secret known here.")
    if stated.sent_at_s is not None and abs(now_ms - 1000 * stated.sent_at_s) > scheme.tolerance_ms:
        raise signature_refused("The signed timestamp is too far from the time here.")


def keys_of(scheme: Scheme, source: SecretsSource | None, where: str) -> list[bytes]:
    """The HMAC keys of this moment, the newest first; never none.

    Args:
        scheme: whose secrets they are.
        source: the secrets, or who is asked for them at each request; by default the words of
            ONCEKEY_WEBHOOK_SECRET, or of the secret that ONCEKEY_WEBHOOK_SECRET_ARN names.
        where: whom a fault is told of.

    Raises:
        ConfigurationError: there is no secret, or one that cannot be. No text repeats it.
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
    """What is wrong with the secrets of a webhook; none is a fault as well."""
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
    """The one line of the header `name` (in lower case).

    Raises:
        RequestRefused: there is none, or several: which of them was signed?
    """
    lines = request.header_lines(name)
    if len(lines) != 1:
        raise signature_refused(f"The header {name} is needed, once.")
    return lines[0]


def read_json(body: bytes) -> Any:
    """The JSON of a signed body.

    Raises:
        RequestRefused: it is none (`event-invalid`).
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise event_refused("The body is no JSON.") from None


def signature_refused(detail: str) -> RequestRefused:
    """The refusal of what is not signed, or not well. `detail` repeats nothing that was sent."""
    return RequestRefused("signature-invalid", detail)


def event_refused(detail: str) -> RequestRefused:
    """The refusal of what is well signed, and is no event. `detail` repeats nothing of it."""
    return RequestRefused("event-invalid", detail)
