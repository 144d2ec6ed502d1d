"""Functions that end badly: what the client sees, and that the service goes on."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.dev_service import Meeting, running, send

if TYPE_CHECKING:
    from pathlib import Path

    from oncekey_local.dev_process import DevProcess
    from tests.support.dev_service import Answer

pytestmark = pytest.mark.proof

ERROR = (500, {"message": "Internal Server Error"})
BROKEN = "tests.support.sample_service:BROKEN"


def post(dev: DevProcess, path: str, body: bytes = b"") -> Answer:
    """The answer to a JSON request."""
    headers = {"Content-Type": "application/json"}
    return send(dev.url, "POST", path, token=dev.token("acme"), headers=headers, body=body)


@pytest.mark.parametrize("path", ["/fail", "/leave", "/huge"])
def test_function_error(failing: DevProcess, path: str) -> None:
    """A function that raises, ends its process or returns too much is 500, time after time."""
    for _ in range(3):
        answer = post(failing, path)
        assert (answer.status, answer.json()) == ERROR


@pytest.mark.parametrize("result", [{"statusCode": "no"}, {"statusCode": 200, "body": {}}])
def test_invalid_response(failing: DevProcess, result: Any) -> None:
    """A result that is no response is 500."""
    answer = post(failing, "/respond", json.dumps(result).encode())
    assert (answer.status, answer.json()) == ERROR


def test_valid_response(failing: DevProcess) -> None:
    """Status, headers and every cookie of a result reach the client."""
    result = {"statusCode": 202, "headers": {"X-A": "ü"}, "cookies": ["a=1", "b=2"], "body": "ok"}
    answer = post(failing, "/respond", json.dumps(result).encode())
    assert (answer.status, answer.body) == (202, b"ok")
    assert answer.headers["x-a"].encode("latin-1").decode() == "ü"
    assert [value for name, value in answer.header_lines if name.lower() == "set-cookie"] == [
        "a=1",
        "b=2",
    ]


def test_output_is_forwarded(failing: DevProcess) -> None:
    """What a function prints, and how it fails, is on standard error under its name."""
    post(failing, "/leave")
    post(failing, "/fail")
    log = failing.log()
    assert "[leave " in log
    assert "] on standard output\n" in log
    assert "] on standard error\n" in log
    # Other tests of this file may have called the same function.
    ended = [line for line in log.splitlines() if "ended with status 7 while it ran" in line]
    requests = re.findall(r"^POST /leave 500 \d+ ms (\S+)$", log, re.MULTILINE)
    assert requests
    assert [line.rpartition(" (")[2] for line in ended] == [
        f"POST /leave {request})" for request in requests
    ]
    assert "]     raise ValueError(" in log


def test_timeout() -> None:
    """A function that does not end is killed at its timeout: a 503, and the next request works."""
    with (
        running("tests.support.sample_service:FAILING", timeout_s=1) as dev,
        Meeting() as meeting,
    ):
        for _ in range(2):
            meeting.call(dev, "/spin")
            pid, connection = meeting.arrival()
            connection.send("go")
            answer = meeting.answer()
            assert (answer.status, answer.json()) == (503, {"message": "Service Unavailable"})
            assert pid not in dev.pids()
            assert f"[spin {pid}] request " in dev.log()


def test_broken_from_the_start() -> None:
    """A module that fails on import ends `oncekey dev` with status 1, traceback and name."""
    with pytest.raises(RuntimeError) as error, running(BROKEN):
        pass
    message = str(error.value)
    assert "ended with status 1" in message
    assert "RuntimeError: this module fails on import" in message
    assert "function 'broken' does not start" in message
    assert "LAMBDA_WARNING" not in message


def test_broken_later(tmp_path: Path) -> None:
    """A function that cannot start any more costs each request a 500, and can recover.

    It is tried once for each request, and not in a loop.
    """
    switch = tmp_path / "broken"
    with running(BROKEN, env={"BREAK_WHEN": str(switch)}) as dev:
        assert post(dev, "/broken").status == 200
        switch.touch()
        for _ in range(2):  # the two that run end; each is replaced once, in vain
            assert post(dev, "/broken").status == 500
        while dev.pids(role="function"):
            pass
        before = dev.log().count("did not start")
        assert before <= 2
        assert (post(dev, "/broken").status, dev.pids(role="function")) == (500, [])
        assert dev.log().count("did not start") == before + 1
        switch.unlink()
        assert post(dev, "/broken").status == 200


def test_a_process_that_is_killed_as_it_starts_costs_no_request_its_answer(tmp_path: Path) -> None:
    """As in Lambda, where a call is repeated whose host is lost before the function has it: a
    message of a queue does not wait out its visibility timeout for that.

    Red when a killed start is taken for a function that cannot start.
    """
    lost = tmp_path / "lost"
    lost.touch()
    env = {"BREAK_WHEN": str(tmp_path / "broken"), "LOSE_WHEN": str(lost)}
    with running(BROKEN, env=env, sandboxes=1) as dev:
        assert post(dev, "/broken").status == 200
        lost.write_text("xx")
        assert post(dev, "/broken").status == 500  # it was running

        assert post(dev, "/broken").status == 200
        assert lost.read_text() == ""
