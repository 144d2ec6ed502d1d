"""`use_store` puts a test's store and clock in the place of all others."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import (
    Completed,
    Settlement,
    current_operation,
    idempotent,
    idempotent_function,
    settle,
    single_tenant,
)
from oncekey.outbox import delivered
from oncekey.outbox.envelope import sealed
from oncekey.powertools import idempotent_route
from oncekey.queued import Jobs, OperationStatus
from oncekey.reconciler import Reconciler
from oncekey.settings import RETENTION_S
from oncekey.testing import ManualClock, MemoryStore, use_store
from oncekey.webhooks import Publish, StripeSignature, webhook
from tests.support.events import load
from tests.support.webhooks import SENDERS, event_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oncekey.webhooks import Delivery

EVENT = load("apigw_http_v2_post")


def protected(**options: Any) -> Callable[[Any, Any], Any]:
    """A handler that answers with the operation id of its run."""

    @idempotent(operation="POST /payments", tenant=single_tenant(), **options)
    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        return {"statusCode": 201, "body": current_operation().operation_id}

    return handler


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """A store in the place of all others."""
    with use_store(MemoryStore(), clock=ManualClock()) as used:
        yield used


def test_a_handler_that_was_decorated_before_uses_the_store() -> None:
    """A handler with no table is protected by the store of the test: its repeat is a replay."""
    handler = protected()

    with use_store(MemoryStore()) as store:
        first, again = handler(EVENT, None), handler(EVENT, None)

    assert again["body"] == first["body"]
    assert again["headers"]["Idempotent-Replayed"] == "true"
    assert len(store.records) == 1


def test_a_store_and_a_clock_of_the_handlers_own_are_replaced_too() -> None:
    """Production code that names its store and clock is tested as it is."""
    own, clock = MemoryStore(), ManualClock()
    handler = protected(store=own, clock=ManualClock(now_ms=1))

    with use_store(MemoryStore(), clock=clock) as store:
        handler(EVENT, None)

    assert not own.records
    assert [each.created_at_ms for each in store.records.values()] == [clock.now_ms()]


def test_after_the_block_everything_is_as_before() -> None:
    """A handler returns to its own store, with what it had there, after each nested use."""
    own = MemoryStore()
    handler = protected(store=own)
    before = handler(EVENT, None)["body"]

    with use_store(MemoryStore()):
        outer = handler(EVENT, None)["body"]
        with use_store(MemoryStore()):
            inner = handler(EVENT, None)["body"]
        assert handler(EVENT, None)["body"] == outer

    assert handler(EVENT, None)["body"] == before
    assert len({before, outer, inner}) == 3


def test_an_inner_use_without_a_clock_keeps_the_clock_of_the_outer_one() -> None:
    """Only what is given is replaced."""
    clock = ManualClock()

    with use_store(MemoryStore(), clock=clock), use_store(MemoryStore()) as store:
        protected()(EVENT, None)

    assert [each.created_at_ms for each in store.records.values()] == [clock.now_ms()]


def test_a_failing_block_restores_the_store() -> None:
    """An assertion that fails within the block does not change the tests after it."""
    own = MemoryStore()
    handler = protected(store=own)

    with pytest.raises(AssertionError), use_store(MemoryStore()):
        raise AssertionError

    handler(EVENT, None)
    assert len(own.records) == 1


def test_an_answer_that_a_sandbox_remembers_is_forgotten_with_its_store() -> None:
    """`local_cache` of one store never answers for another one."""
    handler = protected(local_cache=10)

    with use_store(MemoryStore()):
        first = handler(EVENT, None)["body"]
    with use_store(MemoryStore()):
        assert handler(EVENT, None)["body"] != first


def test_the_switch_for_unprotected_tests_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A test that gives a store wants protection, whatever the environment of all tests says."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    handler = protected()

    with use_store(MemoryStore()):
        first = handler(EVENT, None)["body"]
        assert handler(EVENT, None)["body"] == first

    assert handler(EVENT, None)["body"] != first


def test_threads_and_tasks_use_the_store() -> None:
    """A thread or a task that the block starts does not see another store."""

    @idempotent_function(operation="charge", key=str, tenant=single_tenant())
    async def charge(payment: str) -> str:
        return current_operation().operation_id

    async def twice() -> list[str]:
        return list(await asyncio.gather(charge("one"), charge("two")))

    handler = protected()
    with use_store(MemoryStore()) as store:
        thread = threading.Thread(target=handler, args=(EVENT, None))
        thread.start()
        thread.join()
        asyncio.run(twice())

    assert len(store.records) == 3


def test_uses_that_overlap_are_a_fault() -> None:
    """Two tests at once would each get the other's store, so the first to end says it."""
    one, other = use_store(MemoryStore()), use_store(MemoryStore())
    one.__enter__()
    other.__enter__()

    with pytest.raises(RuntimeError, match="run such tests one after the other"):
        one.__exit__(None, None, None)
    other.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("store", "clock"), [(None, None), (MemoryStore, 12), ("my-table", None)], ids=str
)
def test_what_is_no_store_or_clock_is_refused(store: Any, clock: Any) -> None:
    """A table's name or a clock that cannot tell the time fails at once, not in the handler."""
    with (
        pytest.raises(TypeError, match=r"use_store: (store|clock) is"),
        use_store(store, clock=clock),
    ):
        pass


