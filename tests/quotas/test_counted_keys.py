"""Quotas of keys, over HTTP and of functions, in memory and on moto."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import STRIPE, NotExecuted, Quota, QuotaExceeded
from oncekey.record.record import Status
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.events import with_key, with_route
from tests.support.function_calls import Calls
from tests.support.protected import answers, fails, is_replay, problem_of, while_running
from tests.support.quotas import (
    HOUR_MS,
    LEFT_OF_THE_MINUTE_S,
    MINUTE_MS,
    POST,
    Metered,
    request,
    retry_after_s,
)
from tests.support.recorded import recorded_world
from tests.support.routes import Service
from tests.support.steps import FaultyStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.store.store import Store

EXCEEDED = (429, "quota-exceeded", True)
DAY_MS = 24 * HOUR_MS


@pytest.fixture(params=["memory", "moto"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A store of either kind."""
    if request.param == "memory":
        yield MemoryStore()
        return
    with recorded_world() as world:
        yield world.store()


@pytest.mark.requirement("C15")
def test_a_tenants_new_keys_in_a_window_are_limited(store: Store) -> None:
    """The third new key of a window is a 429 that says when the next begins; nothing runs.

    In the next window it runs, under the same key. Red when a key too many is reserved, or the
    window does not roll.
    """
    service = Metered(store=store, new_keys=2)

    assert service.statuses(1, 2) == [201, 201]
    refused = service.ask(3)
    assert problem_of(refused) == EXCEEDED
    assert retry_after_s(refused) == LEFT_OF_THE_MINUTE_S
    assert len(service.runs) == 2

    service.clock.advance(1_000 * LEFT_OF_THE_MINUTE_S - 1)
    assert service.statuses(3) == [429]
    service.clock.advance(1)
    assert service.statuses(3, 4, 5) == [201, 201, 429]


