"""Signs boto3's requests to DynamoDB with a signing key that is derived once a day.

botocore derives the key and sorts all headers for every request, which is a quarter of the time of
a call. It finds signers by name in a public table.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from botocore.auth import AUTH_TYPE_MAPS, SigV4Auth

from oncekey.clock import SystemClock
from oncekey.store.direct.signing import CONTENT_TYPE, Credentials, Signer

if TYPE_CHECKING:
    from botocore.awsrequest import AWSRequest

_NAME = "oncekey-v4"
_clock = SystemClock()
# Every header with this prefix must be signed:
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
_KNOWN = {"x-amz-target", "x-amz-date", "x-amz-security-token"}


class CachedKeySigner(SigV4Auth):
    """Signature Version 4 of a request to DynamoDB. botocore signs what has another form."""

    def add_auth(self, request: AWSRequest) -> None:
        """Sign `request`. A signature that it has is replaced."""
        host = _host(request)
        keys: Any = self.credentials
        if keys is None or host is None:
            super().add_auth(request)
            return
        signer = _signer(_credentials(self), _region(self), host)
        # The types of botocore's objects are a third party's guess.
        headers: Any = request.headers
        body: Any = request.body
        signed = signer.headers(headers["X-Amz-Target"], body, _clock.now_ms() // 1000)
        for name, text in signed.items():
            del headers[name]
            headers[name] = text


def use_cached_signing_key(client: Any) -> None:
    """Let `CachedKeySigner` sign all requests of this boto3 client of DynamoDB."""
    AUTH_TYPE_MAPS[_NAME] = CachedKeySigner
    client.meta.events.register("choose-signer.dynamodb", _chosen, unique_id=_NAME)


def _credentials(auth: Any) -> Credentials:
    frozen = auth.credentials
    return Credentials(frozen.access_key, frozen.secret_key, frozen.token)


def _region(auth: Any) -> str:
    region: str = auth._region_name  # noqa: SLF001 -- of our base class
    return region


def _chosen(**_: Any) -> str:
    return _NAME


@lru_cache(maxsize=8)
def _signer(credentials: Credentials, region: str, host: str) -> Signer:
    return Signer(credentials, region, host)


def _host(request: Any) -> str | None:
    """The host that is signed; None if `request` is none that our signer knows."""
    url = urlsplit(str(request.url))
    is_known = (
        url.path in ("", "/")
        and not url.query
        and "X-Amz-Target" in request.headers
        and request.headers.get("Content-Type") == CONTENT_TYPE
        and isinstance(request.body, bytes)
        and not any(_must_be_signed(name.lower()) for name in request.headers)
    )
    # The brackets of an IPv6 address belong to the host.
    if not is_known or url.hostname is None or ":" in url.hostname:
        return None
    usual = {"http": 80, "https": 443}.get(url.scheme)
    return url.hostname if url.port in (None, usual) else f"{url.hostname}:{url.port}"


def _must_be_signed(name: str) -> bool:
    """Whether a header of this name must be signed, and our signer does not know it."""
    return name.startswith("x-amz-") and name not in _KNOWN