def test_a_function_uses_the_store(store: MemoryStore) -> None:
    """A function's repeat is a replay."""

    @idempotent_function(operation="charge", key=str, tenant=single_tenant())
    def charge(payment: str) -> str:
        return current_operation().operation_id

    assert charge("one") == charge("one")
    assert len(store.records) == 1


def test_a_webhook_uses_the_store_and_its_outbox() -> None:
    """A webhook's message is in the store of the test, and its signature is of the test's time."""
    stripe = SENDERS["stripe"]

    @webhook(
        operation="POST /webhooks/stripe",
        scheme=StripeSignature(),
        tenant=single_tenant(),
        secrets=[stripe.secret],
    )
    def on_event(delivery: Delivery) -> Publish:
        return Publish("paid", {"id": delivery.id})

    clock = ManualClock()
    with use_store(MemoryStore(), clock=clock) as store:
        body = b'{"id":"evt_1"}'
        headers = stripe.headers(stripe.secret, body, "evt_1", clock.now_ms() // 1000)
        assert on_event(event_with(headers, body), None)["statusCode"] == 200

    assert [message.topic for message in store.messages] == ["paid"]


def test_a_route_of_powertools_uses_the_store(store: MemoryStore) -> None:
    """A route's repeat is a replay."""
    from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

    app = APIGatewayHttpResolver()
    app.use(middlewares=[idempotent_route(tenant=single_tenant())])

    @app.post("/payments")
    def pay() -> dict[str, str]:
        return {"id": current_operation().operation_id}

    assert app.resolve(EVENT, None)["body"] == app.resolve(EVENT, None)["body"]  # type: ignore[arg-type]
    assert len(store.records) == 1


def test_a_job_and_its_status_use_the_store(store: MemoryStore) -> None:
    """A request is accepted, run and found in the store of the test."""
    handler = protected(mode="queued")
    accepted = handler(EVENT, None)
    Jobs(handler).perform(delivered(sealed(store.messages[0])), None)
    location = accepted["headers"]["Location"]
    status = OperationStatus(tenant=single_tenant())
    request = {**EVENT, "rawPath": location, "pathParameters": None}

    assert accepted["statusCode"] == 202
    assert '"completed"' in status(request, None)["body"].lower()
    assert handler(EVENT, None)["statusCode"] == 201


def test_settling_and_reconciling_use_the_store() -> None:
    """`settle` and the reconciler see the records and the time of the test."""
    references: list[str] = []

    @idempotent(operation="POST /payments", tenant=single_tenant())
    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        references.append(current_operation().reference)
        raise RuntimeError

    clock = ManualClock()
    with use_store(MemoryStore(), clock=clock):
        with pytest.raises(RuntimeError):
            handler(EVENT, None)
        clock.advance(timedelta(hours=1) // timedelta(milliseconds=1))
        report = Reconciler().run(clock.now_ms() + 60_000)
        settled = settle(references[0], Completed({"statusCode": 201, "body": "settled"}))
        answer = handler(EVENT, None)

    assert report.visited == 1
    assert settled is Settlement.SETTLED
    assert answer["body"] == "settled"


def test_time_moves_by_the_clock_of_the_test() -> None:
    """An answer expires when the clock of the test has passed its retention."""
    clock = ManualClock()
    handler = protected()

    with use_store(MemoryStore(), clock=clock):
        first = handler(EVENT, None)["body"]
        clock.advance(RETENTION_S * 1000 + 1000)
        assert handler(EVENT, None)["body"] != first
