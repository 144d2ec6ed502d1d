"""Bad input over real HTTP: each a clear 4xx, and nothing written."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.support.dev_service import running, send
from tests.support.payments_client import BODY, Payments, code_of, new_key

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def payments() -> Iterator[Payments]:
    """The reference service."""
    with running("infra.service:SERVICE", sandboxes=2) as dev:
        yield Payments(dev)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (None, "key-missing"),
        ("", "key-invalid"),
        ("   ", "key-invalid"),
        ("k" * 256, "key-invalid"),
        ("short", "key-invalid"),
        ("one-key-of-a-list, another-key-of-it", "key-invalid"),
        ("a-key-with-parameters;p=1", "key-invalid"),
    ],
)
def test_a_bad_key_is_refused(payments: Payments, key: str | None, code: str) -> None:
    """A missing, blank, long, short or list-valued key: 400 with its code, nothing written."""
    before = payments.records()

    answer = payments.pay(key)

    assert (answer.status, code_of(answer)) == (400, code)
    assert payments.records() == before


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(b"Idempotency-Key: schl\xc3\xbcssel-mit-umlaut\r\n", id="UTF-8"),
        pytest.param(b"Idempotency-Key: schl\xfcssel-mit-umlaut\r\n", id="Latin-1"),
        pytest.param(
            b"Idempotency-Key: first-of-two-keys\r\nIdempotency-Key: second-of-two-keys\r\n",
            id="two lines",
        ),
        pytest.param(
            b"Idempotency-Key: first-of-two-keys\r\nidempotency-key: second-of-two-keys\r\n",
            id="two letter cases",
        ),
    ],
)
def test_a_key_that_is_no_ascii_or_doubled_is_refused(payments: Payments, lines: bytes) -> None:
    """Non-ASCII keys and doubled headers, byte for byte as a client may send them: 400."""
    before = payments.records()
    body = json.dumps(BODY).encode()
    token = payments.dev.token("acme").encode()
    address = urlsplit(payments.dev.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(
            b"POST /payments HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nAuthorization: Bearer " + token + b"\r\n"
            b"Content-Length: %d\r\n" % len(body) + lines + b"\r\n" + body
        )
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"key-invalid" in answer
    assert payments.records() == before


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        pytest.param(b"", 400, "request-invalid", id="empty"),
        pytest.param(b"not json {", 400, "request-invalid", id="no JSON"),
        pytest.param(b"[" * 10_000 + b"]" * 10_000, 400, "request-invalid", id="10,000 deep"),
        pytest.param(
            b'{"a":' * 10_000 + b"1" + b"}" * 10_000, 400, "request-invalid", id="objects"
        ),
        pytest.param(b'"' + b"x" * 4_000_000 + b'"', 400, "request-invalid", id="4 MB"),
        pytest.param(b'"' + b"x" * 6_300_000 + b'"', 413, None, id="6 MB"),
        pytest.param(b"\xff\xfe\x00", 400, "request-invalid", id="no UTF-8"),
        pytest.param(b'{"amount": -1}', 400, "request-invalid", id="a negative amount"),
        pytest.param(b'{"amount": NaN}', 400, "request-invalid", id="NaN"),
    ],
)
def test_a_bad_body_is_refused(
    payments: Payments, body: bytes, status: int, code: str | None
) -> None:
    """A body that is no payment: a clear 4xx before anything is written or charged."""
    before = payments.records()
    payments.provider.reset()

    answer = payments.pay(new_key(), body)

    assert (answer.status, code_of(answer)) == (status, code)
    assert payments.records() == before
    assert payments.provider.counts()["calls"] == 0


def test_what_is_wrong_with_a_body_is_said_without_repeating_it(payments: Payments) -> None:
    """The answer names the fields and the rules, and no value."""
    answer = payments.pay(new_key(), {**BODY, "amount": 0, "currency": "SECRET"})

    detail = answer.json()["detail"]
    assert "amount" in detail
    assert "currency" in detail
    assert "SECRET" not in answer.body.decode()


def test_a_caller_without_a_tenant_is_refused(payments: Payments) -> None:
    """A valid token that names no tenant: 403 `tenant-missing`, nothing written."""
    before = payments.records()

    answer = send(
        payments.dev.url,
        "POST",
        "/payments",
        token=payments.dev.token(None),
        headers={"Idempotency-Key": new_key(), "Content-Type": "application/json"},
        body=json.dumps(BODY).encode(),
    )

    assert (answer.status, code_of(answer)) == (403, "tenant-missing")
    assert payments.records() == before


def test_the_header_is_found_in_any_letter_case_and_in_both_syntaxes(payments: Payments) -> None:
    """`IDEMPOTENCY-KEY: "k"` and `idempotency-key: k` are one key."""
    key = new_key()
    first = payments.pay(None, headers={"IDEMPOTENCY-KEY": f'"{key}"'})
    second = payments.pay(None, headers={"idempotency-key": key})

    assert (first.status, second.status) == (201, 201)
    assert second.headers["idempotent-replayed"] == "true"
    assert second.body == first.body


@pytest.mark.requirement("C7")
@pytest.mark.case(28)
def test_the_spelling_of_the_body_does_not_matter(payments: Payments) -> None:
    """Key order, white space and number spelling make no other request.

    Red when the body is hashed as it was sent.
    """
    key = new_key()
    first = payments.pay(key, b'{"customer_id":"cus_1","amount":1200,"currency":"eur"}')
    second = payments.pay(
        key, b'{ "currency": "eur",\n "amount": 1200, "customer_id": "cus_\\u0031" }'
    )

    assert (first.status, second.status) == (201, 201)
    assert second.body == first.body


@pytest.mark.requirement("C11")
@pytest.mark.requirement("C17")
def test_a_payment_is_read_by_its_tenant_only(payments: Payments) -> None:
    """GET shows a payment to its own tenant; for another it does not exist.

    Red when the row is found by its id alone.
    """
    made = payments.pay(new_key())
    path = made.headers["location"]

    mine = send(payments.dev.url, path=path, token=payments.dev.token("acme"))
    theirs = send(payments.dev.url, path=path, token=payments.dev.token("globex"))

    assert (mine.status, mine.json()) == (200, made.json())
    assert theirs.status == 404
