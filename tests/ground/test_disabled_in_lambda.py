"""ONCEKEY_DISABLED is for unit tests: in a Lambda function it is said in the log."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import ConfigurationError, idempotent, idempotent_function, settings, single_tenant
from tests.support.events import load, with_route
from tests.support.hooks import Hook
from tests.support.routes import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POST = load("apigw_http_v2_post")


@pytest.fixture(autouse=True)
def a_fresh_sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Lambda function whose protection is switched off, and which has said nothing yet."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "payments")
    settings._warn_of_no_protection.cache_clear()
    yield
    settings._warn_of_no_protection.cache_clear()


def a_handler() -> object:
    """A request to a decorated handler."""

    @idempotent(operation="POST /payments", tenant=single_tenant())
    def handler(_event: dict[str, Any], _context: object) -> dict[str, Any]:
        return {"statusCode": 201}

    handler(POST, None)
    return handler(with_route(POST, "GET", "/payments"), None)


def a_function() -> object:
    """A call of an idempotent function."""

    @idempotent_function(operation="settle", key=lambda i: i, tenant=single_tenant())
    def settle(invoice_id: str) -> str:
        return invoice_id

    settle("invoice-1")
    return settle("invoice-1")


async def _awaited() -> object:
    @idempotent(operation="POST /payments", tenant=single_tenant())
    async def handler(_event: dict[str, Any], _context: object) -> dict[str, Any]:
        return {"statusCode": 201}

    return await handler(POST, None)


def a_coroutine() -> object:
    """A request to a decorated coroutine function."""
    return asyncio.run(_awaited())


def a_webhook() -> object:
    """A signed event."""
    return Hook().send()


def a_route() -> object:
    """A request to a route behind the middleware."""
    service = Service()
    service.app.use(middlewares=[service.protect()])
    service.app.post("/payments")(lambda: ({}, 201))
    return service.send(POST)


CALLS = [a_handler, a_coroutine, a_function, a_webhook, a_route]
every_call = pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """The level and the function of each line that says so."""
    return [
        (entry.levelname, vars(entry)["function"])
        for entry in caplog.records
        if vars(entry).get("oncekey_event") == "disabled-in-lambda"
    ]


@pytest.mark.fault("K9.6")
@every_call
def test_a_lambda_function_without_protection_says_so(
    call: Callable[[], object], caplog: pytest.LogCaptureFixture
) -> None:
    """The first call of each kind warns, and only the first of a sandbox.

    Red when one kind of call does not look, or each call says it again.
    """
    call()
    assert said(caplog) == [("WARNING", "payments")]
    for again in CALLS:
        again()
    assert said(caplog) == [("WARNING", "payments")]


@pytest.mark.fault("K9.6")
@every_call
@pytest.mark.parametrize(
    "environment",
    [
        {"ONCEKEY_DISABLED": "0"},
        {"AWS_LAMBDA_FUNCTION_NAME": ""},
        {"AWS_SAM_LOCAL": "true"},
    ],
    ids=repr,
)
def test_where_it_is_meant_nothing_is_said(
    environment: dict[str, str],
    call: Callable[[], object],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A protected function, a unit test and a local runtime are not warned.

    Red when the warning does not look where it is.
    """
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with contextlib.suppress(ConfigurationError):
        call()
    assert said(caplog) == []
