"""Requests to the local service: through the gateway's checks to the function and back."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from oncekey_local.front import tokens
from oncekey_local.front.http_api_event import MAX_PAYLOAD_BYTES
from tests.support.dev_service import Meeting, running, send, watched

if TYPE_CHECKING:
    from oncekey_local.dev_process import DevProcess

NOT_FOUND = {"message": "Not Found"}
TOO_LARGE = {"message": "Request Entity Too Large"}


def echo(dev: DevProcess, body: bytes = b"{}", **headers: str | bytes) -> dict[str, Any]:
    """What the echo function was given."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = send(dev.url, "POST", "/echo?a=1", token=dev.token("acme"), headers=sent, body=body)
    assert answer.status == 200
    given: dict[str, Any] = answer.json()
    return given


def test_event_arrives(dev: DevProcess) -> None:
    """A request reaches its function as a payload 2.0 event with the caller's claims."""
    event = echo(dev, b'{"a": 1}', Content_Type="application/json", X_Thing="1")["event"]
    assert event["routeKey"] == "POST /echo"
    assert event["rawQueryString"] == "a=1"
    assert event["headers"]["x-thing"] == "1"
    assert event["headers"]["x-forwarded-for"] == "127.0.0.1"
    assert event["body"] == '{"a": 1}'
    assert event["requestContext"]["authorizer"]["jwt"]["claims"]["tenant_id"] == "acme"
    assert event["requestContext"]["http"]["sourceIp"] == "127.0.0.1"


def test_path_parameters_arrive(dev: DevProcess) -> None:
    """A path parameter arrives decoded, beside the path as it was sent."""
    answer = send(dev.url, "GET", "/echo/a%2Fb%20c", token=dev.token("acme"))
    event = answer.json()["event"]
    assert event["pathParameters"] == {"name": "a/b c"}
    assert event["rawPath"] == "/echo/a%2Fb%20c"


def test_context(dev: DevProcess) -> None:
    """The context has a request id of its own, name, ARN, memory, and the time that is left."""
    first, second = echo(dev)["context"], echo(dev)["context"]
    assert first["request_id"] != second["request_id"]
    assert first["arn"] == "arn:aws:lambda:us-east-1:123456789012:function:sample-local-echo"
    assert first["function_name"] == "sample-local-echo"
    assert first["memory_mb"] == "256"
    assert 0 < first["remaining_ms"] <= 29_000


def test_environment(dev: DevProcess) -> None:
    """A function has the description's and the command line's variables, and no developer's own."""
    environment = echo(dev)["environment"]
    assert environment["EXTRA"] == "a=b"
    assert environment["AWS_ENDPOINT_URL"] == dev.store_url
    assert environment["PROVIDER_URL"] == dev.provider_url
    assert environment["AWS_LAMBDA_FUNCTION_NAME"] == "sample-local-echo"
    assert "private" not in environment.values()


@pytest.mark.parametrize("name", ["X-Bytes", "Cookie", "User-Agent", "Idempotency-Key"])
def test_header_bytes(dev: DevProcess, name: str) -> None:
    """Header bytes beyond ASCII reach the function, each as the Latin-1 letter of that byte."""
    headers = {name: b"a=\xe9\xff"}
    event = echo(dev, **{name.replace("-", "_"): value for name, value in headers.items()})["event"]
    values = event["cookies"] if name == "Cookie" else [event["headers"][name.lower()]]
    assert values == ["a=\xe9\xff"]


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_body_bytes(dev: DevProcess, encoding: str) -> None:
    """A body arrives as the bytes that were sent, whatever encoding it claims to have."""
    body = bytes(range(256))
    event = echo(dev, body, Content_Type="application/json", Content_Encoding=encoding)["event"]
    assert event["isBase64Encoded"] is True
    assert base64.b64decode(event["body"]) == body


def test_raw_bytes_in_the_path(dev: DevProcess) -> None:
    """Bytes in the path that should have been percent-encoded are no failure of the server."""
    address = urlsplit(dev.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    connection.putrequest("GET", "/echo/x", skip_host=False)
    connection._buffer[0] = b"GET /echo/\xff\xfe?q=\xff HTTP/1.1"  # type: ignore[attr-defined]
    connection.putheader("Authorization", f"Bearer {dev.token('acme')}")
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    assert status in {200, 400}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/"),
        ("GET", "/echo"),
        ("POST", "/echo/"),
        ("GET", "/_dev/other"),
        ("POST", "/_dev/processes"),
    ],
)
def test_unknown_route(dev: DevProcess, method: str, path: str) -> None:
    """A request that fits no route is 404, with or without a token."""
    for token in (None, dev.token("acme")):
        answer = send(dev.url, method, path, token=token)
        assert (answer.status, answer.json()) == (404, NOT_FOUND)


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "Bearer nonsense",
        b"Bearer \xff",
        f"Bearer {tokens.issue(tenant='acme', expires_in_s=-1)}",
    ],
)
def test_unauthorized(dev: DevProcess, authorization: str | bytes | None) -> None:
    """A request without a good token is 401, and its function does not run."""
    with Meeting() as meeting:
        headers = {"Authorization": authorization} if authorization else {}
        answer = send(dev.url, "POST", f"/meet?port={meeting.port}", headers=headers)
        assert (answer.status, answer.json()) == (401, {"message": "Unauthorized"})
        assert dev.busy("meet") == []


