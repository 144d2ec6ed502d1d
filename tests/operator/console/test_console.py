"""The console's handlers: what each request gets, without a browser."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from oncekey.record.record import Due, Status
from oncekey.record.references import reference_to
from oncekey_operator.console.console import Access, Console
from oncekey_operator.console.desk import Wanted
from oncekey_operator.console.server import ConsoleServer, request_of
from tests.support.console_desk import (
    REFUSED,
    STORE_DOWN,
    TOKEN,
    GivenDesk,
    console,
    get,
    message,
    post,
    unknown,
)
from tests.support.records import NOW_MS, STEPS

if TYPE_CHECKING:
    from oncekey.record.record import Record

# The reconciler postpones a record by a day before it tells a person.
TOLD = Due(shard="5", at_ms=NOW_MS + 86_400_000)


def shown(one: Record, **access: Any) -> dict[str, Any]:
    """What the page gets of one operation."""
    path = f"api/operations/{reference_to(one)}"
    said: dict[str, Any] = json.loads(console(GivenDesk(one), **access).handle(get(path)).body)
    return said


def test_the_list_has_state_attempt_and_age() -> None:
    """A line has what the list shows, and the state in words of its own."""
    one = unknown(status=Status.UNKNOWN, due=TOLD)

    said = json.loads(console(GivenDesk(one)).handle(get("api/operations")).body)

    (row,) = said["rows"]
    assert (row["state"], row["remarks"], row["attempt"]) == ("unknown", ["escalated"], 3)
    assert said["now"] - row["created_at"] == 90_000


def test_the_filter_reaches_the_store() -> None:
    """State, tenant and operation are conditions of the listing, not of the page."""
    desk = GivenDesk()
    query = {"state": "unknown", "tenant": "acme", "operation": "refunds", "settled": "1"}

    console(desk).handle(get("api/operations", query=query))

    expected = Wanted(state="unknown", tenant="acme", operation="refunds", settled=True)
    assert desk.wanted == [expected]


@pytest.mark.parametrize("path", ["api/operations", "detail"])
def test_no_key_payload_or_answer_is_shown(path: str) -> None:
    """Neither the list nor an operation has what a client or a handler sent."""
    one = unknown(steps=STEPS["finished and started"])
    asked = f"api/operations/{reference_to(one)}" if path == "detail" else path

    body = console(GivenDesk(one)).handle(get(asked)).body.decode()

    for secret in ("secret", "user-1", '\\"id\\"', "f1:asked", "owner-1"):
        assert secret not in body


def test_the_command_that_is_shown_works_on_the_same_service() -> None:
    """Whoever copies it need not know how the console was started."""
    said = shown(unknown(status=Status.UNKNOWN))

    assert said["command"].endswith(" --attempt 3 --table payments")


def test_the_key_is_shown_where_the_command_reveals_it() -> None:
    """A switch of the command, and no request, reveals the key and the answer."""
    assert shown(unknown(), reveals=True)["revealed"]["key"] == "secret-key-0123456789"
    assert "revealed" not in shown(unknown())


def test_the_timeline_says_what_the_record_knows_and_what_it_does_not() -> None:
    """The events are in the order of time; earlier attempts and turns are named as not known."""
    one = unknown(
        status=Status.UNKNOWN,
        lease_until_ms=NOW_MS - 500,
        last_error="lease-expired",
        steps=STEPS["finished and started"],
        due=TOLD,
    )

    said = shown(one)

    assert [event["title"] for event in said["timeline"]] == [
        "Reserved",
        "Escalated",
        "Step create order.1 ✓ finished",
        "Commit committed",
        "Step charge started",
        "The lease ended",
        "The reconciler looks next",
    ]
    gaps = " ".join(said["not_known"])
    assert "attempts 1 to 2" in gaps
    assert "2 turns" in gaps
    assert "became unknown" in gaps


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [(STORE_DOWN, 503, "no answer"), (REFUSED, 409, "still running")],
)
def test_a_failure_is_said_and_leaves_the_console_running(
    given: Exception, status: int, said: str
) -> None:
    """A store that does not answer, and a state that does not permit the action, are answers."""
    desk = GivenDesk(trouble=given)

    response = console(desk, changes=True).handle(post("api/redrive", b'{"queue": "payments"}'))

    assert response.status == status
    assert said in message(response)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("api/operations/nothing", 400),
        (f"api/operations/v1#{'B' * 43}.0f8fad5b-d9cb-469f-a165-70867728950e", 404),
        ("api/elsewhere", 404),
        ("api/workshop", 404),
        ("../exchange.py", 404),
    ],
)
def test_what_is_not_there_is_said(path: str, status: int) -> None:
    """A wrong reference, an operation that is gone, and a path that the console does not have."""
    assert console(GivenDesk(unknown())).handle(get(path)).status == status


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"{", b"[" * 100_000, b'{"reference": 7}', b"{}"),
        # Python reads all of them, and no client and no table takes them.
        *(b'{"reference": "v", "answer": NaN}', b'{"reference": "v", "reason": "\\ud800"}'),
        b'{"reference": "v", "answer": {"body": {"amount": 1e400}}}',
    ],
)
def test_a_wrong_body_is_refused(body: bytes) -> None:
    """An action is an object with what it needs; nothing else reaches the desk."""
    desk = GivenDesk()

    assert console(desk, changes=True).handle(post("api/settle", body)).status == 400
    assert desk.done == []


def test_the_server_serves_the_page_and_the_api_on_the_loopback_address() -> None:
    """Over a socket: the page with its policy, an operation by its reference, and a refusal."""
    one = unknown()
    server = ConsoleServer(Console(GivenDesk(one), Access(token=TOKEN)), 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        assert server.server_address[0] == "127.0.0.1"
        own = {"X-Oncekey-Console": TOKEN}
        page, policy = _ask(server, "/", {})
        assert page == 200
        assert policy
        path = f"/api/operations/{quote(reference_to(one), safe='')}"
        assert _ask(server, path, own)[0] == 200
        assert _ask(server, path, {**own, "Host": "evil.example"})[0] == 403
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _SlowDesk(GivenDesk):
    """A desk that says when it is asked, and answers when the page is gone."""

    def __init__(self) -> None:
        super().__init__(unknown())
        self.is_asked, self.is_gone = threading.Event(), threading.Event()

    def operations(self, wanted: Wanted) -> Any:
        """See `Desk`."""
        self.is_asked.set()
        assert self.is_gone.wait(30)
        return super().operations(wanted)


@pytest.mark.parametrize("target", ["//[", "//[x/api/operations", "//a:b/", "/?" + "a" * 2000])
def test_an_address_that_is_none_is_no_failure(target: str) -> None:
    """Its path is taken as it is, and nothing is there."""
    asked = request_of("GET", target, dict(get("").headers), b"")

    assert console(GivenDesk()).handle(asked).status in {200, 404}


def test_a_page_that_is_closed_early_leaves_no_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The terminal of `oncekey console` shows its address, and nothing of each closed page."""
    desk = _SlowDesk()
    server = ConsoleServer(Console(desk, Access(token=TOKEN)), 0)
    # Its thread is waited for, so that it has written what it writes.
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with socket.create_connection(("127.0.0.1", server.server_port)) as page:
            host = f"127.0.0.1:{server.server_port}"
            head = f"GET /api/operations HTTP/1.1\r\nHost: {host}\r\nX-Oncekey-Console: {TOKEN}"
            page.sendall(f"{head}\r\n\r\n".encode())
            assert desk.is_asked.wait(30)
            # Closed with a reset, as by a browser with data that nobody reads.
            page.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        desk.is_gone.set()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

    assert capfd.readouterr().err == ""


def _ask(server: ConsoleServer, path: str, headers: dict[str, str]) -> tuple[int, str | None]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, response.headers["Content-Security-Policy"]
