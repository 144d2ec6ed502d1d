"""What the worker makes of deliveries, against a local provider and mocked tables."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import stripe

from functions.outbox_worker import handler as worker
from functions.outbox_worker import logic
from functions.outbox_worker.handler import handler, logger
from functions.shared import provider as provider_of_functions
from functions.shared.models import Charge
from oncekey import InProgress, OutcomeUnknown, StoreUnavailable
from oncekey.outbox.worker import Worker
from tests.support.events import load
from tests.support.provider import API_KEY, sdk
from tests.support.queue_events import MESSAGE, delivery, failed, message
from tests.support.reference_tables import PAYMENT_ID, PENDING
from tests.support.stripe_answers import Scripted

if TYPE_CHECKING:
    from tests.support.provider import Provider
    from tests.support.reference_tables import Tables


@pytest.fixture(autouse=True)
def payment(tables: Tables) -> None:
    """The payment that the sample's message asks for."""
    tables.add_payment()


def status(tables: Tables) -> str:
    """That of the payment."""
    (row,) = tables.rows("payments")
    return str(row["status"])


def test_the_first_delivery_charges(provider: Provider, tables: Tables) -> None:
    """The provider charges once and knows payment and tenant; row and record say how it ended."""
    answer = handler(load("sqs_payment_requested"), None)

    assert answer == {"batchItemFailures": []}
    with sdk(provider.url) as client:
        (intent,) = client.v1.payment_intents.list().data
    assert (intent.amount, intent.currency, intent.customer) == (1200, "eur", "cus_1")
    assert intent.metadata.to_dict() == {
        "operation_id": PENDING["operation_id"],
        "payment_id": PAYMENT_ID,
        "tenant": "tenant-1",
    }
    (row,), (record,) = tables.rows("payments"), tables.rows("idempotency")
    assert (row["status"], row["provider_id"]) == ("succeeded", intent.id)
    assert row["charged_at"] == intent.created
    assert {name: row[name] for name in PENDING if name != "status"} == {
        name: value for name, value in PENDING.items() if name != "status"
    }
    assert record["status"] == "COMPLETED"


def test_a_delivery_of_what_is_done_is_a_success(provider: Provider) -> None:
    """A message that comes again is acknowledged, and nobody is charged for it."""
    first, second = handler(delivery(message()), None), handler(delivery(message()), None)

    assert (failed(first), failed(second)) == ([], [])
    assert (provider.counts()["calls"], provider.counts()["charges"]) == (1, 1)


@pytest.mark.requirement("C4")
def test_the_provider_is_shown_the_messages_key(provider: Provider) -> None:
    """The operation that made the payment has derived the key, and it reaches the provider.

    Red when the worker takes another key, such as one of its own operation or of its attempt.
    """
    handler(delivery(message()), None)

    with sdk(provider.url) as client, pytest.raises(stripe.IdempotencyError):
        client.v1.payment_intents.create(
            {"amount": 1, "currency": "eur"}, {"idempotency_key": MESSAGE["payload"]["key"]}
        )


def test_a_declined_card_is_an_outcome(provider: Provider, tables: Tables) -> None:
    """A decline is stored with its reason and acknowledged; the card is not tried again."""
    provider.arm(decline=1)

    answers = [handler(delivery(message()), None) for _ in range(2)]

    assert [failed(answer) for answer in answers] == [[], []]
    (row,) = tables.rows("payments")
    assert (row["status"], row["reason"]) == ("declined", "card_declined")
    assert row["provider_id"].startswith("pi_")
    assert provider.counts()["calls"] == 1


def test_what_the_provider_will_never_accept_is_declined(
    provider: Provider, tables: Tables
) -> None:
    """A currency that the provider does not have ends the payment, rather than retries for ever."""
    answer = handler(delivery(message({"currency": "zzz"})), None)

    assert failed(answer) == []
    (row,) = tables.rows("payments")
    assert (row["status"], row["reason"]) == ("declined", "currency")
    assert "provider_id" not in row
    assert provider.counts()["charges"] == 0


