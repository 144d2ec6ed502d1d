"""Whoever sends a request without a key is known all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey import idempotent, idempotent_function, jwt_claim
from oncekey.errors import KeyMissing
from oncekey.tenants import NOBODY_WHILE_DISABLED
from oncekey.testing.memory import MemoryStore
from tests.support.events import load, with_claim, with_key, with_route, with_tenant
from tests.support.protected import Protected, problem_of, records

if TYPE_CHECKING:
    from oncekey import Operation

POST = load("apigw_http_v2_post")
REST = load("apigw_rest_v1_post")
TENANT: dict[str, Any] = {"tenant": jwt_claim("tenant_id")}
# Without a key: methods that need none, and one that need not have one.
UNPROTECTED: dict[str, tuple[dict[str, Any], str]] = {
    **{method: ({}, method) for method in ("GET", "HEAD", "OPTIONS")},
    **{method: ({"operation": f"{method} /payments"}, method) for method in ("PUT", "DELETE")},
    "required=False": ({"required": False}, "POST"),
    "another method": ({"methods": ("PUT",)}, "POST"),
}
NO_TENANT: list[Any] = [None, "", " ", "null", "true", "map[]", 7, "x" * 2_000, "a\nb"]
unprotected = pytest.mark.parametrize(("options", "method"), UNPROTECTED.values(), ids=UNPROTECTED)


@pytest.mark.fault("K7.2")
@unprotected
@pytest.mark.parametrize("sample", [POST, REST], ids=["HTTP API", "REST API"])
def test_without_a_tenant_nothing_runs(
    sample: dict[str, Any], options: dict[str, Any], method: str
) -> None:
    """A request whose tenant cannot be derived is refused (403) also where it needs no key, whether
    or not it brings one.

    Red when a request that needs no key runs with an empty tenant.
    """
    service = Protected(**TENANT, **options)
    event = with_route(sample, method, "/payments")

    for tenant in NO_TENANT:
        for keyed in (event, with_key(event)):
            answer = service.send(with_tenant(keyed, tenant))
            assert problem_of(answer) == (403, "tenant-missing", False)
    assert service.runs == []
    assert records(service) == []


@pytest.mark.fault("K7.2")
@unprotected
def test_a_source_that_raises_names_nobody(options: dict[str, Any], method: str) -> None:
    """A source of the author's that is at a loss, or answers what is no text, is a 403 as well.

    Red when its exception leaves the decorator, or its answer becomes the tenant.
    """

    def raises(_context: object) -> str:
        raise KeyError("tenant_id")

    event = with_key(with_route(POST, method, "/payments"))
    for source in (raises, lambda _: None, lambda _: "", lambda _: 7, lambda _: ["tenant-1"]):
        service = Protected(tenant=source, **options)
        assert problem_of(service.send(event))[1] == "tenant-missing"
        assert service.runs == []


@unprotected
@pytest.mark.parametrize(
    "error",
    [LookupError, TypeError, ValueError, StopIteration, AssertionError, ArithmeticError],
)
def test_whatever_a_source_raises_for_a_context_names_nobody(
    options: dict[str, Any], method: str, error: type[Exception]
) -> None:
    """`next(group for group in groups if ...)` raises StopIteration where a caller has none.

    Red when the client gets a 5xx, and the log `coroutine raised StopIteration`.
    """

    def raises(_context: object) -> str:
        raise error

    service = Protected(tenant=raises, **options)
    answer = service.send(with_key(with_route(POST, method, "/payments")))

    assert problem_of(answer) == (403, "tenant-missing", False)


@pytest.mark.fault("K7.2")
@unprotected
def test_what_runs_without_a_key_knows_its_tenant_and_principal(
    options: dict[str, Any], method: str
) -> None:
    """`op.tenant` is never empty, nor is `op.principal` where operations are scoped by it.

    Red when either is left out of the operation of an unprotected run.
    """
    service = Protected(**TENANT, principal=jwt_claim("sub"), **options)
    event = with_key(with_route(POST, method, "/payments"))

    service.send(event)
    assert [(op.tenant, op.principal) for op in service.runs] == [("tenant-1", "user-1")]
    assert problem_of(service.send(with_claim(event, "sub", "null")))[1] == "tenant-missing"
    assert len(service.runs) == 1


def test_a_refused_request_is_not_counted_as_an_unprotected_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is refused did not run, and is not logged as if it had."""
    caplog.set_level("INFO", "oncekey")
    service = Protected(**TENANT, required=False)

    service.send(with_tenant(with_key(POST), None))

    assert "unprotected" not in [vars(entry).get("oncekey_event") for entry in caplog.records]


@pytest.mark.fault("K7.2")
def test_switched_off_a_caller_that_nobody_names_has_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With ONCEKEY_DISABLED an event of a unit test need not say who sent it: `op.tenant` and
    `op.principal` are then a name that says so, and never empty.

    Red when an empty text, or an error, stands in place of the name.
    """
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    seen: list[tuple[str, str]] = []

    @idempotent(operation="POST /payments", **TENANT, principal=jwt_claim("sub"))
    def handler(_event: dict[str, Any], _context: object, op: Operation) -> dict[str, Any]:
        seen.append((op.tenant, op.principal))
        return {"statusCode": 200}

    for event in (POST, {}, {"anything": 1}, with_tenant(POST, "null")):
        handler(event, None)

    nobody = NOBODY_WHILE_DISABLED
    assert nobody
    assert seen == [("tenant-1", "user-1"), (nobody, nobody), (nobody, nobody), (nobody, "user-1")]


@pytest.mark.fault("K7.2")
@pytest.mark.parametrize("tenant", NO_TENANT, ids=str)
def test_a_function_without_a_tenant_is_not_called(tenant: Any) -> None:
    """A function's `tenant=` is held to the same names: without one nothing runs.

    Red when a function runs under an empty tenant, or one that is no name.
    """
    calls: list[str] = []

    @idempotent_function(
        operation="settle", key=lambda i: i, tenant=lambda _i: tenant, store=MemoryStore()
    )
    def settle(invoice_id: str) -> None:
        calls.append(invoice_id)

    with pytest.raises(KeyMissing, match="does not say whose key it is"):
        settle("invoice-1")
    assert calls == []