@pytest.mark.parametrize(
    ("length", "content_type", "status"),
    [
        (MAX_PAYLOAD_BYTES // 2, "text/plain", 200),
        (MAX_PAYLOAD_BYTES + 1, "text/plain", 413),  # the body alone
        (MAX_PAYLOAD_BYTES, "text/plain", 413),  # with the rest of the event
        (MAX_PAYLOAD_BYTES - 1_000_000, "image/png", 413),  # as base64
        (4 * MAX_PAYLOAD_BYTES, "text/plain", 413),
    ],
)
def test_size(dev: DevProcess, length: int, content_type: str, status: int) -> None:
    """A request whose event is beyond what Lambda takes is 413."""
    headers = {"Content-Type": content_type}
    body = b"x" * length
    answer = send(dev.url, "POST", "/files/x", token=dev.token("acme"), headers=headers, body=body)
    assert answer.status == status
    if status == 413:
        assert answer.json() == TOO_LARGE


def test_expect_continue(dev: DevProcess) -> None:
    """A client that asks before it sends its body is told to go on."""
    address = urlsplit(dev.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    connection.putrequest("POST", "/echo")
    for name, value in (
        ("Authorization", f"Bearer {dev.token('acme')}"),
        ("Expect", "100-continue"),
        ("Content-Type", "text/plain"),
        ("Content-Length", "5"),
    ):
        connection.putheader(name, value)
    connection.endheaders()
    with connection.sock.makefile("rb") as stream:
        assert stream.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert stream.readline() == b"\r\n"
        connection.send(b"hello")
        assert stream.readline() == b"HTTP/1.1 200 OK\r\n"
    connection.close()


def test_side_by_side(dev: DevProcess) -> None:
    """Requests run side by side, each in a process of its own, more than were started first."""
    with Meeting() as meeting:
        for _ in range(4):
            meeting.call(dev)
        arrivals = [meeting.arrival() for _ in range(4)]
        pids = {pid for pid, _ in arrivals}
        assert len(pids) == 4
        assert set(dev.busy("meet")) == pids
        for pid, connection in arrivals:
            connection.send(f"hello {pid}")
        answers = {meeting.answer().body.decode() for _ in range(4)}
        assert answers == {f"hello {pid}" for pid in pids}


def test_queue() -> None:
    """When every sandbox is busy a request waits for one, and none runs two requests at a time."""
    with running(sandboxes=1) as dev, Meeting() as meeting:
        meeting.call(dev)
        pid, connection = meeting.arrival()
        meeting.call(dev)
        meeting.call(dev)
        for _ in range(2):
            assert dev.busy("meet") == [pid]
            connection.send("done")
            assert meeting.answer().status == 200
            next_pid, connection = meeting.arrival()
            assert next_pid == pid
        connection.send("done")
        assert meeting.answer().body == b"done"
        started = [process for process in dev.processes() if process["function"] == "meet"]
        assert [process["pid"] for process in started] == [pid]


def test_killed_in_the_middle(dev: DevProcess) -> None:
    """A sandbox killed in the middle of a request costs it a 500, and the next request works."""
    with Meeting() as meeting:
        meeting.call(dev)
        pid, _ = meeting.arrival()
        assert dev.kill_busy("meet") == pid
        answer = meeting.answer()
        assert (answer.status, answer.json()) == (500, {"message": "Internal Server Error"})
        meeting.call(dev)
        other_pid, connection = meeting.arrival()
        assert other_pid != pid
        connection.send("alive")
        assert meeting.answer().body == b"alive"


def test_idle_sandboxes_killed(dev: DevProcess) -> None:
    """Sandboxes that are killed while they wait cost no request, once their end is noticed."""
    pids = [process["pid"] for process in dev.processes() if process["function"] == "echo"]
    with watched(pids) as wait:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait()
    while set(pids) & set(dev.pids(role="function")):
        pass  # each look is a round trip through the runtime, which notices within a few
    assert echo(dev)["pid"] not in pids


def test_processes(dev: DevProcess) -> None:
    """The list of processes names each: role, function, address, and what it is busy with."""
    with Meeting() as meeting:
        meeting.call(dev)
        pid, connection = meeting.arrival()
        processes = {process["pid"]: process for process in dev.processes()}
        connection.send("")
        meeting.answer()
    busy = processes[pid]
    assert (busy["role"], busy["function"], busy["busy"]) == ("function", "meet", True)
    assert busy["request_id"]
    assert {process["role"] for process in processes.values()} == {"store", "provider", "function"}
    assert [process["address"] for process in processes.values() if process["role"] == "store"] == [
        dev.store_url
    ]
    assert send(dev.provider_url, "GET", "/nothing").status < 500


def test_answer_is_json_by_default(dev: DevProcess) -> None:
    """A result without a status code is answered as JSON, with the gateway's request id."""
    answer = send(dev.url, "POST", "/echo", token=dev.token("acme"))
    given = json.loads(answer.body)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["apigw-requestid"] == given["event"]["requestContext"]["requestId"]