@pytest.mark.parametrize(("fault", "charges"), [("lose_answer", 1), ("fail", 0)])
def test_what_is_uncertain_is_asked_again_by_the_next_delivery(
    provider: Provider, tables: Tables, fault: str, charges: int
) -> None:
    """Without an answer the message fails; the next delivery finds out under the same key."""
    provider.arm(**{fault: 1})

    first = handler(delivery(message()), None)
    assert (failed(first), status(tables)) == (["record-0"], "pending")
    assert provider.counts()["charges"] == charges

    second = handler(delivery(message(), receives=2), None)
    assert (failed(second), status(tables)) == ([], "succeeded")
    assert provider.counts()["charges"] == 1


@pytest.mark.usefixtures("provider")
def test_a_refusal_for_now_is_tried_again(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, provider: Provider
) -> None:
    """A provider that does not let us in leaves the payment pending, and charges it later."""
    monkeypatch.setenv("PROVIDER_API_KEY", "wrong")
    first = handler(delivery(message()), None)
    monkeypatch.setenv("PROVIDER_API_KEY", API_KEY)
    provider_of_functions.client.cache_clear()

    assert (failed(first), status(tables)) == (["record-0"], "pending")
    assert failed(handler(delivery(message(), receives=2), None)) == []
    assert (status(tables), provider.counts()["charges"]) == ("succeeded", 1)


def test_a_rate_limit_is_tried_again(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that is too busy fails the message and ends nothing."""
    scripted = Scripted(stripe.RateLimitError("slow down"))
    monkeypatch.setattr(provider_of_functions, "client", lambda: scripted.client)

    answer = handler(delivery(message()), None)

    assert (failed(answer), status(tables)) == (["record-0"], "pending")
    assert {record["status"] for record in tables.rows("idempotency")} == {"FAILED_RETRYABLE"}


@pytest.mark.requirement("C5")
def test_what_is_not_on_record_is_not_acknowledged(
    provider: Provider, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A charge whose row could not be written leaves its message in the queue.

    Red when the message succeeds although the provider's id is nowhere on record.
    """
    charge = logic._charge

    def meanwhile(*args: Any, **kwargs: Any) -> Any:
        charged = charge(*args, **kwargs)
        tables.drop("payments")
        return charged

    monkeypatch.setattr(logic, "_charge", meanwhile)

    answer = handler(delivery(message()), None)

    assert failed(answer) == ["record-0"]
    assert provider.counts()["charges"] == 1
    assert {record["status"] for record in tables.rows("idempotency")} != {"COMPLETED"}


def test_without_time_nothing_is_begun(provider: Provider) -> None:
    """The records at the end of a batch that took long are left to the next delivery."""
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 0)

    answer = handler(delivery(message()), context)

    assert failed(answer) == ["record-0"]
    assert provider.counts()["calls"] == 0
    assert failed(handler(delivery(message(), receives=2), None)) == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("nonsense", id="no JSON"),
        pytest.param("{}", id="no envelope"),
        pytest.param(message(topic="payment.forgotten"), id="unknown topic"),
        pytest.param(message({"amount": "1200"}), id="amount as text"),
        pytest.param(message({"payment_id": "nonsense"}), id="no payment id"),
        pytest.param(message({"key": ""}), id="no key"),
        pytest.param(message({"payment_id": "pay_" + "0" * 32}), id="no such payment"),
        pytest.param(message(tenant="tenant-2"), id="another tenant"),
        pytest.param(message(tenant=""), id="no tenant"),
    ],
)
def test_what_cannot_be_worked_on_fails_alone(
    provider: Provider, tables: Tables, body: str
) -> None:
    """Such a message is reported, so that it ends as a dead letter; its neighbours are done."""
    answer = handler(delivery(body, message()), None)

    assert failed(answer) == ["record-0"]
    assert (status(tables), provider.counts()["charges"]) == ("succeeded", 1)


def test_a_batch_of_failures_is_an_answer_too() -> None:
    """Where every message fails, each is reported, and the invocation itself succeeds."""
    assert failed(handler(delivery("", "{}"), None)) == ["record-0", "record-1"]


