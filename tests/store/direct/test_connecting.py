"""A new connection takes no longer than its call has left, and fails as an unsent request."""

from __future__ import annotations

import errno
import socket
import ssl
from typing import TYPE_CHECKING, Any, cast

import pytest

from oncekey.store.direct import client as clients
from oncekey.store.direct import connection as connections
from oncekey.store.direct import credentials
from oncekey.store.direct.connection import connect
from oncekey.store.direct.endpoint import Address
from oncekey.store.direct.errors import ConnectTimeoutError
from oncekey.testing.memory import ManualClock
from tests.support.peers import OK, Peer, failure, peer, says
from tests.support.wire import answer

if TYPE_CHECKING:
    from collections.abc import Callable

CALL_S, SPENT_S = 30, 28
LEFT_S = CALL_S - SPENT_S
CREDENTIALS = (
    b'{"AccessKeyId":"a","SecretAccessKey":"b","Token":"c","Expiration":"2099-01-01T00:00:00Z"}'
)


class Time:
    """Elapsed time that passes when a test says so."""

    def __init__(self) -> None:
        self.s = 1_000.0

    def now_s(self) -> float:
        """In place of `elapsed_s`."""
        return self.s


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    """The elapsed time of the direct transport."""
    made = Time()
    for module in (clients, connections, credentials):
        monkeypatch.setattr(module, "elapsed_s", made.now_s)
    return made


def slow(time: Time, said: bytes) -> Callable[[Peer], Any]:
    """A script that answers one request, after most of the call's time."""

    def of(made: Peer) -> Any:
        def script(connection: socket.socket) -> None:
            made.receive(connection)
            time.s += SPENT_S
            connection.sendall(said)

        return script

    return of


def timeouts(monkeypatch: pytest.MonkeyPatch, url: str, reached: int = 0) -> list[float | None]:
    """The timeouts of connecting to this URL: after `reached` times, nobody accepts."""
    real, tried = socket.socket, list[float | None]()

    class Unreachable(real):  # type: ignore[misc, valid-type]
        def connect(self, address: Any) -> None:
            if address[1] == int(url.rpartition(":")[2]):
                tried.append(self.gettimeout())
                if len(tried) > reached:
                    raise TimeoutError
            super().connect(address)

    monkeypatch.setattr(socket, "socket", Unreachable)
    return tried


def test_after_slow_credentials_a_connection_has_only_the_time_that_is_left(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials that take most of a call's time leave the connection the rest, and no third.

    Red when a call can take longer than its timeout.
    """
    with peer(slow(time, answer(CREDENTIALS, crc=False))) as metadata, peer(says(OK)) as made:
        client = made.client(
            CALL_S * 1_000,
            AWS_ACCESS_KEY_ID="",
            AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{metadata.url}/credentials",
        )
        tried = timeouts(monkeypatch, made.url)
        found = failure(client)

    assert (found.reason, found.is_harmless) == ("ConnectTimeoutError", True)
    assert tried == [LEFT_S]


def test_after_a_corrected_clock_a_connection_has_only_the_time_that_is_left(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second sending of a call shares the call's time with the first.

    Red when a call whose signature is made anew can take longer than its timeout.
    """
    headers = {"Date": "Thu, 01 Jan 1970 09:00:00 GMT", "Connection": "close"}
    with peer(slow(time, answer(b'{"__type":"a#RequestExpired"}', 400, headers))) as made:
        tried = timeouts(monkeypatch, made.url, reached=1)
        found = failure(made.client(CALL_S * 1_000, ManualClock(1_000_000)))

    assert (found.reason, found.is_harmless) == ("ConnectTimeoutError", True)
    assert tried == [CALL_S / 3, LEFT_S]


def test_a_second_tls_handshake_has_only_the_time_that_is_left(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading all authorities after a failed handshake takes time of the same call.

    Red when the second connection of a call has a third of its time again.
    """

    class Few:
        """Verifies nobody until it is widened, which takes long."""

        @property
        def context(self) -> Any:
            return self

        def wrap_socket(self, *_arguments: object, **_options: object) -> Any:
            raise ssl.SSLCertVerificationError

        def __getattr__(self, _widen: str) -> Any:
            def widen(*_arguments: object) -> bool:
                time.s += SPENT_S
                return True

            return widen

    with peer(says(OK)) as made:
        tried = timeouts(monkeypatch, made.url, reached=1)
        address = Address("127.0.0.1", int(made.url.rpartition(":")[2]))
        with pytest.raises(ConnectTimeoutError):
            connect(address, "a-host", cast("Any", Few()), CALL_S / 3, time.s + CALL_S)

    assert tried == [CALL_S / 3, LEFT_S]


def test_a_name_is_not_waited_for_when_the_time_is_over(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call whose time is over before its name is resolved is unsent.

    Red when that error is not recognised as one before the sending.
    """

    def resolves(*_arguments: object, flags: int = 0, **_options: object) -> Any:
        if flags:
            raise socket.gaierror(socket.EAI_NONAME, "no number")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", resolves)

    with pytest.raises(ConnectTimeoutError):
        connect(Address("a.example", 443), "a.example", None, 1, time.s - 1)


class NoIPv6(socket.socket):
    """The socket of a kernel without IPv6."""

    def __init__(self, family: int = -1, *arguments: Any, **options: Any) -> None:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "no such family")
        super().__init__(family, *arguments, **options)


def test_an_address_of_a_family_that_the_kernel_lacks_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name with an IPv6 address is reached by its other address.

    Red when the first address ends the call.
    """
    with peer(says(OK)) as made:
        port = int(made.url.rpartition(":")[2])
        addresses = [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_o: addresses)
        monkeypatch.setattr(socket, "socket", NoIPv6)

        made.client(AWS_ENDPOINT_URL="http://two.example").put_item(TableName="t", Item={})

    assert len(made.requests) == 1


def test_a_process_without_descriptors_has_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no socket can be made, the call is an outage, and harmless.

    Red when that failure counts as a write that may have been applied.
    """

    def no_more(*_arguments: object) -> Any:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(socket, "socket", no_more)

    found = failure(Peer(url="http://127.0.0.1:1").client())

    assert (found.reason, found.is_harmless) == ("EndpointConnectionError", True)
