"""The request that `oncekey dev` prints for whoever tries it by hand."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.service import SERVICE as REFERENCE
from oncekey_local.description import Function, Route, Service
from oncekey_local.first_steps import oncekey_command, request_to_send
from tests.support.dev_service import ROOT, send

if TYPE_CHECKING:
    from oncekey_local.dev_process import DevProcess

# A shell's own `curl`, which only shows what it was called with.
SHOW = "curl() { printf '%s\\0' \"$@\"; }\n"


def printed_request(dev: DevProcess, after: str = "a request, to be sent twice:\n") -> str:
    """The lines after the announcement, as a person copies them."""
    lines = dev.log().split(after)[1].splitlines()
    end = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
    return "\n".join(lines[: end + 1])


def run_in_shell(script: str) -> str:
    """What a newcomer's shell makes of it: in the directory of `oncekey dev`, no .venv on PATH."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(folder for folder in folders if not (Path(folder) / "oncekey").exists())
    ended = subprocess.run(
        ["sh", "-c", script],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "not found" not in ended.stderr
    return ended.stdout


def test_printed_request_is_accepted(dev: DevProcess) -> None:
    """What the printed command gives to `curl` is a request that the service answers with 200."""
    option, url, *rest = run_in_shell(SHOW + printed_request(dev)).split("\0")[:-1]
    assert (option, rest[0::2]) == ("-i", ["-H", "-H", "-H", "-d"])
    *header_lines, body = rest[1::2]
    headers = dict(line.split(": ", 1) for line in header_lines)
    answer = send(url, "POST", url.removeprefix(dev.url), headers=headers, body=body.encode())
    assert answer.status == 200
    event = answer.json()["event"]
    assert event["requestContext"]["authorizer"]["jwt"]["claims"]["tenant_id"] == "acme"
    assert event["headers"]["idempotency-key"] == "try-me-once-0001"
    assert event["body"] == "{}"


def test_printed_look_is_answered(dev: DevProcess) -> None:
    """The second command, with an id in place of its placeholder, is answered with 200."""
    command = printed_request(dev, "# and what became of it, with the name of the answer:\n")
    shown = run_in_shell(SHOW + command.replace("/NAME ", "/pay_1 "))
    option, url, name, header = shown.split("\0")[:-1]
    assert (option, name) == ("-i", "-H")
    answer = send(url, "GET", url.removeprefix(dev.url), headers=dict([header.split(": ", 1)]))
    assert answer.status == 200
    event = answer.json()["event"]
    assert event["pathParameters"] == {"name": "pay_1"}
    assert event["requestContext"]["authorizer"]["jwt"]["claims"]["tenant_id"] == "acme"


def test_both_requests_of_the_reference_service() -> None:
    """The reference service is tried by a payment, and by a look at what became of it."""
    lines = request_to_send(REFERENCE, "http://127.0.0.1:1")
    assert [line for line in lines if line.startswith("curl")] == [
        "curl -i http://127.0.0.1:1/payments \\",
        "curl -i http://127.0.0.1:1/payments/PAYMENT_ID \\",
    ]


def test_bodies_of_the_other_requests() -> None:
    """What the other routes take is printed beside the request; a route that takes no token, whose
    callers sign, is left out.
    """
    lines = request_to_send(REFERENCE, "u")
    others = lines[lines.index("# in the same way, each with a key of its own:") + 1 :]
    assert others == [
        '#   POST /refunds  {"payment_id": "pay_00000000000000000000000000000000", "amount": 300}',
        '#   POST /reports  {"payment_ids": ["pay_00000000000000000000000000000000"]}',
    ]


def test_other_requests_are_whole() -> None:
    """Another route is named with its method, and with a placeholder for each part to fill in."""
    paths = ("/orders", "/orders/{order_id}/cancellation")
    routes = tuple(Route(method="POST", path=path) for path in paths)
    function = Function(name="f", handler="m.f", timeout_s=1, routes=routes)
    service = Service(name="s", functions=(function,), tables=())
    assert request_to_send(service, "u")[-1] == "#   POST /orders/ORDER_ID/cancellation  {}"


@pytest.mark.parametrize(
    ("python", "files", "command"),
    [
        ("here/.venv/bin/python", ["here/.venv/bin/oncekey"], ".venv/bin/oncekey"),
        ("here/.venv/bin/python", [], ".venv/bin/python -m oncekey_local.cli"),
        ("a b/bin/python", ["a b/bin/oncekey"], "'{root}/a b/bin/oncekey'"),
        ("a b/bin/python", [], "'{root}/a b/bin/python' -m oncekey_local.cli"),
        ("here/python", ["here/oncekey"], "{root}/here/oncekey"),
    ],
)
def test_command_of_this_installation(
    python: str,
    files: list[str],
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command is called by a path that the shell finds, or by the interpreter without it."""
    (tmp_path / "here").mkdir()
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "executable", str(tmp_path / python))
    assert oncekey_command() == command.format(root=tmp_path)


def test_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to call this installation print a token."""
    monkeypatch.chdir(ROOT)
    python = f"{shlex.quote(sys.executable)} -m oncekey_local.cli"
    for command in (oncekey_command(), python):
        assert run_in_shell(f"{command} dev token --tenant acme").count(".") == 2


def test_service_without_a_post() -> None:
    """A service that takes no POST has no such request."""
    function = Function(
        name="f", handler="m.f", timeout_s=1, routes=(Route(method="GET", path="/"),)
    )
    service = Service(name="s", functions=(function,), tables=())
    assert request_to_send(service, "http://127.0.0.1:1") == []


@pytest.mark.parametrize(
    "other",
    [
        Route(method="GET", path="/"),
        Route(method="GET", path="/things"),
        Route(method="GET", path="/things/{a}/{b}"),
        Route(method="GET", path="/others/{id}"),
        Route(method="PUT", path="/things/{id}"),
    ],
)
def test_service_that_shows_nothing(other: Route) -> None:
    """Where no GET shows what a POST made, there is the one request only."""
    routes = (Route(method="POST", path="/things"), other)
    service = Service(
        name="s",
        functions=(Function(name="f", handler="m.f", timeout_s=1, routes=routes),),
        tables=(),
    )
    assert [line[:5] for line in request_to_send(service, "u")].count("curl ") == 1