@pytest.mark.requirement("C15")
def test_a_key_that_exists_is_never_refused_for_its_tenants_new_keys(store: Store) -> None:
    """At a full quota a repeat is replayed, told that it runs, or refused as another request, and
    what failed runs again.

    Red when a repeat is counted as a new key, in whatever state its record is.
    """
    service = Metered(store=store, new_keys=4, active_keys=4)
    service.ask("completed")
    service.then = fails(NotExecuted())
    service.ask("failed")
    service.then = fails(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        service.ask("unknown")

    def at_the_limit() -> dict[str, tuple[int, str]]:
        assert service.statuses("one-too-many") == [429]
        other = {**request("completed"), "body": '{"amount": 2}', "isBase64Encoded": False}
        asked = {
            "completed": service.ask("completed"),
            "failed": service.ask("failed"),
            "running": service.ask("running"),
            "unknown": service.ask("unknown"),
            "reused": service.send(other),
        }
        said = {name: json.loads(answer["body"]).get("type", "") for name, answer in asked.items()}
        assert is_replay(asked["completed"])
        return {
            name: (answer["statusCode"], said[name].rpartition(":")[2])
            for name, answer in asked.items()
        }

    assert while_running(service, request("running"), at_the_limit) == {
        "completed": (201, ""),
        "failed": (201, ""),
        "running": (409, "request-in-progress"),
        "unknown": (409, "outcome-unknown"),
        "reused": (422, "key-reused"),
    }


def test_a_retry_of_what_failed_is_no_transaction() -> None:
    """Only a new key is counted: what resumes is one write, at half the price."""
    service = Metered(store=FaultyStore(), new_keys=1)
    service.then = fails(NotExecuted())
    service.ask("failed")
    service.then = None
    service.store.asked.clear()

    assert service.statuses("failed") == [201]
    assert service.store.asked == ["read", "Resume", "Complete"]


@pytest.mark.requirement("C15")
def test_a_tenants_active_keys_are_limited(store: Store) -> None:
    """Two keys may be active; a third waits until the hour of one of them has run out.

    Red when what runs out frees nothing, frees twice, or frees what was reserved later.
    """
    service = Metered(store=store, active_keys=2)
    service.ask(1)
    service.clock.advance(2 * HOUR_MS)
    service.ask(2)

    refused = service.ask(3)
    assert problem_of(refused) == EXCEEDED
    # The first key was reserved within an hour that is counted whole.
    left_ms = 1_000 * retry_after_s(refused)
    assert DAY_MS - 2 * HOUR_MS <= left_ms <= DAY_MS - HOUR_MS

    service.clock.advance(left_ms - 1_000)
    assert service.statuses(3) == [429]
    service.clock.advance(1_000)
    assert service.statuses(3, 4) == [201, 429]
    service.clock.advance(2 * HOUR_MS)
    assert service.statuses(4, 5) == [201, 429]


@pytest.mark.requirement("C15")
def test_a_key_that_has_expired_is_a_new_one(store: Store) -> None:
    """The next life of a key counts in the window that it begins in.

    Red when a reserve over an expired record is not counted.
    """
    service = Metered(store=store, new_keys=1)
    service.ask("old")
    service.clock.advance(DAY_MS + MINUTE_MS)

    assert service.statuses("old", "new") == [201, 429]
    assert len(service.runs) == 2


@pytest.mark.requirement("C15")
def test_a_retry_of_what_failed_is_no_new_key(store: Store) -> None:
    """However often an operation is tried again, in whatever window, its key counts once.

    Red when an attempt counts.
    """
    service = Metered(store=store, new_keys=1)
    service.then = fails(NotExecuted())

    assert service.statuses("a", "a", "a") == [503, 503, 503]
    service.clock.advance(MINUTE_MS)
    service.then = None
    assert service.statuses("a", "b", "c") == [201, 201, 429]


@pytest.mark.requirement("C15")
def test_another_tenant_is_not_affected(store: Store) -> None:
    """One tenant's full quotas mean nothing to another, its look-ups neither.

    Red when a counter or a memory is shared by tenants.
    """
    service = Metered(store=store, new_keys=1, active_keys=1, lookups=1)

    assert service.statuses("a", "a", "a", "b", tenant="acme") == [201, 201, 429, 429]
    assert service.statuses("a", "a", "a", "b", tenant="other") == [201, 201, 429, 429]


@pytest.mark.requirement("C15")
def test_operations_count_apart_unless_the_scope_is_the_tenant(store: Store) -> None:
    """By default each operation has counters of its own; `scope="tenant"` counts all together.

    Red when the scope makes no difference.
    """
    clock = ManualClock()
    for scope, status in (("operation", 201), ("tenant", 429)):
        limits: dict[str, Any] = {"new_keys": 1, "active_keys": 1, "scope": scope}
        one = Metered(store=store, clock=clock, operation=f"POST /one/{scope}", **limits)
        other = Metered(store=store, clock=clock, operation=f"POST /other/{scope}", **limits)
        assert one.statuses("a") == [201]
        assert other.statuses("a") == [status]


@pytest.mark.requirement("C15")
def test_shards_admit_exactly_the_limit(store: Store) -> None:
    """Spread over four items, seven keys are seven: a key whose own shard is full takes another.

    Red when a shard's share is lost or counted twice, or a full one refuses.
    """
    service = Metered(store=store, new_keys=7, active_keys=9, shards=4)

    assert service.statuses(*range(12)) == [201] * 7 + [429] * 5
    service.clock.advance(MINUTE_MS)
    assert service.statuses(*range(20, 25)) == [201] * 2 + [429] * 3


@pytest.mark.requirement("C15")
def test_a_function_says_that_its_tenants_quota_is_used_up(store: Store) -> None:
    """A call too many raises `QuotaExceeded` with the time to wait, and runs nothing; a repeat gets
    its result.

    Red when the function runs, or raises something that does not say how long.
    """
    calls = Calls(store=store, quota=Quota(new_keys=1))
    calls.result = 7

    assert calls.call({"id": "a"}) == 7
    with pytest.raises(QuotaExceeded) as raised:
        calls.call({"id": "b"})

    assert (raised.value.retryable, raised.value.retry_after_s) == (True, LEFT_OF_THE_MINUTE_S)
    assert calls.call({"id": "a"}) == 7
    assert len(calls.runs) == 1


def test_stripes_clients_are_told_in_stripes_words() -> None:
    """With the STRIPE preset it is a 429 `rate_limit`, and may be sent again."""
    service = Metered(new_keys=1, preset=STRIPE)
    service.ask("a")

    refused = service.ask("b")

    error = json.loads(refused["body"])["error"]
    assert (refused["statusCode"], error["type"]) == (429, "invalid_request_error")
    assert error["code"] == "rate_limit"
    assert refused["headers"]["Stripe-Should-Retry"] == "true"
    assert refused["headers"]["Retry-After"] == str(LEFT_OF_THE_MINUTE_S)


def test_a_longer_window_and_a_longer_retention_are_counted_as_said(store: Store) -> None:
    """Windows begin on the epoch's multiples of their length; long retentions have wide buckets."""
    days = timedelta(days=30)
    service = Metered(
        store=store, new_keys=2, active_keys=3, window=timedelta(hours=2), retention=days
    )
    service.then = answers(201)
    for _ in range(30):
        service.clock.advance(24 * HOUR_MS)
        service.statuses(service.clock.now_ms())
    service.clock.advance(24 * HOUR_MS)

    assert service.statuses("a", "b") == [429, 429]
    service.clock.advance(3 * 24 * HOUR_MS)
    assert service.statuses("a") == [201]


@pytest.mark.requirement("C15")
def test_the_routes_of_a_resolver_have_quotas_of_their_own() -> None:
    """One middleware for all routes limits each route by itself.

    Red when the options of the middleware do not reach its routes.
    """
    service = Service()
    service.app.use(middlewares=[service.protect(quota=Quota(new_keys=1))])
    for path in ("/payments", "/refunds"):
        service.app.post(path)(lambda: {"made": True})

    statuses = [
        service.send(with_route(with_key(POST, f"{key:016}"), "POST", path))["statusCode"]
        for key, path in enumerate(["/payments", "/payments", "/refunds"])
    ]

    assert statuses == [200, 429, 200]


def test_a_bare_run_and_another_method_count_nothing() -> None:
    """What has no key to be counted is not."""
    service = Metered(new_keys=1, required=False)
    bare = request("x")
    del bare["headers"]["idempotency-key"]

    assert [service.send(bare)["statusCode"] for _ in range(3)] == [201] * 3
    assert service.counts == []


def test_the_end_of_a_record_frees_nothing_early() -> None:
    """A record that somebody deletes is counted until its hour runs out; in doubt it is counted no
    longer than that.
    """
    service = Metered(active_keys=1)
    service.then = fails(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        service.ask("doubtful")
    (record,) = service.store.records.values()
    assert record.status is Status.UNKNOWN
    service.then = None

    assert service.statuses("b") == [429]
    service.clock.advance(DAY_MS + HOUR_MS)
    assert service.statuses("b") == [201]
    service.store.records.clear()
    assert service.statuses("b") == [429]
