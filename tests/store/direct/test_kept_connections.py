"""Connections that are kept: many calls on one, and none on one that may be dead."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.store.direct.connection import Connection
from oncekey.store.direct.errors import ConnectionClosedError, RequestNotSent, TransportError
from oncekey.testing.memory import ManualClock
from tests.support.peers import OK, Peer, failure, peer, says

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.store.direct.client import DirectClient

IDLE_MS = 50_000


def put(client: DirectClient) -> None:
    """One call."""
    client.put_item(TableName="a-table", Item={})


def test_calls_follow_each_other_on_one_connection() -> None:
    """One connection carries all calls of a thread."""
    with peer(says(OK)) as made:
        client = made.client()
        for _ in range(5):
            put(client)

    assert (made.accepted, len(made.requests)) == (1, 5)


@pytest.mark.parametrize("how", [socket.SHUT_WR, socket.SHUT_RDWR])
def test_a_connection_that_the_peer_has_closed_is_found_before_a_call(how: int) -> None:
    """A peer closes an idle connection, wholly or for its answers: the next call takes a new one,
    and each request is sent once.

    Red when a reserve is sent on a dead connection.
    """
    closed = threading.Event()

    def closes(made: Peer) -> Any:
        def script(connection: socket.socket) -> None:
            made.receive(connection)
            connection.sendall(OK)
            connection.shutdown(how)
            closed.set()
            if how == socket.SHUT_WR:
                made.receive(connection)

        return script

    with peer(closes, says(OK)) as made:
        client = made.client()
        put(client)
        closed.wait()
        put(client)

    assert (made.accepted, len(made.requests)) == (2, 2)


def test_a_connection_that_the_peer_announces_to_close_is_not_kept() -> None:
    """`Connection: close`, and HTTP/1.0, end a connection with its answer."""
    for last in (
        OK.replace(b"Content-Type", b"Connection: close\r\nContent-Type"),
        OK.replace(b"HTTP/1.1", b"HTTP/1.0"),
    ):
        with peer(says(last)) as made:
            client = made.client()
            put(client)
            assert not client._idle


@pytest.mark.parametrize(
    ("idle_ms", "accepted"), [(IDLE_MS, 1), (IDLE_MS + 1, 2), (-1, 2), (3_600_000, 2)]
)
def test_a_connection_of_a_frozen_sandbox_is_not_used(idle_ms: int, accepted: int) -> None:
    """A sandbox that was frozen does not see that its peer is gone. So a connection that was idle
    for more than 50 s by the wall clock, or whose age is not known, is not used again.

    Red when the age is not looked at, or measured by a clock that stands still meanwhile.
    """
    clock = ManualClock()
    with peer(says(OK)) as made:
        client = made.client(clock=clock)
        put(client)
        clock.advance(idle_ms)
        put(client)

    assert made.accepted == accepted


def broken(cause: BaseException) -> RequestNotSent:
    """A sending that failed for this cause."""
    error = RequestNotSent()
    error.__cause__ = cause
    return error


def breaks_second(monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[Connection]:
    """The second exchange fails with `error`; returns the connections of all, in order."""
    used: list[Connection] = []
    real = Connection.exchange

    def exchange(connection: Connection, request: bytes, deadline_s: float) -> Any:
        used.append(connection)
        if len(used) == 2:
            raise error
        return real(connection, request, deadline_s)

    monkeypatch.setattr(Connection, "exchange", exchange)
    return used


def test_a_request_that_a_dead_connection_did_not_take_is_sent_again_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kept connection breaks while the request is sent: the same call sends it on a new one.

    Red when a dead connection fails a call that DynamoDB has not seen.
    """
    used = breaks_second(monkeypatch, broken(BrokenPipeError()))
    with peer(says(OK)) as made:
        client = made.client()
        put(client)
        put(client)

    assert (made.accepted, len(used)) == (2, 3)
    assert used[0] is used[1] is not used[2]


@pytest.mark.parametrize("error", [broken(TimeoutError()), ConnectionClosedError()])
def test_a_request_that_may_have_arrived_or_took_the_time_is_not_sent_again(
    monkeypatch: pytest.MonkeyPatch, error: TransportError
) -> None:
    """After the last byte, or at the end of the time, only the caller may send it again.

    Red when the transport repeats a call that DynamoDB may have carried out.
    """
    used = breaks_second(monkeypatch, error)
    with peer(says(OK)) as made:
        client = made.client()
        put(client)
        failure(client)

    assert (made.accepted, len(used)) == (1, 2)


def test_a_new_connection_that_breaks_is_not_followed_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One call makes at most one new connection.

    Red when the transport retries by itself.
    """
    used: list[Connection] = []

    def breaks(connection: Connection, *_arguments: object) -> Any:
        used.append(connection)
        raise broken(BrokenPipeError())

    monkeypatch.setattr(Connection, "exchange", breaks)
    with peer(says(OK)) as made:
        assert failure(made.client()).is_harmless

    assert len(used) == 1


def test_threads_have_a_connection_each_and_share_them_afterwards() -> None:
    """Calls of eight threads at the same time use eight connections; later calls use these.

    Red when a thread waits for another one's answer, or finds it.
    """
    together = threading.Barrier(8)

    def waits(made: Peer) -> Any:
        def script(connection: socket.socket) -> None:
            while made.receive(connection):
                with contextlib.suppress(threading.BrokenBarrierError):
                    together.wait()
                connection.sendall(OK)

        return script

    with peer(waits) as made:
        client = made.client()
        threads = [threading.Thread(target=put, args=(client,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        together.abort()
        for _ in range(20):
            put(client)

    assert made.accepted == 8
    assert len(made.requests) == 28


def test_a_forked_process_leaves_its_parents_connections_alone() -> None:
    """The child makes a connection of its own; the parent goes on with its.

    Red when two processes write to one connection.
    """
    with peer(says(OK)) as made:
        client = made.client()
        put(client)
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                put(client)
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        put(client)

    assert (made.accepted, len(made.requests)) == (2, 3)


def test_a_restored_snapshot_has_no_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """With SnapStart, the runtime calls the client after the restore: connections and credentials
    from before the snapshot are forgotten.

    Red when a connection or a token of the time before the snapshot is used after it.
    """
    hooks: list[Callable[[], None]] = []
    runtime: Any = ModuleType("snapshot_restore_py")
    runtime.register_after_restore = hooks.append
    monkeypatch.setitem(sys.modules, "snapshot_restore_py", runtime)
    with peer(says(OK)) as made:
        client = made.client(AWS_LAMBDA_INITIALIZATION_TYPE="snap-start")
        put(client)
        (after_restore,) = hooks
        after_restore()
        put(client)

        made.client()
    assert made.accepted == 2
    assert len(hooks) == 1


def test_no_more_connections_are_kept_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection above the limit is closed after its call.

    Red when a burst of threads leaves its connections open for ever.
    """
    monkeypatch.setattr("oncekey.store.direct.client._MOST_IDLE_CONNECTIONS", 1)
    with peer(says(OK)) as made:
        client = made.client()
        put(client)
        (kept,) = client._idle
        client._idle.appendleft(kept)
        put(client)

        assert list(client._idle) == [kept]


def test_an_idle_connection_is_closed_with_the_client() -> None:
    """`close` closes what is idle, and the client goes on with new connections."""
    with peer(says(OK)) as made:
        client = made.client()
        put(client)
        client.close()
        put(client)

    assert made.accepted == 2
