"""ONCEKEY_DISABLED=1 is bare: no table, no client, no Region, and nothing is written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from oncekey import (
    Completed,
    Settlement,
    current_operation,
    idempotent,
    idempotent_function,
    jwt_claim,
    settle,
    single_tenant,
)
from oncekey.clock import SystemClock
from oncekey.outbox import Worker, delivered, postpone
from oncekey.outbox.envelope import sealed
from oncekey.powertools import idempotent_route
from oncekey.queued import Jobs, OperationStatus
from oncekey.reconciler import Reconciler
from oncekey.testing import MemoryStore, use_store
from oncekey.webhooks import Publish, StripeSignature, webhook
from tests.support.events import load
from tests.support.queue_events import delivery, message
from tests.support.webhooks import SENDERS, event_with

if TYPE_CHECKING:
    from oncekey import Operation
    from oncekey.webhooks import Delivery

EVENT = load("apigw_http_v2_post")
STRIPE = SENDERS["stripe"]


@pytest.fixture(autouse=True)
def _switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch is on, and a client that is made all the same fails the test."""

    def no_client(*_args: object, **_options: object) -> NoReturn:
        raise AssertionError("a client was made")

    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    monkeypatch.setenv("ONCEKEY_QUEUE_URL", "https://queue.invalid/1/jobs")
    monkeypatch.setenv("ONCEKEY_OUTBOX_TABLE", "outbox")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setattr("boto3.client", no_client)
    monkeypatch.setattr("boto3.session.Session.client", no_client)


def test_a_deployed_function_applies_what_it_collects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever switches the protection off in Lambda does not lose the writes and messages of which
    callers are told.

    Red when they are dropped there as in a unit test.
    """
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "payments")
    own = MemoryStore()

    @idempotent(operation="POST /deployed", tenant=single_tenant(), effects="recorded", store=own)
    def handler(event: dict[str, Any], context: object, op: Operation) -> dict[str, Any]:
        op.transaction.put("payments", {"id": op.operation_id})
        op.outbox.publish("paid", {})
        return {"statusCode": 201, "body": "paid"}

    assert handler(EVENT, None)["statusCode"] == 201
    assert (len(own.writes), len(own.messages), own.records) == (1, 1, {})


@pytest.mark.parametrize("own", [None, MemoryStore()], ids=["no store", "a store of its own"])
def test_a_recorded_handler_runs_and_nothing_is_written(own: MemoryStore | None) -> None:
    """Its steps run, and its writes, messages and commits go nowhere, also with a store given."""

    @idempotent(operation="POST /pay", tenant=single_tenant(), effects="recorded", store=own)
    def handler(event: dict[str, Any], context: object, op: Operation) -> dict[str, Any]:
        op.transaction.put("payments", {"id": op.operation_id})
        op.commit("made")
        op.outbox.publish("paid", {"text": "x" * 300_000})
        return {"statusCode": 201, "body": op.step("charge", lambda: "charged")}

    assert handler({}, None)["body"] == handler({}, None)["body"] == "charged"
    assert own is None or not (own.records or own.writes or own.messages or own.blobs)


def test_a_recorded_function_runs_and_nothing_is_written() -> None:
    """It runs with each call."""
    runs = []

    @idempotent_function(operation="pay", key=str, tenant=single_tenant(), effects="recorded")
    def pay(payment: str) -> int:
        current_operation().transaction.put("payments", {"id": payment})
        runs.append(payment)
        return len(runs)

    assert [pay("one"), pay("one")] == [1, 2]


def test_a_webhook_accepts_a_signed_event_and_writes_nothing() -> None:
    """The signature is still checked."""

    @webhook(
        operation="POST /webhooks/stripe",
        scheme=StripeSignature(),
        tenant=single_tenant(),
        secrets=[STRIPE.secret],
    )
    def on_event(delivery: Delivery) -> Publish:
        return Publish("paid", {"id": delivery.id})

    def sent(secret: bytes) -> int:
        body = b'{"id":"evt_1"}'
        headers = STRIPE.headers(secret, body, "evt_1", SystemClock().now_ms() // 1000)
        return int(on_event(event_with(headers, body), None)["statusCode"])

    assert (sent(STRIPE.secret), sent(STRIPE.other_secret)) == (200, 400)


def test_a_route_of_powertools_runs() -> None:
    """It needs no key and no tenant."""
    from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

    app = APIGatewayHttpResolver()
    app.use(middlewares=[idempotent_route(tenant=single_tenant(), effects="recorded")])

    @app.post("/payments")
    def pay() -> dict[str, str]:
        current_operation().transaction.put("payments", {"id": "1"})
        return {"id": "1"}

    assert app.resolve(EVENT, None)["statusCode"] == 200  # type: ignore[arg-type]


def test_a_job_runs_with_each_delivery() -> None:
    """A message that was made for the test runs its handler; there is no record to find."""
    runs = []

    @idempotent(operation="POST /reports", tenant=single_tenant(), mode="queued")
    def report(event: dict[str, Any], context: object) -> dict[str, Any]:
        runs.append(event["body"])
        return {"statusCode": 201}

    with use_store(MemoryStore()) as store:
        report(EVENT, None)
    job = delivered(sealed(store.messages[0]))
    jobs = Jobs(report)
    jobs.perform(job, None)
    jobs.perform(job, None)

    assert runs == [EVENT["body"]] * 2


def test_a_worker_reports_failures_and_calls_no_queue(caplog: pytest.LogCaptureFixture) -> None:
    """It works on each message, and the answer names those that failed."""

    def work(record: Any, context: object) -> None:
        if json.loads(record["body"])["tenant"] == "bad":
            raise ValueError

    event = delivery(message(), message(tenant="bad"))

    assert Worker(work)(event, None) == {"batchItemFailures": [{"itemIdentifier": "record-1"}]}
    assert postpone("handle", after_s=1) is False
    assert "message-not-postponed" not in caplog.text


def test_settling_finds_nothing() -> None:
    """There is no record to settle."""
    references: list[str] = []

    @idempotent(operation="POST /pay", tenant=single_tenant())
    def handler(event: dict[str, Any], context: object, op: Operation) -> dict[str, Any]:
        references.append(op.reference)
        return {"statusCode": 201}

    with use_store(MemoryStore()):
        handler(EVENT, None)

    assert settle(references[0], Completed({"statusCode": 201})) is Settlement.NOT_IN_DOUBT


def test_the_reconciler_and_the_status_find_nothing() -> None:
    """A run has nothing to do, and no operation is known, also for an event without a tenant."""
    request = {**EVENT, "rawPath": "/operations/00000000-0000-4000-8000-000000000001"}

    assert Reconciler()({}, None)["visited"] == 0
    for tenant in (single_tenant(), jwt_claim("tenant_id")):
        assert OperationStatus(tenant=tenant)(request, None)["statusCode"] == 404
