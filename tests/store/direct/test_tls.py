"""The direct transport over TLS: certificates are verified, and handshakes bounded."""

from __future__ import annotations

import json
import socket
import ssl
from pathlib import Path

import certifi
import pytest

from oncekey.store.direct.certificates import Certificates
from tests.support.certificates import self_signed
from tests.support.peers import OK, failure, peer, says
from tests.support.wire import answer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    for file, text in zip((certificate, private), self_signed(), strict=True):
        file.write_bytes(text)
    return certificate, private


@pytest.fixture
def tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    """The peer's side of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


def test_calls_go_over_tls_and_keep_the_connection(
    tls: ssl.SSLContext, certificate: tuple[Path, Path]
) -> None:
    """With a trusted certificate, a large request and a large answer pass, on one connection."""
    items = [{"pk": {"S": "x" * 1000}}] * 500
    with peer(says(answer(json.dumps({"Items": items}).encode())), tls=tls) as made:
        client = made.client(AWS_CA_BUNDLE=str(certificate[0]))
        for _ in range(3):
            assert client.query(TableName="t", Key={"a": {"S": "y" * 300_000}})["Items"] == items

    assert (made.accepted, len(made.requests)) == (1, 3)


def test_a_certificate_that_is_not_trusted_is_refused_before_anything_is_sent(
    tls: ssl.SSLContext,
) -> None:
    """A peer that only signs for itself gets no request.

    Red when certificates are not verified.
    """
    with peer(says(OK), tls=tls) as made:
        found = failure(made.client())

    assert (found.reason, found.is_harmless, made.requests) == ("SSLError", True, [])


def test_a_peer_of_another_authority_of_the_usual_bundle_is_served(
    tls: ssl.SSLContext,
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """AWS's authorities do not vouch for the peer, and another one of the bundle does: the call
    takes a second connection, the next ones none.

    Red when such an endpoint cannot be reached.
    """
    bundle = tmp_path / "cacert.pem"
    bundle.write_text(
        Path(certifi.where()).read_text("utf-8") + certificate[0].read_text("utf-8"), "utf-8"
    )
    monkeypatch.setattr(
        "oncekey.store.direct.endpoint.trusted",
        lambda _environment: Certificates(str(bundle), is_default=True),
    )
    with peer(says(OK), tls=tls) as made:
        client = made.client()
        for _ in range(2):
            client.get_item(TableName="t", Key={})

    assert (made.accepted, len(made.requests)) == (2, 2)


def test_a_certificate_of_another_name_is_refused(
    tls: ssl.SSLContext, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trusted certificate of another host is none for this one.

    Red when the name is not compared.
    """
    with peer(says(OK), tls=tls) as made:
        port = int(made.url.rpartition(":")[2])
        address = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_o: [address])
        url = f"https://other.example:{port}"
        found = failure(made.client(AWS_ENDPOINT_URL=url, AWS_CA_BUNDLE=str(certificate[0])))

    assert (found.reason, found.is_harmless, made.requests) == ("SSLError", True, [])


def test_a_handshake_that_stalls_is_bounded_and_unsent(certificate: tuple[Path, Path]) -> None:
    """A peer that accepts and never answers the handshake costs the call its time."""
    with peer(says()) as made:
        url = made.url.replace("http:", "https:")
        found = failure(made.client(150, AWS_ENDPOINT_URL=url, AWS_CA_BUNDLE=str(certificate[0])))

    assert (found.reason, found.is_harmless) == ("ConnectTimeoutError", True)
