"""Signatures of the direct transport, against AWS's published values and botocore's signer."""

from __future__ import annotations

import random
import string
from hmac import digest
from typing import Any

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials

from oncekey.store.direct.signing import Credentials, Signer, signing_key

# https://docs.aws.amazon.com/IAM/latest/UserGuide/signing-elements.html and its older editions
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
PUBLISHED_KEY = "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
PUBLISHED_TEXT = (
    "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/iam/aws4_request\n"
    "f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59"
)
PUBLISHED_SIGNATURE = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
REGIONS = ("us-east-1", "eu-central-1", "cn-north-1", "us-gov-west-1")
HOSTS = (
    "dynamodb.us-east-1.amazonaws.com",
    "123456789012.ddb.eu-central-1.amazonaws.com",
    "h:8000",
)
OPERATIONS = ("PutItem", "UpdateItem", "GetItem", "Query", "Scan", "TransactWriteItems")


def test_the_key_and_the_signature_are_those_that_aws_published() -> None:
    """The key of a day and the signature of a text are the documented ones.

    Red when a part of the scope is left out or the parts change places.
    """
    key = signing_key(SECRET, "20150830", "us-east-1", "iam")

    assert key.hex() == PUBLISHED_KEY
    assert digest(key, PUBLISHED_TEXT.encode(), "sha256").hex() == PUBLISHED_SIGNATURE


def headers_in(head: bytes) -> dict[str, str]:
    """The headers of a request."""
    lines = head.decode().removesuffix("\r\n\r\n").split("\r\n")
    assert lines[0] == "POST / HTTP/1.1"
    return dict(line.split(": ", 1) for line in lines[1:])


def botocores(headers: dict[str, str], body: bytes, credentials: Credentials, region: str) -> str:
    """The header `Authorization` that botocore gives to the same request."""
    names = ("Content-Type", "Host", "X-Amz-Target", "X-Amz-Security-Token", "X-Amz-Date")
    signed = {name: headers[name] for name in names if name in headers}
    request = AWSRequest("POST", f"https://{headers['Host']}/", headers=signed, data=body)
    request.context["timestamp"] = headers["X-Amz-Date"]
    signer: Any = auth.SigV4Auth(
        BotocoreCredentials(credentials.access_key, credentials.secret_key, credentials.token),
        "dynamodb",
        region,
    )
    text = signer.string_to_sign(request, signer.canonical_request(request))
    signer._inject_signature_to_request(request, signer.signature(text, request))
    authorization: str = request.headers["Authorization"]
    return authorization


def test_thousands_of_requests_are_signed_as_by_botocore() -> None:
    """Random credentials, Regions, hosts, operations, bodies and moments give botocore's signature.

    Each signer signs several requests, on both sides of midnight as well. Red when the cached key
    outlives its day, a header is left out of the signature, or the body is not covered.
    """
    chance = random.Random(20150830)  # noqa: S311 -- the same requests in every run
    letters = string.ascii_letters + string.digits + "+/="

    def text(length: int) -> str:
        return "".join(chance.choices(letters, k=length))

    for _ in range(400):
        token = text(chance.choice([0, 1, 600])) or None
        credentials = Credentials(text(20), text(40), token)
        region, host = chance.choice(REGIONS), chance.choice(HOSTS)
        signer = Signer(credentials, region, host)
        second = chance.randrange(2**32)
        for _ in range(10):
            second += chance.choice([0, 0, 1, 40_000])
            body = chance.randbytes(chance.choice([0, 2, 300, 5_000]))
            target = f"DynamoDB_20120810.{chance.choice(OPERATIONS)}"

            headers = headers_in(signer.head(target, body, second))

            assert headers["X-Amz-Target"] == target
            assert headers["Content-Length"] == str(len(body))
            assert headers["Authorization"] == botocores(headers, body, credentials, region)


@pytest.mark.parametrize("field", range(3))
@pytest.mark.parametrize("text", ["a\r\nX-Evil: 1", "a b", "ä", "a\n"])
def test_credentials_cannot_add_a_header(field: int, text: str) -> None:
    """Credentials with a line break, white space or another character of no header are refused.

    Red when they go into the head of a request unchecked.
    """
    fields = ["key", "secret", "token"]
    fields[field] = text

    with pytest.raises(ValueError, match="no header can hold"):
        Signer(Credentials(*fields), "eu-central-1", "a-host")


def test_the_user_agent_cannot_add_a_header() -> None:
    """What the environment says of the caller has no line breaks when it is sent."""
    signer = Signer(
        Credentials("key", "secret"), "eu-central-1", "a-host", "oncekey app/a\r\nX-Evil: 1"
    )

    assert headers_in(signer.head("T", b"", 0))["User-Agent"] == "oncekey app/a--X-Evil: 1"


def test_credentials_do_not_show_themselves() -> None:
    """Neither the text of credentials nor that of their signer holds a secret."""
    credentials = Credentials("key", "secret", "token")

    assert "secret" not in repr(credentials) + str(credentials)
    assert "secret" not in repr(Signer(credentials, "eu-central-1", "a-host"))
