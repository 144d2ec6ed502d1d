"""What other threads do at the same moment does not make a call of the direct client fail."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oncekey.store.aws_errors import is_refusal
from oncekey.store.direct.errors import client_error
from oncekey.testing.memory import ManualClock
from tests.support.peers import OK, Peer, in_turn, peer
from tests.support.wire import answer

if TYPE_CHECKING:
    import socket

    import pytest


def test_a_refusal_is_one_while_another_thread_loads_botocore(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A module that another thread is loading is known before it has its classes.

    Red when a failed condition is then taken for a mistake in code.
    """
    monkeypatch.setitem(sys.modules, "botocore.exceptions", ModuleType("botocore.exceptions"))
    code = "ConditionalCheckFailedException"

    error = client_error({"Error": {"Code": code, "Message": ""}}, "PutItem")

    assert is_refusal(error)


def test_each_of_several_calls_with_a_wrong_clock_is_signed_anew() -> None:
    """Two calls are signed by a wrong clock. The first refusal corrects the clock, and the second
    call is signed anew as well.

    Red when only the thread that corrects the clock repeats its call.
    """
    headers = {"Date": "Thu, 01 Jan 1970 09:00:00 GMT"}
    refused = answer(b'{"__type":"a#InvalidSignatureException"}', 400, headers)
    received, corrected = threading.Event(), threading.Event()

    def late(made: Peer) -> Any:
        def script(connection: socket.socket) -> None:
            made.receive(connection)
            received.set()
            corrected.wait()
            connection.sendall(refused)
            while made.receive(connection):
                connection.sendall(OK)

        return script

    answers: list[dict[str, Any]] = []
    with peer(late, in_turn(b"", refused, OK)) as made:
        client = made.client(clock=ManualClock(1_000_000))

        def call() -> None:
            answers.append(client.get_item(TableName="t", Key={}))

        first = threading.Thread(target=call)
        first.start()
        received.wait()
        call()
        corrected.set()
        first.join()

    assert len(answers) == 2
    assert len(made.requests) == 4


class Idle:
    """An idle connection. When it is closed, another thread does something."""

    def __init__(self, meanwhile: Any = None) -> None:
        self.is_closed = False
        self._meanwhile = meanwhile

    def close(self) -> None:
        """Close it."""
        self.is_closed = True
        if self._meanwhile is not None:
            self._meanwhile()


def test_a_client_is_closed_while_another_thread_ends_its_call() -> None:
    """A connection that a thread gives back while the client is closed is closed, too.

    Red when closing a client raises, or leaves that connection open.
    """
    client: Any = Peer(url="http://127.0.0.1:1").client()
    idle, late = client._idle, Idle()
    first = Idle(lambda: idle.append(late))
    idle.extend([Idle(), first])

    client.close()

    assert first.is_closed
    assert late.is_closed
    assert not idle
