"""AWS Signature Version 4 of DynamoDB's requests, with the head of the request around it.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from hashlib import sha256
from hmac import digest
from typing import NamedTuple

CONTENT_TYPE = "application/x-amz-json-1.0"
_ALGORITHM = "AWS4-HMAC-SHA256"
# What a header can hold, without white space, which the signature would have to squeeze.
_PLAIN = re.compile(r"[\x21-\x7e]*")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


class Credentials(NamedTuple):
    """What requests are signed with. `account_id` is the account of the endpoint, if known."""

    access_key: str
    secret_key: str
    token: str | None = None
    account_id: str | None = None

    def __repr__(self) -> str:
        return "Credentials(...)"


class _Moment(NamedTuple):
    """What all requests of one second have in common."""

    second: int
    stamp: str
    key: bytes
    canonical: str
    to_sign: str
    head: str
    authorization: str


def signing_key(secret_key: str, date: str, region: str, service: str) -> bytes:
    """The key for one day, Region and service."""
    key = f"AWS4{secret_key}".encode()
    for part in (date, region, service, "aws4_request"):
        key = digest(key, part.encode(), "sha256")
    return key


class Signer:
    """Signs requests to one host with the same credentials. Threads may share it.

    Raises:
        ValueError: the credentials have characters that no header can hold.
    """

    def __init__(
        self, credentials: Credentials, region: str, host: str, user_agent: str = "oncekey"
    ) -> None:
        if not all(_PLAIN.fullmatch(text or "") for text in credentials):
            raise ValueError("the credentials have characters that no header can hold")
        self.host = host
        self._user_agent = _UNPRINTABLE.sub("-", user_agent)
        self._credentials = credentials
        self._region = region
        token = credentials.token
        names = ["content-type", "host", "x-amz-date", "x-amz-target"]
        if token:
            names.insert(3, "x-amz-security-token")
        self._names = ";".join(names)
        self._token_line = f"x-amz-security-token:{token}\n" if token else ""
        self._token_header = f"X-Amz-Security-Token: {token}\r\n" if token else ""
        # A date and its key are one value, so that no thread sees the one without the other.
        self._day = ("", b"")
        self._moment = self._at(0)

    def head(self, target: str, body: bytes, second: int) -> bytes:
        """The request line and the headers of a POST of `body`, signed at `second`.

        `target` is the operation, such as `DynamoDB_20120810.PutItem`.
        """
        moment, authorization = self._signed(target, body, second)
        return (
            f"{moment.head}{target}\r\nContent-Length: {len(body)}\r\n"
            f"Authorization: {authorization}\r\n\r\n"
        ).encode()

    def headers(self, target: str, body: bytes, second: int) -> dict[str, str]:
        """The headers that sign a POST of `body` at `second`, for another sender.

        Content type, host and target are signed, too, and the sender gives them as they are here.
        """
        moment, authorization = self._signed(target, body, second)
        signed = {"X-Amz-Date": moment.stamp, "Authorization": authorization}
        token = self._credentials.token
        return {**signed, "X-Amz-Security-Token": token} if token else signed

    def _signed(self, target: str, body: bytes, second: int) -> tuple[_Moment, str]:
        moment = self._moment
        if moment.second != second:
            self._moment = moment = self._at(second)
        hashed = sha256(body).hexdigest()
        request = f"{moment.canonical}{target}\n\n{self._names}\n{hashed}"
        text = moment.to_sign + sha256(request.encode()).hexdigest()
        signature = digest(moment.key, text.encode(), "sha256").hex()
        return moment, moment.authorization + signature

    def _at(self, second: int) -> _Moment:
        stamp = datetime.fromtimestamp(second, tz=UTC).strftime("%Y%m%dT%H%M%SZ")
        date = stamp[:8]
        scope = f"{date}/{self._region}/dynamodb/aws4_request"
        known, key = self._day
        if date != known:
            key = signing_key(self._credentials.secret_key, date, self._region, "dynamodb")
            self._day = (date, key)
        return _Moment(
            second=second,
            stamp=stamp,
            key=key,
            canonical=(
                f"POST\n/\n\ncontent-type:{CONTENT_TYPE}\nhost:{self.host}\nx-amz-date:{stamp}\n"
                f"{self._token_line}x-amz-target:"
            ),
            to_sign=f"{_ALGORITHM}\n{stamp}\n{scope}\n",
            head=(
                f"POST / HTTP/1.1\r\nHost: {self.host}\r\nUser-Agent: {self._user_agent}\r\n"
                f"Accept-Encoding: identity\r\nContent-Type: {CONTENT_TYPE}\r\n"
                f"X-Amz-Date: {stamp}\r\n{self._token_header}X-Amz-Target: "
            ),
            authorization=(
                f"{_ALGORITHM} Credential={self._credentials.access_key}/{scope}, "
                f"SignedHeaders={self._names}, Signature="
            ),
        )
