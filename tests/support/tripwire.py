"""Every HTTP request that a process sends, on record, and the call at which the process ends.

It stands below every client, in `http.client`, so that no call goes past it: botocore's, that of
`requests`, and any other. The direct transport has connections of its own; it stands in these, too.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.store.direct.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.store.direct.connection import Answer

_CONNECTION: Any = http.client.HTTPConnection
# Beyond them stands what differs from run to run: the names of objects.
_SEGMENTS_IN_NAME = 2


@dataclass(frozen=True)
class Stop:
    """Before the call of this number is sent, or after it was answered, this signal."""

    when: str
    number: int
    signal: int

    def __str__(self) -> str:
        return f"{self.when} call {self.number}"


@dataclass
class _Call:
    number: int
    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Whose operation it is: DynamoDB's by its name, any other by method and path."""
        target = self.headers.get("x-amz-target")
        if target is not None:
            return target.rpartition(".")[2]
        segments = self.path.partition("?")[0].split("/")[1 : 1 + _SEGMENTS_IN_NAME]
        return f"{self.method} /{'/'.join(segments)}"


class Tripwire:
    """Writes a journal, one JSON object a line, and sends this process its signal at `stop`."""

    def __init__(self, journal: str, stop: Stop | None) -> None:
        self._journal = os.open(journal, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self._stop = stop
        self._number = 0
        self._calls: dict[int, _Call] = {}

    def note(self, event: str, **facts: object) -> None:
        """One line; it is with the kernel when this returns, whatever becomes of the process."""
        os.write(self._journal, json.dumps({"event": event, **facts}).encode() + b"\n")

    def install(self) -> None:
        """From now on, every request of this process is on record."""
        self._wrap("putrequest", before=self._begun)
        self._wrap("putheader", before=self._with_header)
        self._wrap("endheaders", before=self._about_to_send)
        self._wrap("getresponse", after=self._answered)
        exchange = Connection.exchange

        def wrapped(connection: Connection, request: bytes, deadline_s: float) -> Any:
            self._begun(connection, "POST", "/")
            target = request.partition(b"X-Amz-Target: ")[2].partition(b"\r\n")[0]
            self._with_header(connection, "X-Amz-Target", target)
            self._about_to_send(connection)
            answer = exchange(connection, request, deadline_s)
            self._answered(connection, answer)
            return answer

        Connection.exchange = wrapped  # type: ignore[method-assign, assignment]  # for this process alone

    @staticmethod
    def _wrap(
        name: str,
        before: Callable[..., None] | None = None,
        after: Callable[..., None] | None = None,
    ) -> None:
        original = getattr(_CONNECTION, name)

        def wrapped(connection: Any, *arguments: Any, **options: Any) -> Any:
            if before is not None:
                before(connection, *arguments)
            result = original(connection, *arguments, **options)
            if after is not None:
                after(connection, result)
            return result

        setattr(_CONNECTION, name, wrapped)

    def _begun(self, connection: object, method: str, path: str, *_: object) -> None:
        self._number += 1
        self._calls[id(connection)] = _Call(self._number, method, path)

    def _with_header(self, connection: object, name: str | bytes, *values: object) -> None:
        self._calls[id(connection)].headers[_text(name).lower()] = _text(values[0])

    def _about_to_send(self, connection: object, *_: object) -> None:
        call = self._calls[id(connection)]
        key = call.headers.get("idempotency-key")
        self.note("sending", number=call.number, call=call.name, key=key)
        self._stop_here("before", call)

    def _answered(self, connection: object, response: http.client.HTTPResponse | Answer) -> None:
        call = self._calls[id(connection)]
        self.note("answered", number=call.number, call=call.name, status=response.status)
        self._stop_here("after", call)

    def _stop_here(self, when: str, call: _Call) -> None:
        if self._stop is not None and (when, call.number) == (self._stop.when, self._stop.number):
            # To this thread: one sent to the process may meet another thread, and this one goes on
            # for a moment. To kill or stop any thread is to kill or stop all of them.
            signal.pthread_kill(threading.get_ident(), self._stop.signal)


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
