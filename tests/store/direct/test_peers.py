"""Peers that break off, stall, drip or lie: what the direct transport makes of them.

Each failure is an outage. It is harmless exactly if DynamoDB cannot have received the request.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.store.aws_errors import store_error
from oncekey.store.direct import connection as connections
from oncekey.store.direct.connection import MOST_BYTES
from oncekey.store.direct.errors import TransportError
from tests.support.peers import OK, Peer, failure, in_turn, peer, says
from tests.support.wire import answer

if TYPE_CHECKING:
    from oncekey.store.direct.client import DirectClient

ITEM = {"Item": {"pk": {"S": "v1#ä"}, "data": {"B": b"\x00\xff"}}}
BODY = json.dumps({"Item": {"pk": {"S": "v1#ä"}, "data": {"B": "AP8="}}}).encode()


def chunked(*chunks: bytes, trailer: bytes = b"") -> bytes:
    """The answer `BODY` in these chunks."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    parts = [b"%x;name=value\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks]
    return head + b"".join(parts) + b"0\r\n" + trailer + b"\r\n"


WHOLE = {
    "with a length": answer(BODY),
    "without a checksum": answer(BODY, crc=False),
    "chunked": chunked(BODY),
    "in chunks of a byte": chunked(*(bytes([byte]) for byte in BODY)),
    "with a trailer": chunked(BODY[:9], BODY[9:], trailer=b"X-After: 1\r\n"),
    "after an interim answer": b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + answer(BODY),
    "in small letters": answer(BODY).replace(b"Content-Length", b"content-length"),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("size", [100_000, 7, 1])
def test_a_whole_answer_is_read_however_it_arrives(name: str, size: int) -> None:
    """With a length or in chunks, at once or byte by byte, the answer is the same; the connection
    then carries the next call.

    Red when the end of a head, a chunk or a body is looked for in one piece of it only.
    """
    data = WHOLE[name]
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    with peer(says(*pieces)) as made:
        client = made.client()
        answers = [client.get_item(TableName="a-table", Key={}) for _ in range(2)]

    assert [each["Item"] for each in answers] == [ITEM["Item"]] * 2
    assert made.accepted == 1


def test_a_page_of_a_megabyte_is_read() -> None:
    """The largest page that DynamoDB gives arrives whole."""
    items = [{"pk": {"S": "x" * 1000}, "n": {"N": str(number)}} for number in range(1_000)]
    with peer(says(answer(json.dumps({"Items": items}).encode()))) as made:
        assert made.client().query(TableName="a-table")["Items"] == items


NO_ANSWER = {
    "closes at once": (b"", "ConnectionClosedError"),
    "closes in the head": (b"HTTP/1.1 200 OK\r\nContent-Le", "ConnectionClosedError"),
    "closes after the head": (answer(BODY).removesuffix(BODY), "ConnectionClosedError"),
    "closes in the body": (answer(BODY)[:-1], "ConnectionClosedError"),
    "closes in a chunk": (chunked(BODY)[:-12], "ConnectionClosedError"),
    "closes before the last chunk": (chunked(BODY)[:-5], "ConnectionClosedError"),
    "is damaged": (answer(BODY).replace(b"v1", b"v2"), "ChecksumError"),
    "has another checksum": (answer(BODY, headers={"x-amz-crc32": "1"}), "ChecksumError"),
    "is no JSON": (answer(b"<html>"), "ResponseParserError"),
    "is JSON, and no object": (answer(b"[]"), "ResponseParserError"),
    "is empty": (answer(b""), "ResponseParserError"),
    "is no UTF-8": (answer(b'{"a":"\xff"}'), "ResponseParserError"),
    "has binary that is none": (answer(b'{"Item":{"a":{"B":"A"}}}'), "ResponseParserError"),
    "is no HTTP": (b"220 mail.example ESMTP\r\n\r\n", "ResponseParserError"),
    "has a status that is no number": (b"HTTP/1.1 2x0 OK\r\n\r\n", "ResponseParserError"),
    "has no length": (b"HTTP/1.1 200 OK\r\n\r\n{}", "ResponseParserError"),
    "has two lengths": (answer(b"{}", headers={"content-length": "3"}), "ResponseParserError"),
    "has a negative length": (answer(b"{}").replace(b": 2", b": -2"), "ResponseParserError"),
    "has a length that is too long": (
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MOST_BYTES + 1),
        "ResponseParserError",
    ),
    "has a chunk that is too long": (chunked(BODY)[:47] + b"ffffffff\r\n", "ResponseParserError"),
    "has a chunk of no size": (chunked(BODY)[:47] + b"-1\r\n", "ResponseParserError"),
    "has a chunk without an end": (
        chunked(BODY).replace(BODY, BODY + b"?"),
        "ResponseParserError",
    ),
    "has another encoding": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "ResponseParserError",
    ),
    "has a head without an end": (
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
        "ResponseParserError",
    ),
}


