"""The SDK's requests to DynamoDB, signed by our signer, which keeps the key of the day.

botocore derives the key anew and sorts all headers for every request, which is a quarter of the
time of a call. It looks for signers in a public table, by name.
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


class KeptKey(SigV4Auth):
    """Signature Version 4 of a request to DynamoDB. botocore signs what has another form."""

    def add_auth(self, request: AWSRequest) -> None:
        """Sign `request`. A signature that it has is replaced."""
        url, body = urlsplit(request.url), request.body
        # The types of botocore's objects are a third party's guess.
        headers: Any = request.headers
        target, frozen = headers.get("X-Amz-Target"), _frozen(self)
        is_usual = (
            frozen is not None
            and url.path in ("", "/")
            and not url.query
            # The brackets of an IPv6 address belong to the host.
            and ":" not in (url.hostname or ":")
            and target
            and isinstance(body, bytes)
            and headers.get("Content-Type") == CONTENT_TYPE
        )
        if not is_usual:
            super().add_auth(request)
            return
        credentials = Credentials(frozen.access_key, frozen.secret_key, frozen.token)
        signer = _signer(credentials, _region(self), _host(url))
        for name, text in signer.headers(target, body, _clock.now_ms() // 1000).items():
            del headers[name]
            headers[name] = text


def sign_by_kept_key(client: Any) -> None:
    """Have all requests of a DynamoDB client of ours signed in this way."""
    AUTH_TYPE_MAPS[_NAME] = KeptKey
    client.meta.events.register("choose-signer.dynamodb", _chosen, unique_id=_NAME)


def _frozen(auth: Any) -> Any:
    # The keys, which do not change any more; None if there are none.
    return auth.credentials


def _region(auth: Any) -> str:
    region: str = auth._region_name  # noqa: SLF001 -- of our base class
    return region


def _chosen(**_: Any) -> str:
    return _NAME


@lru_cache(maxsize=8)
def _signer(credentials: Credentials, region: str, host: str) -> Signer:
    return Signer(credentials, region, host)


def _host(url: Any) -> str:
    usual = {"http": 80, "https": 443}.get(url.scheme)
    return str(url.hostname) if url.port in (None, usual) else f"{url.hostname}:{url.port}"
