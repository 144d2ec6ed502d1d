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
const token = "t", keys = [], results = [], pauses = [], sessionStorage = {};
const wait = setTimeout;
globalThis.setTimeout = (done, ms) => { pauses.push(ms); wait(done, 0); };
globalThis.fetch = async (_, request) => {
  keys.push(request.headers["Idempotency-Key"]);
  const [status, headers, body] = script.shift();
  if (!status) throw new TypeError("Failed to fetch");
  const broken = new ReadableStream({ start: body => body.error(new TypeError("terminated")) });
  const sent = body === "" ? null : body ? JSON.stringify(body) : broken;
  return new Response(sent, { status, headers });
};
(async () => {
  while (script.length) {
    const got = await pay({ id: "order-7" });
    results.push([got, Object.keys(sessionStorage).length]);
  }
  console.log(JSON.stringify({ results, keys, pauses }));
})();
"""
# Status (0: no answer), headers and body (None: it breaks off; empty: there is none).
Scripted = tuple[int, dict[str, str], Any]
_NO_ANSWER: Scripted = (0, {}, {})
_CREATED: Scripted = (201, {}, PAID)


def browse(*script: Scripted) -> dict[str, Any]:
    """Press the button of the page until `script`, the server's answers, has ended.

    `results` has what each press returned, and the number of keys that the page kept.
    """
    use_packaged_node()
    (code,) = [
        code for _, code in blocks("layer/docs/guides/clients.md") if "async function pay" in code
    ]
    code = f"const script = {json.dumps(script)};{code}{_BROWSER}"
    result = subprocess.run(
        [os.environ["JSII_NODE"], "--input-type=commonjs", "-e", code],
        capture_output=True,
        text=True,
        check=True,
    )
    said: dict[str, Any] = json.loads(result.stdout)
    return said


def test_the_documented_page_takes_an_answer_without_a_body() -> None:
    """204 No Content is an answer; a failure without a body is tried again.

    Red when the page sends what is done again and again, and then says that it is not known.
    """
    said = browse((503, {}, ""), (204, {}, ""), (204, {}, ""))

    assert said["results"] == [[{}, 0], [{}, 0]]
    first, *again = said["keys"]
    assert (again[0] == first, again[1] == first) == (True, False)


def test_the_documented_page_pauses_whatever_it_is_asked_for() -> None:
    """A date in Retry-After, as a proxy may send it, leaves the page's own growing pause.

    Red when it makes the pause no number, so that the page sends without any.
    """
    date = {"Retry-After": "Sun, 29 Nov 2026 23:00:00 GMT"}

    said = browse(*[(503, date, {})] * 6, _CREATED)

    assert all(isinstance(pause, int | float) for pause in said["pauses"])
    assert len(said["pauses"]) == 6


def test_the_documented_page_pays_once() -> None:
    """The example with `fetch`, in node: one key over a lost answer, a 409 and a 429."""
    said = browse(
        _NO_ANSWER, (409, {"Retry-After": "7"}, {"retryable": True}), (429, {}, {}), _CREATED
    )

    assert said["results"] == [[PAID, 0]]
    assert (len(said["keys"]), len({*said["keys"]})) == (4, 1)
    assert said["pauses"][1] >= 7000


def test_the_documented_page_asks_again_if_an_answer_breaks_off() -> None:
    """The payment was made, and its answer is read under the same key."""
    said = browse((201, {}, None), _CREATED)

    assert said["results"] == [[PAID, 0]]
    assert (len(said["keys"]), len({*said["keys"]})) == (2, 1)


@pytest.mark.parametrize("status", [401, 403, 413, 422])
def test_the_documented_page_keeps_its_key_after_a_refusal(status: int) -> None:
    """After a lost answer and then a refusal, such as a 401, the next press sends the same key: the
    first request may have paid.
    """
    refused: Scripted = (status, {}, {"retryable": False})

    said = browse(_NO_ANSWER, refused, _CREATED)

    assert said["results"] == [[{"retryable": False}, 1], [PAID, 0]]
    assert (len(said["keys"]), len({*said["keys"]})) == (3, 1)


def test_the_documented_page_forgets_its_key_after_a_stored_refusal() -> None:
    """The handler's own 402 has ended the operation, so the next press begins another."""
    declined = (
        402,
        {"Idempotency-Expires": "Sun, 29 Nov 2026 10:00:00 GMT"},
        {"error": "declined"},
    )

    said = browse(declined, _CREATED)

    assert said["results"] == [[{"error": "declined"}, 0], [PAID, 0]]
    assert len({*said["keys"]}) == 2


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