@pytest.mark.parametrize("name", NO_ANSWER)
def test_an_answer_that_is_not_whole_and_sound_may_have_been_applied(name: str) -> None:
    """Whatever is wrong with an answer, the call is an outage that may have been applied, and its
    connection is not used again.

    Red when a damaged answer is believed, or a request that DynamoDB has received counts as unsent.
    """
    data, reason = NO_ANSWER[name]
    with peer(says(data, closes=True), says(OK)) as made:
        client = made.client()
        found = failure(client)
        client.put_item(TableName="a-table", Item={})

    assert (found.reason, found.is_harmless) == (reason, False)
    assert len(made.requests) == made.accepted == 2


def test_more_than_an_answer_is_never_taken_for_the_next_one() -> None:
    """What follows an answer on its connection is dropped with the connection.

    Red when a second answer that nobody asked for is given to the next call.
    """
    with peer(says(OK + answer(BODY)), says(OK)) as made:
        client = made.client()
        client.get_item(TableName="a-table", Key={})

        assert "Item" not in client.get_item(TableName="a-table", Key={})
    assert made.accepted == 2


def test_a_chunked_answer_that_grows_beyond_the_limit_is_given_up() -> None:
    """The limit of an answer's size holds for the sum of its chunks."""

    def grows(made: Peer) -> Any:
        def script(connection: socket.socket) -> None:
            made.receive(connection)
            connection.sendall(chunked()[:47])
            chunk = b"%x\r\n%b\r\n" % (1_000_000, b"x" * 1_000_000)
            for _ in itertools.repeat(None):
                connection.sendall(chunk)

        return script

    with peer(grows) as made:
        assert failure(made.client()).reason == "ResponseParserError"


