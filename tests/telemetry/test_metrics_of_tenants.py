"""Whose requests the metrics count."""

from __future__ import annotations

from collections import Counter
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from oncekey import Completed, jwt_claim, settle
from oncekey.record.pause import EVERYTHING, Pause, PauseScope
from oncekey.telemetry import watching
from tests.support.hooks import Hook
from tests.support.protected import Protected
from tests.support.quotas import request
from tests.support.reconciled import Unrecorded

if TYPE_CHECKING:
    from tests.support.emitted import Emitted, Line

_COUNTED = ("Reserved", "Replayed", "InProgress")


def service_of_tenants() -> Protected:
    """A handler whose callers are tenants by their token."""
    return Protected(tenant=jwt_claim("tenant_id"))


@pytest.mark.requirement("C20")
def test_replays_and_duplicates_are_measured_for_each_tenant(emitted: Emitted) -> None:
    """Each line says whose requests it counts, so that a query of the log can add up by tenant; the
    tenant is no dimension.

    Red when a line lacks the tenant, or makes a metric of each tenant.
    """
    service = service_of_tenants()
    service.send(request(1, "acme"))

    def handler(_event: object, _op: object) -> Line:
        service.send(request(2, "globex"))
        return {"statusCode": 201}

    service.then = handler
    for _ in range(3):
        service.send(request(2, "globex"))
    service.send(request(1, "acme"))

    counted: Counter[tuple[str, str]] = Counter()
    for line in emitted.lines():
        (directive,) = line["_aws"]["CloudWatchMetrics"]
        assert directive["Dimensions"] == [["service"], ["service", "operation"]]
        counted.update({(line["tenant"], name): line.get(name, 0) for name in _COUNTED})
    assert +counted == {
        ("acme", "Reserved"): 1,
        ("acme", "Replayed"): 1,
        ("globex", "Reserved"): 1,
        ("globex", "InProgress"): 1,
        ("globex", "Replayed"): 2,
    }


def test_two_tenants_at_once_are_not_mixed(emitted: Emitted) -> None:
    """While the request of one tenant runs, that of another one for the same operation ends in
    another thread.
    """
    service = service_of_tenants()

    def handler(_event: object, _op: object) -> Line:
        service.then = None
        other = Thread(target=service.send, args=(request(2, "globex"),))
        other.start()
        other.join()
        return {"statusCode": 201}

    service.then = handler
    service.send(request(1, "acme"))

    assert [(line["tenant"], line["Reserved"]) for line in emitted.lines()] == [
        ("globex", 1),
        ("acme", 1),
    ]


def test_what_a_thread_of_the_handler_counts_is_emitted(emitted: Emitted) -> None:
    """A thread does not know for whom it works: its count is a line without a tenant, and goes with
    the request.
    """
    service = service_of_tenants()

    def handler(_event: object, _op: object) -> Line:
        thread = Thread(target=watching.count, args=("StoreErrors", "POST /payments"))
        thread.start()
        thread.join()
        return {"statusCode": 201}

    service.then = handler
    service.send(request(1, "acme"))

    told, unnamed = emitted.lines()
    assert (told["tenant"], told["Reserved"]) == ("acme", 1)
    assert unnamed["StoreErrors"] == 1
    assert "tenant" not in unnamed


def test_a_webhooks_line_has_the_tenant_of_its_event(emitted: Emitted) -> None:
    """An event is a request, too, of the tenant that the verified event names."""
    Hook(tenant=lambda _delivery: "acme").send()

    (line,) = emitted.lines()
    assert (line["tenant"], line["Reserved"]) == ("acme", 1)


def test_a_request_without_a_key_that_is_paused_has_its_tenant(emitted: Emitted) -> None:
    """Its tenant is known, although it has no key."""
    service = Protected(tenant=jwt_claim("tenant_id"), required=False)
    service.store.pause(
        Pause(scope=PauseScope.ALL, name=EVERYTHING, reason="moved", by="me", since_ms=0)
    )
    event = request(1, "acme")
    del event["headers"]["idempotency-key"]

    assert service.send(event)["statusCode"] == 503
    (line,) = emitted.lines()
    assert (line["tenant"], line["Paused"]) == ("acme", 1)


def test_what_a_settlement_finds_is_counted_for_its_own_operation(emitted: Emitted) -> None:
    """A dead attempt that is settled in the request of another tenant is a line of its own, as the
    settlement ends.

    Red when it is counted for the caller's tenant, or waits for a request that may never come.
    """
    dead, events = Unrecorded(), service_of_tenants()
    dead.is_killed()
    dead.clock.advance(100_000)

    def handler(_event: object, _op: object) -> Line:
        answer = Completed({"statusCode": 201, "body": ""})
        settle(dead.runs[0].reference, answer, store=dead.store, clock=dead.clock)
        return {"statusCode": 200}

    events.then = handler
    emitted.lines()
    events.send(request(1, "acme"))

    assert [(line["tenant"], line.get("LeaseExpired")) for line in emitted.lines()] == [
        ("single-tenant", 1),
        ("acme", None),
    ]