def test_members_that_a_later_release_adds_are_left_alone(provider: Provider) -> None:
    """A worker that is older than the API still charges what the API asks for."""
    assert failed(handler(delivery(message({"statement": "Thanks"})), None)) == []
    assert provider.counts()["charges"] == 1


def test_what_the_api_asks_for_is_what_the_worker_reads() -> None:
    """The sample's payload has each member of the model, and no other."""
    assert set(MESSAGE["payload"]) == set(Charge.model_fields)


@pytest.mark.parametrize("kind", [InProgress, OutcomeUnknown])
@pytest.mark.parametrize(("receives", "delay_s"), [(1, 5), (2, 10), (4, 40)])
def test_not_now_puts_the_message_off(
    monkeypatch: pytest.MonkeyPatch,
    hidden: list[tuple[str, int]],
    kind: Any,
    receives: int,
    delay_s: int,
) -> None:
    """A message that stands behind another attempt fails, and comes back when that says so.

    Each time it waits for twice as long, or it would be a dead letter before a lease is over.
    """

    def our_refusal(*_: object) -> None:
        raise kind(operation="payment.requested", retry_after_s=5)

    monkeypatch.setitem(worker.topics._handlers, "payment.requested", our_refusal)

    answer = handler(delivery(message(), receives=receives, handle="mine"), None)

    assert failed(answer) == ["record-0"]
    assert hidden == [("mine", delay_s)]


@pytest.mark.fault("K4.5")
def test_an_outage_is_waited_out(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the store is down a message is tried again, within the worker's time; once it is back
    the payment is charged, and no receive was used up.

    Red when the worker fails its messages at once.
    """
    charge, down = worker.charge_payment, [1, 1]

    def comes_back(*args: Any) -> Any:
        if down:
            down.pop()
            raise StoreUnavailable(operation="payment.requested", retry_after_s=0)
        return charge(*args)

    monkeypatch.setitem(worker.topics._handlers, "payment.requested", comes_back)

    assert failed(handler(delivery(message()), None)) == []
    assert provider.counts()["charges"] == 1


def test_a_delivery_of_what_is_running_is_put_off(
    provider: Provider,
    tables: Tables,
    hidden: list[tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message that is being worked on fails where it is delivered again, and comes back soon.

    Scheduled: the second delivery arrives while the first is in its call of the provider.
    """
    answers: list[Any] = []
    charge = logic._charge

    def meanwhile(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(logic, "_charge", charge)
        again = delivery(message(), receives=2, handle="again")
        answers.append(handler_of_another_sandbox(again))
        return charge(*args, **kwargs)

    monkeypatch.setattr(logic, "_charge", meanwhile)

    answers.append(handler(delivery(message()), None))

    assert [failed(answer) for answer in answers] == [["record-0"], []]
    # The longest that a caller is told to wait, twice, because it came a second time.
    assert hidden == [("again", 10)]
    assert (status(tables), provider.counts()["charges"]) == ("succeeded", 1)


def handler_of_another_sandbox(event: dict[str, Any]) -> Any:
    """The same work in a worker of its own, as another process has."""
    return Worker(worker.topics)(event, None)


@pytest.mark.usefixtures("provider")
def test_no_payload_and_no_secret_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names messages, operation and payment, and neither customer nor key."""
    lines = io.StringIO()
    monkeypatch.setattr(logger.registered_handler, "stream", lines)
    caplog.set_level("INFO")

    handler(delivery(message(), message({"amount": "customer cus_1"}, id="other")), None)

    (charged,) = (json.loads(line) for line in lines.getvalue().splitlines())
    assert (charged["payment_id"], charged["status"]) == (PAYMENT_ID, "succeeded")
    assert "message-failed: record-1: ValidationError at receive 1" in caplog.text
    output = lines.getvalue() + caplog.text
    secrets = ("cus_1", "sk_test", MESSAGE["payload"]["key"])
    assert [secret for secret in secrets if secret in output] == []
