"""Importing, decorating and switching off: nothing is opened, needed or made."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from oncekey import ConfigurationError, Final, Operation, current_operation, idempotent, jwt_claim
from tests.support.events import load, with_key

POST = load("apigw_http_v2_post")

_PROGRAM = """
import socket, sys

def refuse(*_args, **_kwargs):
    raise AssertionError("a socket was opened")

socket.socket.connect = socket.socket.bind = refuse
socket.getaddrinfo = refuse

import oncekey

@oncekey.idempotent(operation="POST /payments", tenant=oncekey.jwt_claim("tenant_id"))
def handler(event, context):
    return {"statusCode": 200, "body": "ran"}

def undecorated(event, context):
    return "ran"

assert undecorated({}, None) == "ran"
heavy = ("boto3", "botocore", "pydantic", "aws_lambda_powertools", "asyncio")
print([name for name in heavy if name in sys.modules])
event = {
    "rawPath": "/payments",
    "headers": {"idempotency-key": "a-key-of-sixteen-characters"},
    "requestContext": {
        "http": {"method": "POST"},
        "authorizer": {"jwt": {"claims": {"tenant_id": "acme"}}},
    },
}
print(handler(event, None) if "--call" in sys.argv else "not called")
"""


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program in a process without Region, credentials or settings."""
    clean = {name: value for name, value in os.environ.items() if name in {"PATH", "PYTHONPATH"}}
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.case(45)
def test_importing_and_decorating_opens_nothing_and_needs_nothing() -> None:
    """Without Region, credentials, table name and sockets, import and decoration work, and boto3 is
    not even imported.

    Red when a client is built at import.
    """
    result = run()

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "[]\nnot called\n"


@pytest.mark.case(45)
def test_switched_off_handlers_run_bare_and_no_client_is_made() -> None:
    """With ONCEKEY_DISABLED=1 a handler runs whatever the event, without a client.

    Red when the switch still builds the store.
    """
    result = run("--call", ONCEKEY_DISABLED="1")

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "[]\n{'statusCode': 200, 'body': 'ran'}\n"


def test_a_missing_table_name_is_told_at_the_first_call() -> None:
    """Without ONCEKEY_TABLE the first event raises an error that says what to set."""
    result = run("--call")

    assert result.returncode == 1
    assert "ONCEKEY_TABLE is not set: name the idempotency table" in result.stderr


def test_an_unclear_switch_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt ONCEKEY_DISABLED neither protects nor switches off: it is refused."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "maybe")

    @idempotent(operation="POST /payments", tenant=jwt_claim("tenant_id"))
    def handler(_event: dict[str, Any], _context: object) -> dict[str, Any]:
        return {}

    with pytest.raises(ConfigurationError, match="ONCEKEY_DISABLED is 'maybe': 1 or 0 is needed"):
        handler(POST, None)


def test_a_bare_handler_has_an_operation_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switched off, the operation object works: a fresh id each time, the tenant, not protected."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    seen: list[Operation] = []

    @idempotent(operation="POST /payments", tenant=jwt_claim("tenant_id"))
    def handler(_event: dict[str, Any], _context: object, op: Operation) -> dict[str, Any]:
        seen.append(op)
        assert current_operation() is op
        raise Final(402, {"declined": True})

    answer = handler(with_key(POST), None)
    handler(POST, None)

    assert answer["statusCode"] == 402
    assert seen[0].operation_id != seen[1].operation_id
    assert {op.tenant for op in seen} == {
        POST["requestContext"]["authorizer"]["jwt"]["claims"]["tenant_id"]
    }
    assert not any(op.protected for op in seen)
