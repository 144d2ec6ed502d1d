"""Credentials, as boto3 finds them where there is no file of the AWS configuration.

The environment comes first; Lambda sets its variables. Then come web identity and old files, which
botocore reads; then the container's endpoint, which Lambda uses with SnapStart and ECS always; and
last the metadata of an EC2 instance, which botocore asks.
https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
"""

from __future__ import annotations

import json
import re
import threading
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from oncekey.clock import elapsed_s
from oncekey.store.direct.certificates import NO_CERTIFICATES, Verification, trusted
from oncekey.store.direct.connection import connect
from oncekey.store.direct.endpoint import address_of
from oncekey.store.direct.errors import CredentialRetrievalError, NoCredentialsError
from oncekey.store.direct.signing import Credentials

if TYPE_CHECKING:
    from collections.abc import Mapping

# As in botocore: from 15 minutes before the expiry on one thread asks for new credentials, while
# the others use the old ones. In the last ten minutes all wait for the new ones.
_ASK_BEFORE_MS = 15 * 60_000
_WAIT_BEFORE_MS = 10 * 60_000
# The pause after a failed fetch, while the old credentials are still valid.
_ASK_AGAIN_MS = 10_000
# botocore looks at these before the container's endpoint.
_BOTOCORE_FIRST_VARIABLES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CREDENTIAL_FILE",
    "BOTO_CONFIG",
)
_BOTOCORE_FIRST_FILES = ("/etc/boto.cfg", "~/.boto")
_RELATIVE, _FULL = (
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_CONTAINER = "http://169.254.170.2"
# Without TLS, credentials are fetched from these hosts only.
_PLAIN_HTTP_HOSTS = re.compile(
    r"169\.254\.170\.(2|23)|\[fd00:ec2::23\]|localhost|127(\.\d+){3}|\[::1\]"
)
_CREDENTIALS_URL = re.compile(r"(https?)://([^/?#@\s]+)(/[^#\s]*)?")


class Source(Protocol):
    """Where credentials come from. Threads share it."""

    def credentials(self, now_ms: int, deadline_s: float) -> Credentials:
        """Credentials that are good now: the same object, until there are others.

        Raises:
            CredentialRetrievalError: there are none for now.
            NoCredentialsError: there are none at all.
        """
        ...


def source_in(environment: Mapping[str, str]) -> Source:
    """The source of credentials that the environment describes. Nothing is asked of it yet."""
    if environment.get("AWS_ACCESS_KEY_ID") and "AWS_CREDENTIAL_EXPIRATION" not in environment:
        return FromEnvironment(environment)
    if not environment.get("AWS_ACCESS_KEY_ID") and _is_container(environment):
        return FromContainer(environment)
    return FromBotocore()


def _is_container(environment: Mapping[str, str]) -> bool:
    is_named = _RELATIVE in environment or _FULL in environment
    is_hidden = any(name in environment for name in _BOTOCORE_FIRST_VARIABLES) or any(
        Path(name).expanduser().is_file() for name in _BOTOCORE_FIRST_FILES
    )
    return is_named and not is_hidden


class FromEnvironment:
    """The credentials of the environment. They never change."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        get = environment.get
        self._found = Credentials(
            get("AWS_ACCESS_KEY_ID", ""),
            get("AWS_SECRET_ACCESS_KEY", ""),
            # botocore prefers the older name, too.
            get("AWS_SECURITY_TOKEN") or get("AWS_SESSION_TOKEN") or None,
            get("AWS_ACCOUNT_ID") or None,
        )

    def credentials(self, now_ms: int, deadline_s: float) -> Credentials:  # noqa: ARG002 -- they never expire
        """See `Source.credentials`."""
        if not self._found.secret_key:
            raise NoCredentialsError
        return self._found


class FromContainer:
    """Credentials from the container's endpoint, fetched again before they expire."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._found: Credentials | None = None
        self._ask_at_ms = self._wait_at_ms = 0
        self._asking = threading.Lock()

    def credentials(self, now_ms: int, deadline_s: float) -> Credentials:
        """See `Source.credentials`."""
        found = self._found
        if found is not None and now_ms < self._ask_at_ms:
            return found
        must_wait = found is None or now_ms >= self._wait_at_ms
        left_s = max(0.0, deadline_s - elapsed_s()) if must_wait else 0.0
        if not self._asking.acquire(timeout=left_s):
            if must_wait or found is None:
                raise CredentialRetrievalError
            return found
        try:
            return self._asked(now_ms, deadline_s, must_wait=must_wait)
        finally:
            self._asking.release()

    def _asked(self, now_ms: int, deadline_s: float, *, must_wait: bool) -> Credentials:
        if self._found is not None and now_ms < self._ask_at_ms:
            # Another thread has asked meanwhile.
            return self._found
        try:
            answer = _fetch(self._environment, deadline_s)
            expires_ms = int(datetime.fromisoformat(answer["Expiration"]).timestamp() * 1000)
            found = Credentials(
                answer["AccessKeyId"],
                answer["SecretAccessKey"],
                answer["Token"],
                answer.get("AccountId"),
            )
        except (OSError, ValueError, TypeError, KeyError) as error:
            if must_wait or self._found is None:
                raise CredentialRetrievalError from error
            self._ask_at_ms = now_ms + _ASK_AGAIN_MS
            return self._found
        self._found = found
        self._ask_at_ms = expires_ms - _ASK_BEFORE_MS
        self._wait_at_ms = expires_ms - _WAIT_BEFORE_MS
        return found


def _fetch(environment: Mapping[str, str], deadline_s: float) -> dict[str, Any]:
    url = environment.get(_FULL, "")
    if _RELATIVE in environment:
        url = _CONTAINER + environment[_RELATIVE]
    parts = _CREDENTIALS_URL.fullmatch(url)
    if parts is None:
        raise ValueError("the container's endpoint is not a URL that the direct transport supports")
    scheme, host, path = parts.groups()
    is_tls = scheme == "https"
    address = address_of(host, tls=is_tls)
    if not is_tls and not _PLAIN_HTTP_HOSTS.fullmatch(host.removesuffix(f":{address.port}")):
        raise ValueError("credentials are fetched without TLS from the sandbox itself only")
    certificates = trusted(environment) if is_tls else None
    tls = Verification(certificates) if certificates else None
    if is_tls and tls is None:
        raise ValueError(NO_CERTIFICATES)
    connection = connect(address, host, tls, deadline_s - elapsed_s(), deadline_s)
    lines = f"GET {path or '/'} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n"
    try:
        request = f"{lines}{_authorization(environment)}Connection: close\r\n\r\n"
        answer = connection.exchange(request.encode(), deadline_s)
    finally:
        connection.close()
    if answer.status != 200:
        raise CredentialRetrievalError
    found: dict[str, Any] = json.loads(answer.body)
    return found


def _authorization(environment: Mapping[str, str]) -> str:
    file = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    # The file changes: EKS replaces its token.
    token = Path(file).read_text("utf-8") if file else None
    token = token or environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
    if token is None:
        return ""
    if "\r" in token or "\n" in token:
        raise ValueError("the token has a line break")
    return f"Authorization: {token}\r\n"


class FromBotocore:
    """The credentials that botocore's own chain finds and refreshes; it is loaded for that.

    Its calls have timeouts of their own, which no deadline of ours shortens.
    """

    def __init__(self) -> None:
        self._chain: Any = None
        self._found: Credentials | None = None
        self._loading = threading.Lock()

    def credentials(self, now_ms: int, deadline_s: float) -> Credentials:  # noqa: ARG002 -- botocore has rules of its own
        """See `Source.credentials`."""
        if self._chain is None:
            with self._loading:
                if self._chain is None:
                    self._chain = self._load()
        frozen = self._chain.get_frozen_credentials()
        seen = Credentials(
            frozen.access_key,
            frozen.secret_key,
            frozen.token,
            getattr(frozen, "account_id", None),
        )
        found = self._found
        if found is None or found != seen:
            self._found = found = seen
        return found

    @staticmethod
    def _load() -> Any:
        from botocore.session import Session

        chain = Session().get_credentials()
        if chain is None:
            raise NoCredentialsError
        return chain
