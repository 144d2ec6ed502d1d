"""A payment's whole way over real HTTP: accepted, relayed, charged, and read by its tenant."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import requests

from infra.service_resources import REQUESTED
from oncekey.client import IdempotentAdapter, IdempotentTransport, Retrying
from oncekey.outbox.envelope import sealed
from oncekey.record.message import Message
from tests.support.dev_service import running, send
from tests.support.looking import until
from tests.support.openapi import check_documented
from tests.support.payments_client import BODY, Client, code_of, new_key
from tests.support.unreliable_way import way_to

if TYPE_CHECKING:
    from collections.abc import Iterator

QUEUE, DEAD_LETTERS = "payments-local-payments", "payments-local-payments-dead-letters"
TABLE = "payments-local-payments"
# What the provider calls them.
STATUSES = {"succeeded": "succeeded", "declined": "requires_payment_method"}


@pytest.fixture(scope="module")
def service() -> Iterator[Client]:
    """The reference service, whose leases last for five seconds and whose failed messages come
    again after one.
    """
    env = {"ONCEKEY_LEASE_MARGIN_MS": "300"}
    quick: dict[str, Any] = {"timeout_s": 5, "visibility_timeout_s": 1, "schedule_s": "off"}
    with running("infra.service:SERVICE", env=env, **quick) as dev:
        yield Client(dev)


@pytest.fixture
def payments(service: Client) -> Client:
    """Nothing is on its way, nothing is dead, and the provider works and knows nothing."""
    service.provider.reset()
    service.quiet()
    sqs = service.aws("sqs")
    queue = {"QueueUrl": sqs.get_queue_url(QueueName=DEAD_LETTERS)["QueueUrl"]}
    for message in sqs.receive_message(**queue, MaxNumberOfMessages=10).get("Messages", []):
        sqs.delete_message(**queue, ReceiptHandle=message["ReceiptHandle"])
    assert service.dev.queues()["payments"]["dead_letters"] == 0
    return service


def row_of(payments: Client, payment_id: str) -> dict[str, Any]:
    """The payment as the table holds it."""
    (row,) = [row for row in payments.rows("payments") if row["payment_id"]["S"] == payment_id]
    return row


def check_agrees(payments: Client, payment: dict[str, Any]) -> None:
    """The provider holds the payment once, and its end is that of our row."""
    (intent,) = payments.provider.payment_intents()
    row = row_of(payments, payment["payment_id"])
    assert intent["metadata"]["payment_id"] == payment["payment_id"]
    assert intent["metadata"]["tenant"] == payments.tenant
    assert intent["status"] == STATUSES[payment["status"]]
    assert (intent["amount"], intent["currency"]) == (payment["amount"], payment["currency"])
    assert (row["status"]["S"], row["provider_id"]["S"]) == (payment["status"], intent["id"])


def check_given_up(payments: Client, since: int, count: int) -> None:
    """So many messages become dead letters, each after as many failed receives as there may be."""
    until(
        lambda: payments.dev.queues()["payments"]["dead_letters"] == count,
        f"there are not {count} dead letters",
    )
    until(lambda: not payments.dev.busy("outbox-worker"), "the worker does not end")
    failed: dict[str, list[int]] = {}
    for line in payments.dev.log()[since:].splitlines():
        if found := re.search(r"message-failed: ([\w-]+): \w+ at receive (\d+)", line):
            failed.setdefault(found[1], []).append(int(found[2]))
    each_time = list(range(1, REQUESTED.max_receives + 1))
    assert [sorted(receives) for receives in failed.values()] == [each_time] * count


@pytest.mark.requirement("C3")
@pytest.mark.requirement("C5")
def test_a_payment_is_accepted_at_once_and_charged_after_its_commit(payments: Client) -> None:
    """While the provider holds the charge the client has its 202, the row is there and pending, and
    the message is in the queue; when it ends, the row has the provider's id and the queue is empty.

    Red when the API calls the provider, or the message is acknowledged before the charge is over.
    """
    payments.provider.arm(hold=True)
    accepted = payments.ask(new_key())
    payments.provider.wait_held(1)

    assert accepted.status == 202
    payment_id = accepted.json()["payment_id"]
    assert accepted.json() == {"payment_id": payment_id, "status": "pending"}
    location = accepted.headers["location"]
    assert location == f"/payments/{payment_id}"
    pending = payments.show(location)
    assert (pending.status, pending.json()["status"]) == (200, "pending")
    assert "provider_id" not in row_of(payments, payment_id)
    queue = payments.dev.queues()["payments"]
    assert queue["visible"] + queue["in_flight"] + queue["delayed"] == 1

    payments.provider.arm(hold=False)
    ended = payments.ended(accepted)
    assert ended == {**pending.json(), "status": "succeeded"}
    assert ended == {
        "payment_id": payment_id,
        "status": "succeeded",
        "amount": BODY["amount"],
        "currency": BODY["currency"],
    }
    check_agrees(payments, ended)
    payments.quiet()
    assert payments.provider.counts()["calls"] == 1


@pytest.mark.requirement("C17")
def test_a_retry_gets_the_first_answer_also_after_the_charge(payments: Client) -> None:
    """Before and after the charge a retry is the same 202, said to be a replay; how the payment
    stands is what GET says; and nobody is charged again.

    Red when the replay shows the payment's present state, or a retry publishes a second message.
    """
    key = new_key()
    payments.provider.arm(hold=True)
    first = payments.ask(key)
    payments.provider.wait_held(1)
    before = payments.ask(key)
    payments.provider.arm(hold=False)
    ended = payments.ended(first)
    after = payments.ask(key)

    assert "idempotent-replayed" not in first.headers
    for replay in (before, after):
        assert (replay.status, replay.body) == (202, first.body)
        assert replay.headers["location"] == first.headers["location"]
        assert replay.headers["idempotent-replayed"] == "true"
    assert ended["status"] == "succeeded"
    payments.quiet()
    assert payments.provider.counts()["calls"] == 1


@pytest.mark.requirement("C11")
def test_a_payment_looks_absent_to_another_tenant(payments: Client) -> None:
    """Pending or charged, another tenant's payment is a 404 like one that never was; and the same
    key is that tenant's own, for a payment of its own.

    Red when the row is found by its id alone, or the tenant is left out of the record's key.
    """
    key, other = new_key(), payments.of("globex")
    payments.provider.arm(hold=True)
    accepted = payments.ask(key)
    payments.provider.wait_held(1)
    location = accepted.headers["location"]
    while_pending = other.show(location)
    payments.provider.arm(hold=False)
    payments.ended(accepted)
    after, never = other.show(location), other.show("/payments/pay_" + "0" * 32)
    own = other.ask(key)

    assert (never.status, code_of(never)) == (404, "payment-unknown")
    for answer in (while_pending, after):
        assert (answer.status, answer.body) == (never.status, never.body)
    assert other.ended(own)["payment_id"] != accepted.json()["payment_id"]
    assert payments.show(own.headers["location"]).status == 404


@pytest.mark.requirement("C4")
@pytest.mark.requirement("C18")
@pytest.mark.parametrize(
    ("faults", "status", "most_calls"),
    [
        pytest.param({"delay_ms": 1_500}, "succeeded", 2, id="slow"),
        pytest.param({"fail": 2}, "succeeded", 3, id="error 500"),
        pytest.param({"decline": 1}, "declined", 1, id="declined"),
        pytest.param({"lose_answer": 2}, "succeeded", 3, id="applied, and the answer lost"),
        pytest.param({"decline": 1, "lose_answer": 1}, "declined", 2, id="declined, and lost"),
    ],
)
def test_a_payment_ends_as_the_provider_says(
    payments: Client, faults: dict[str, int], status: str, most_calls: int
) -> None:
    """However slow or broken the provider is, the payment ends as it has it: one charge or none.

    Red when the worker shows no key, or takes an answer that was lost for a failure.
    """
    payments.provider.arm(**faults)

    ended = payments.ended(payments.ask(new_key()))

    assert ended["status"] == status
    check_agrees(payments, ended)
    payments.quiet()
    assert payments.provider.counts()["calls"] <= most_calls
    assert payments.provider.counts()["charges"] == (status == "succeeded")


@pytest.mark.requirement("C3")
@pytest.mark.requirement("C6")
def test_a_provider_that_is_down_for_long_costs_no_payment(payments: Client) -> None:
    """A provider that is down takes the message to the dead letters after so many receives, and
    the payment stays pending; once it is back, a redrive ends it: one charge.

    Red when a failed message is acknowledged, or retried without end.
    """
    said = len(payments.dev.log())
    payments.provider.arm(fail=1_000)
    key = new_key()
    accepted = payments.ask(key)

    check_given_up(payments, said, 1)
    assert payments.provider.counts()["calls"] == REQUESTED.max_receives
    assert payments.provider.payment_intents() == []
    assert payments.show(accepted.headers["location"]).json()["status"] == "pending"
    assert payments.ask(key).body == accepted.body

    payments.provider.disarm()
    assert payments.dev.redrive("payments") == 1
    ended = payments.ended(accepted)
    assert ended["status"] == "succeeded"
    check_agrees(payments, ended)
    payments.quiet()
    assert payments.dev.queues()["payments"]["dead_letters"] == 0


@pytest.mark.requirement("C6")
def test_a_poisoned_message_ends_among_the_dead_letters_and_is_done_once_its_cause_is_gone(
    payments: Client,
) -> None:
    """A message whose payment is missing from the table is given up after so many receives, and
    holds up no other; with the row back, a redrive ends it: one charge.

    Red when the worker acknowledges what it could not do, or charges a payment that is not there.
    """
    said, dynamodb = len(payments.dev.log()), payments.aws("dynamodb")
    processes = payments.dev.processes()
    relays = [each["pid"] for each in processes if each["function"] == "outbox-relay"]
    for pid in relays:
        # So the row is gone before the message comes.
        os.kill(pid, signal.SIGSTOP)
    poisoned = payments.ask(new_key())
    row = row_of(payments, poisoned.json()["payment_id"])
    dynamodb.delete_item(TableName=TABLE, Key={"pk": row["pk"]})
    for pid in relays:
        os.kill(pid, signal.SIGCONT)
    good = payments.ended(payments.ask(new_key()))

    assert good["status"] == "succeeded"
    check_given_up(payments, said, 1)
    assert payments.provider.counts()["calls"] == 1

    dynamodb.put_item(TableName=TABLE, Item=row)
    redriven = send(payments.dev.url, "POST", "/_dev/redrive?queue=payments")
    assert (redriven.status, redriven.json()) == (200, {"queue": "payments", "moved": 1})
    assert payments.ended(poisoned)["status"] == "succeeded"
    payments.quiet()
    assert payments.dev.queues()["payments"]["dead_letters"] == 0
    assert payments.provider.counts() == {"held": 0, "calls": 2, "charges": 2, "refunds": 0}


@pytest.mark.requirement("C6")
def test_a_message_that_the_worker_cannot_read_or_know_ends_among_the_dead_letters(
    payments: Client,
) -> None:
    """An unreadable body and an unknown topic are given up after so many receives, and nobody is
    charged; a payment beside them is.

    Red when the worker drops what it does not know, or it fails the whole batch.
    """
    said, sqs = len(payments.dev.log()), payments.aws("sqs")
    message = Message(
        id="0199-unknown",
        topic="payment.forgotten",
        payload="{}",
        operation_id="0199",
        operation="POST /payments",
        tenant=payments.tenant,
        created_at_ms=0,
    )
    sqs.send_message_batch(
        QueueUrl=sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"],
        Entries=[
            {"Id": "unknown", "MessageBody": sealed(message)},
            {"Id": "unreadable", "MessageBody": "not of an outbox"},
        ],
    )
    good = payments.ended(payments.ask(new_key()))

    assert good["status"] == "succeeded"
    check_given_up(payments, said, 2)
    assert payments.provider.counts()["calls"] == 1


@pytest.mark.requirement("C5")
@pytest.mark.requirement("C18")
def test_a_store_that_goes_down_before_the_charge_is_recorded_costs_nothing(
    payments: Client,
) -> None:
    """The provider charges, and the store takes nothing more: the message is not acknowledged, and
    once the store is back the same charge is asked for again, and recorded: one charge.

    Red when the message is acknowledged before the row has the provider's id, or the worker shows
    no key.
    """
    payments.provider.arm(hold=True)
    accepted = payments.ask(new_key())
    payments.provider.wait_held(1)
    payments.set_store_faults(down=True)
    payments.provider.arm(hold=False)
    assert payments.provider.counts()["charges"] == 1
    until(lambda: not payments.dev.busy("outbox-worker"), "the worker does not end")
    payments.set_store_faults(down=False)
    assert "provider_id" not in row_of(payments, accepted.json()["payment_id"])

    ended = payments.ended(accepted)

    assert ended["status"] == "succeeded"
    check_agrees(payments, ended)
    payments.quiet()
    assert payments.provider.counts() == {"held": 0, "calls": 2, "charges": 1, "refunds": 0}


def test_a_retrying_client_whose_answers_are_lost_charges_once(payments: Client) -> None:
    """Through both of our clients, a payment whose first two answers are lost, and whose third
    request meets a store that is down, is accepted under one key and charged once.

    Red when a client takes a new key for a retry, or gives up while a retry helps.
    """
    retrying = Retrying(first_pause_s=0.01, longest_pause_s=0.01)
    headers = {"Authorization": f"Bearer {payments.dev.token('acme')}"}
    with way_to(payments.dev.url) as way, requests.Session() as session:
        way.on_answer = lambda _: payments.set_store_faults(down=len(way.passed) == 2)
        session.mount("http://", IdempotentAdapter(retrying=retrying))
        way.drop = 2
        first = session.post(f"{way.url}/payments", json=BODY, headers=headers, timeout=60)
        key = first.request.headers["Idempotency-Key"]
        with httpx.Client(
            transport=IdempotentTransport(retrying=retrying), headers=headers, timeout=60
        ) as client:
            way.passed.clear()
            way.drop = 2
            again = client.post(f"{way.url}/payments", json=BODY, headers={"Idempotency-Key": key})

    statuses = [passed.status for passed in way.passed]
    assert (first.status_code, again.status_code) == (202, 202)
    assert statuses == [202, 202, 503, 202]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.content == first.content
    payment_id = first.json()["payment_id"]
    until(
        lambda: payments.show(f"/payments/{payment_id}").json()["status"] != "pending",
        "the payment is not ended",
    )
    payments.quiet()
    assert payments.provider.counts()["calls"] == 1


def test_the_running_service_answers_as_its_document_says(payments: Client) -> None:
    """Answers of accepted, repeated, refused, unauthorised and reading requests, and of requests
    while the store is down, fit the document that the service serves.

    Red when the document and the service differ in a status, a header or a body.
    """
    document = send(payments.dev.url, path="/openapi.json").json()
    key = new_key()
    first = payments.ask(key)
    replay, reused = payments.ask(key), payments.ask(key, {**BODY, "amount": 1})
    refused = [payments.ask(None), payments.ask("short"), payments.ask(new_key(), b"no JSON")]
    payments.set_store_faults(down=True)
    refused.append(payments.ask(new_key()))
    payments.set_store_faults(down=False)
    nobody = send(payments.dev.url, "POST", "/payments", body=b"{}")
    location, elsewhere = first.headers["location"], "/payments/pay_0"
    read, absent = payments.show(location), payments.show(elsewhere)
    unheard_of = payments.show("/operations/0f8fad5b-d9cb-469f-a165-70867728950e")

    posted = [first, replay, reused, *refused, nobody]
    assert [each.status for each in posted] == [202, 202, 422, 400, 400, 400, 503, 401]
    assert [each.status for each in (read, absent, unheard_of)] == [200, 404, 404]
    of = [("POST /payments", each) for each in posted]
    of += [("GET /payments/{payment_id}", read), ("GET /payments/{payment_id}", absent)]
    of += [("GET /operations/{operation_id}", unheard_of)]
    for operation, each in of:
        check_documented(
            document, operation, status=each.status, headers=each.headers, body=each.body
        )
    payments.quiet()