def drips(made: Peer) -> Any:
    """A script that sends the head of an answer one byte at a time, without an end."""

    def script(connection: socket.socket) -> None:
        made.receive(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Drip: ")
        for _ in itertools.repeat(None):
            connection.sendall(b"x")

    return script


def test_a_peer_that_drips_does_not_prolong_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline is that of the whole call: each byte leaves less time for the next one.

    Red when every byte that arrives starts the timeout again.
    """
    asked = itertools.count()
    # A hundredth of a second passes each time that somebody looks at the clock.
    monkeypatch.setattr(connections, "elapsed_s", lambda: next(asked) / 100)
    monkeypatch.setattr("oncekey.store.direct.client.elapsed_s", lambda: 0.0)
    with peer(drips) as made:
        found = failure(made.client(1_500))

    assert (found.reason, found.is_harmless) == ("ReadTimeoutError", False)
    assert next(asked) <= 155


def hurried(made: Peer) -> DirectClient:
    """A client that has a connection, and from now on little time, however busy the machine is."""
    client = made.client()
    client.get_item(TableName="a-table", Key={})
    client._timeout_s = 0.1
    return client


def test_a_silent_peer_costs_the_call_its_time() -> None:
    """A peer that takes the request and says nothing: a timeout; the request may be applied."""
    with peer(in_turn(OK, b"")) as made:
        found = failure(hurried(made))

    assert (found.reason, found.is_harmless) == ("ReadTimeoutError", False)


def test_a_request_that_the_peer_does_not_take_is_unsent() -> None:
    """A peer that accepts and does not read: the request never left whole, so nothing is applied.

    Red when a stalled sending counts as possibly applied, or is not bounded.
    """
    release = threading.Event()

    def deaf(made: Peer) -> Any:
        def script(connection: socket.socket) -> None:
            made.receive(connection)
            connection.sendall(OK)
            release.wait()

        return script

    with peer(deaf) as made, contextlib.ExitStack() as after:
        after.callback(release.set)
        client = hurried(made)
        with pytest.raises(TransportError) as raised:
            client.put_item(TableName="a-table", Item={"data": {"B": b"x" * 15_000_000}})

    found = store_error(raised.value)
    assert (found.reason, found.is_outage, found.is_harmless) == ("RequestNotSent", True, True)


def closed_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def test_a_refused_connection_is_unsent() -> None:
    """Nobody listens: an outage, and harmless."""
    found = failure(Peer(url=f"http://127.0.0.1:{closed_port()}").client())

    assert (found.reason, found.is_harmless) == ("EndpointConnectionError", True)


def test_a_name_without_an_address_is_unsent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The resolver finds nothing: an outage, and harmless."""

    def knows_nothing(*_arguments: object, **_options: object) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", knows_nothing)

    found = failure(Peer(url="http://nowhere.example").client())

    assert (found.reason, found.is_harmless) == ("EndpointConnectionError", True)


def test_a_resolver_that_stalls_does_not_hold_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's resolver has no timeout: the call ends without it, and so does the process.

    Red when the call waits for the resolver, or its thread keeps the process alive.
    """
    release = threading.Event()

    def stalls(*_arguments: object, flags: int = 0, **_options: object) -> Any:
        if not flags:
            release.wait()
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", stalls)

    found = failure(Peer(url="http://slow.example").client(150))
    asking = [each for each in threading.enumerate() if each.name == "oncekey-dns"]
    release.set()

    assert asking
    assert all(each.daemon for each in asking)

    assert (found.reason, found.is_harmless) == ("ConnectTimeoutError", True)


def test_a_process_without_another_thread_resolves_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If no thread can be started, the name is resolved all the same.

    Red when a process at its limit of threads makes no more calls, as by a mistake in code.
    """
    with peer(says(OK)) as made:
        client = made.client(AWS_ENDPOINT_URL=made.url.replace("127.0.0.1", "localhost"))
        started = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            if thread.name == "oncekey-dns":
                raise RuntimeError("can't start new thread")
            started(thread)

        monkeypatch.setattr(threading.Thread, "start", start)
        client.get_item(TableName="t", Key={})

    assert len(made.requests) == 1


def test_a_connection_that_is_not_accepted_in_time_is_unsent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither address answers: each gets its share of the time for connections, then the call ends.

    Red when the first one takes all the time, or the failure counts as possibly applied.
    """
    tried: list[tuple[Any, float | None]] = []

    class Unreachable(socket.socket):
        def connect(self, address: Any) -> None:
            tried.append((address, self.gettimeout()))
            raise TimeoutError

    found_by_name = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"192.0.2.{n}", 443)) for n in (1, 2)
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_o: found_by_name)
    monkeypatch.setattr(socket, "socket", Unreachable)

    found = failure(Peer(url="http://slow.example").client(30_000))

    assert (found.reason, found.is_harmless) == ("ConnectTimeoutError", True)
    (first, first_s), (second, second_s) = tried
    assert (first[0], second[0]) == ("192.0.2.1", "192.0.2.2")
    # A third of the call's time is for the connection, and half of that for the first address.
    assert 4 < (first_s or 0) <= 5 < (second_s or 0) <= 10


def test_the_second_address_is_used_if_the_first_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name with two addresses is reached as long as one of them answers."""
    with peer(says(OK)) as made:
        port = int(made.url.rpartition(":")[2])
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        addresses = [(*kind, ("127.0.0.1", closed_port())), (*kind, ("127.0.0.1", port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_o: addresses)

        made.client(AWS_ENDPOINT_URL="http://two.example").put_item(TableName="a-table", Item={})

    assert len(made.requests) == 1
