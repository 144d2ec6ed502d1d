"""boto3's requests are signed with a signing key that is derived once a day."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSPreparedRequest, AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import NoCredentialsError

from oncekey.store.dynamodb.boto3_signing import CachedKeySigner, use_cached_signing_key
from oncekey.testing.memory import ManualClock

TOKEN = "a-token"
ENDPOINTS = (
    *("https://dynamodb.eu-central-1.amazonaws.com", "http://127.0.0.1:8000"),
    *("https://localhost:443", "http://localhost:80"),
)


class _Sent(Exception):
    """Carries what would have been sent."""

    def __init__(self, request: AWSPreparedRequest) -> None:
        self.request = request


def client(endpoint: str = ENDPOINTS[0], token: str | None = TOKEN) -> Any:
    """A client of ours that sends nothing: its requests are raised."""
    made = boto3.client(
        "dynamodb",
        region_name="eu-central-1",
        endpoint_url=endpoint,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        aws_session_token=token,
        config=Config(retries={"total_max_attempts": 1, "mode": "standard"}),
    )
    use_cached_signing_key(made)

    def caught(request: AWSPreparedRequest, **_: Any) -> None:
        raise _Sent(request)

    made.meta.events.register("before-send.dynamodb", caught)
    return made


def sent(made: Any, table: str = "t") -> AWSPreparedRequest:
    """The request of one GetItem."""
    with pytest.raises(_Sent) as caught:
        made.get_item(TableName=table, Key={"pk": {"S": "ä"}})
    return caught.value.request


def text_of(headers: Any) -> dict[str, str]:
    """The headers by lower-case name, as text."""
    return {
        name.lower(): value.decode() if isinstance(value, bytes) else value
        for name, value in headers.items()
    }


def by_botocore(request: AWSPreparedRequest, token: str | None) -> str:
    """The signature that botocore gives the same headers at the same second."""
    given = text_of(request.headers)
    signed = re.search("SignedHeaders=([^,]+),", given["authorization"])
    assert signed is not None
    names = [name for name in signed[1].split(";") if name != "host"]
    again = AWSRequest("POST", request.url, {name: given[name] for name in names}, request.body)
    again.context["timestamp"] = given["x-amz-date"]
    auth = SigV4Auth(
        Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token),
        "dynamodb",
        "eu-central-1",
    )
    return str(auth.signature(auth.string_to_sign(again, auth.canonical_request(again)), again))


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("token", [None, TOKEN])
def test_a_request_has_the_signature_that_botocore_computes(
    endpoint: str, token: str | None
) -> None:
    """Over content type, host, date, token and target, with and without a port and a token.

    Red when the host is signed with its usual port, or the token is left out.
    """
    request = sent(client(endpoint, token))

    given = text_of(request.headers)["authorization"]
    assert given.endswith(f"Signature={by_botocore(request, token)}")
    expected = ["content-type", "host", "x-amz-date", "x-amz-security-token", "x-amz-target"]
    names = [name for name in expected if token or name != "x-amz-security-token"]
    assert f"SignedHeaders={';'.join(names)}," in given


def test_a_request_is_signed_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The date of a signature is that of its request.

    Red when AWS refuses each request for its date.
    """
    clock = ManualClock()
    monkeypatch.setattr("oncekey.store.dynamodb.boto3_signing._clock", clock)

    date = datetime.fromtimestamp(clock.now_ms() // 1000, UTC)

    assert text_of(sent(client()).headers)["x-amz-date"] == f"{date:%Y%m%dT%H%M%SZ}"


def test_a_request_is_signed_once() -> None:
    """No header of the signature comes twice, and the sender's own are kept."""
    headers = [name.lower() for name in sent(client()).headers]

    assert sorted(headers) == sorted(set(headers))
    assert {"authorization", "x-amz-date", "x-amz-security-token", "user-agent"} <= set(headers)


def test_a_client_of_the_author_is_left_alone() -> None:
    """Only clients that are told to are signed by us."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "oncekey.store.dynamodb.boto3_signing.CachedKeySigner.add_auth", lambda *_: 1 / 0
        )
        other = boto3.client(
            "dynamodb",
            region_name="eu-central-1",
            aws_access_key_id="a",
            aws_secret_access_key="b",
        )

        def caught(request: AWSPreparedRequest, **_: Any) -> None:
            raise _Sent(request)

        other.meta.events.register("before-send.dynamodb", caught)
        assert "AWS4-HMAC-SHA256" in text_of(sent(other).headers)["authorization"]


@pytest.mark.parametrize("url", ["https://h/path", "https://h/?a=b", "https://[::1]:8000/"])
def test_what_has_another_form_is_signed_by_botocore(url: str) -> None:
    """A path, a query or an IPv6 address is not what our signer knows."""
    headers = {
        "X-Amz-Target": "DynamoDB_20120810.GetItem",
        "Content-Type": "application/x-amz-json-1.0",
    }
    request = AWSRequest("POST", url, {**headers, "X-Other": "signed as well"}, b"{}")

    CachedKeySigner(Credentials("a", "b"), "dynamodb", "eu-central-1").add_auth(request)

    assert "x-other" in request.headers["Authorization"]


def test_a_further_header_of_aws_is_signed() -> None:
    """What a handler of the client or a later botocore adds is not sent unsigned.

    Red when only the headers that our signer knows are signed.
    """
    made = client()
    made.meta.events.register(
        "before-sign.dynamodb",
        lambda request, **_: request.headers.add_header("X-Amz-Extra", "1"),
    )

    assert "x-amz-extra" in text_of(sent(made).headers)["authorization"]


def test_without_credentials_nothing_is_sent() -> None:
    """The SDK's own error says what is missing."""
    request = AWSRequest("POST", "https://h/", {}, b"{}")

    nobody: Any = None

    with pytest.raises(NoCredentialsError):
        CachedKeySigner(nobody, "dynamodb", "eu-central-1").add_auth(request)
