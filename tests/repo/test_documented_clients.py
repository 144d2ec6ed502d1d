"""The examples for clients, and for OpenAPI documents, run word for word."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from openapi_spec_validator import validate

from infra.node import use_packaged_node
from oncekey.clock import SystemClock
from tests.client.servers import (
    LOST,
    OK,
    Reply,
    ScriptedAdapter,
    ScriptedTransport,
    Server,
    problem,
)
from tests.support.documents import blocks, run_example
from tests.support.openapi import codes

if TYPE_CHECKING:
    from pathlib import Path

ORDER = {"id": "order-7", "amount": 1200}
PAID = json.loads(OK.body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server behind the transports that our clients wrap; pauses take no time."""
    made = Server([LOST, problem("request-in-progress", retry_after="1"), OK])
    monkeypatch.setattr(httpx, "HTTPTransport", lambda: ScriptedTransport(made))
    monkeypatch.setattr(
        "oncekey.client.requests_adapter.HTTPAdapter", lambda: ScriptedAdapter(made)
    )
    monkeypatch.setattr(
        SystemClock, "pause", lambda _, duration_ms: made.clock.advance(duration_ms)
    )
    return made


def test_the_documented_client_of_httpx_pays_once(server: Server) -> None:
    """It gets the answer after a lost one and a 409, under one key."""
    namespace = run_example(
        "layer/docs/guides/clients.md", "    return answer.raise_for_status().json()"
    )

    assert namespace["pay"](ORDER) == PAID
    assert (len(server.got), len(server.keys)) == (3, 1)


def test_the_documented_client_of_requests_pays_once(server: Server) -> None:
    """The same through a session."""
    namespace = run_example("layer/docs/guides/clients.md", "session.mount(")

    assert namespace["pay"](ORDER) == PAID
    assert (len(server.got), len(server.keys)) == (3, 1)


def test_the_documented_script_keeps_its_key_over_a_restart(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that has ended without an answer goes on under its key, and then forgets it."""
    monkeypatch.chdir(tmp_path)
    saved: list[Any] = []
    server.script = [Reply(503, {"Retry-After": "600"})]
    with pytest.raises(httpx.HTTPStatusError):
        run_example("layer/docs/guides/clients.md", "def pay_once", save=saved.append)["pay_once"](
            ORDER
        )
    assert [path.name for path in tmp_path.iterdir()] == ["order-7.key"]
    server.script = [OK]

    run_example("layer/docs/guides/clients.md", "def pay_once", save=saved.append)["pay_once"](
        ORDER
    )

    assert saved == [PAID]
    assert (len(server.got), len(server.keys)) == (2, 1)
    assert list(tmp_path.iterdir()) == []


_BROWSER = """
const token = "t", keys = [];
const sessionStorage = {};
const wait = setTimeout;
globalThis.setTimeout = (done, ms) => { pauses.push(ms); wait(done, 0); };
const pauses = [];
const script = [
  () => Promise.reject(new TypeError("Failed to fetch")),
  () => Promise.resolve(new Response('{"retryable": true}', {
    status: 409, headers: {"Retry-After": "7"} })),
  () => Promise.resolve(new Response("{}", { status: 429 })),
  () => Promise.resolve(new Response('{"payment_id": "pay_1"}', { status: 201 })),
];
globalThis.fetch = (_, request) => {
  keys.push(request.headers["Idempotency-Key"]);
  return script.shift()();
};
pay({ id: "order-7" }).then(paid =>
  console.log(JSON.stringify({ paid, keys, asked: pauses[1] >= 7000, left: sessionStorage })));
"""


def test_the_documented_page_pays_once() -> None:
    """The example with `fetch`, in node: one key over a lost answer, a 409 and a 429."""
    use_packaged_node()
    (code,) = [
        code for _, code in blocks("layer/docs/guides/clients.md") if "async function pay" in code
    ]

    result = subprocess.run(
        [os.environ["JSII_NODE"], "--input-type=commonjs", "-e", code + _BROWSER],
        capture_output=True,
        text=True,
        check=True,
    )

    said = json.loads(result.stdout)
    assert said["paid"] == PAID
    assert (len(said["keys"]), len({*said["keys"]})) == (4, 1)
    assert said["asked"]
    assert said["left"] == {}


def test_the_documented_document_of_powertools_has_the_refusals() -> None:
    """The example for Powertools describes its route."""
    document = run_example("layer/docs/guides/openapi.md", "get_openapi_json_schema")["document"]()

    validate(document)
    assert "key-reused" in codes(document, "POST /refunds")


def test_the_documented_document_of_fastapi_has_the_refusals() -> None:
    """The app of the example gives the described document itself."""
    document = run_example("layer/docs/guides/openapi.md", "app.openapi = openapi")["app"].openapi()

    validate(document)
    assert "key-reused" in codes(document, "POST /payments")
