"""Charging, storing and reading, against the local provider and a mocked table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import stripe
from botocore.exceptions import ClientError

from functions.payments import logic
from functions.payments.models import Payment, PaymentRequest
from oncekey import NotExecuted, Operation
from tests.support.dynamodb import Recorder
from tests.support.provider import sdk

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_dynamodb import DynamoDBClient

    from tests.support.provider import Provider

REQUEST = PaymentRequest(customer_id="cus_1", amount=1200, currency="eur")
OPERATION_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
PAYMENT_ID = "pay_0f8fad5bd9cb469fa16570867728950e"


def operation(attempt: int = 1, tenant: str = "tenant-1") -> Operation:
    """An attempt at the operation of these tests."""
    return Operation(
        name="POST /payments", operation_id=OPERATION_ID, attempt=attempt, tenant=tenant
    )


def rows(table: DynamoDBClient) -> list[dict[str, Any]]:
    """Everything in the payments table."""
    return [dict(row) for row in table.scan(TableName="payments-of-the-tests")["Items"]]


def test_a_payment_is_charged_and_stored(provider: Provider, table: DynamoDBClient) -> None:
    """The provider charges once and knows the operation; the row can be read."""
    payment = logic.create_payment(REQUEST, operation())

    assert payment == Payment(
        payment_id=PAYMENT_ID, status="succeeded", amount=1200, currency="eur"
    )
    assert logic.find_payment("tenant-1", PAYMENT_ID) == payment
    with sdk(provider.url) as client:
        (intent,) = client.v1.payment_intents.list().data
    assert (intent.amount, intent.currency, intent.customer) == (1200, "eur", "cus_1")
    assert intent.metadata.to_dict() == {
        "operation_id": OPERATION_ID,
        "payment_id": PAYMENT_ID,
        "tenant": "tenant-1",
    }
    (row,) = rows(table)
    assert row["provider_id"] == {"S": intent.id}
    assert row["operation_id"] == {"S": OPERATION_ID}


def test_a_second_attempt_charges_nothing(provider: Provider, table: DynamoDBClient) -> None:
    """Another attempt at the same operation gets the same charge and leaves the same row."""
    first = logic.create_payment(REQUEST, operation())
    before = rows(table)

    second = logic.create_payment(REQUEST, operation(attempt=2))

    assert first == second
    assert before == rows(table)
    assert provider.counts()["charges"] == 1


def test_a_declined_card_is_an_outcome(provider: Provider, table: DynamoDBClient) -> None:
    """A decline is stored as such, and another attempt does not try the card again."""
    provider.arm(decline=1)

    payments = [logic.create_payment(REQUEST, operation(attempt)) for attempt in (1, 2)]

    assert [payment.status for payment in payments] == ["declined", "declined"]
    assert logic.find_payment("tenant-1", PAYMENT_ID) == payments[0]
    assert provider.counts()["charges"] == 0
    (row,) = rows(table)
    assert row["provider_id"]["S"].startswith("pi_")


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("fault", ["lose_answer", "fail"])
def test_one_missing_answer_is_asked_for_again(provider: Provider, fault: str) -> None:
    """A lost answer or a 5xx is followed by the same call, and there is one charge."""
    provider.arm(**{fault: 1})

    payment = logic.create_payment(REQUEST, operation())

    assert payment.status == "succeeded"
    assert provider.counts()["charges"] == 1


@pytest.mark.parametrize(
    ("fault", "error", "charges"),
    [("lose_answer", stripe.APIConnectionError, 1), ("fail", stripe.APIError, 0)],
)
def test_missing_answers_leave_the_outcome_unknown(
    provider: Provider, table: DynamoDBClient, fault: str, error: type[Exception], charges: int
) -> None:
    """Without an answer nothing is claimed: not that it was charged, and not that it was not."""
    provider.arm(**{fault: 2})

    with pytest.raises(error) as raised:
        logic.create_payment(REQUEST, operation())

    assert not isinstance(raised.value, NotExecuted)
    assert provider.counts()["charges"] == charges
    assert rows(table) == []


@pytest.mark.usefixtures("table")
def test_a_call_that_is_still_running_leaves_the_outcome_unknown(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that outlasts our patience is not taken for one that did nothing."""
    monkeypatch.setattr(logic, "_PROVIDER_TIMEOUT_S", (5, 0.05))
    logic._provider.cache_clear()
    provider.arm(hold=True)

    with pytest.raises(stripe.StripeError) as raised:
        logic.create_payment(REQUEST, operation())
    provider.wait_held(1)
    provider.arm(hold=False)

    assert isinstance(raised.value, stripe.APIConnectionError | stripe.APIError)
    assert provider.counts()["charges"] == 1


def test_a_wrong_key_of_the_provider_executes_nothing(
    provider: Provider, table: DynamoDBClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused authentication proves that nothing happened."""
    monkeypatch.setenv("PROVIDER_API_KEY", "wrong")
    logic._provider.cache_clear()

    with pytest.raises(NotExecuted, match="AuthenticationError"):
        logic.create_payment(REQUEST, operation())

    assert provider.counts()["calls"] == 0
    assert rows(table) == []


def test_a_payment_that_the_provider_refuses_is_refused_for_good(
    provider: Provider, table: DynamoDBClient
) -> None:
    """A currency that the provider does not have: nothing happened, now or later."""
    request = PaymentRequest(customer_id="cus_1", amount=1200, currency="zzz")

    with pytest.raises(logic.PaymentRefused, match="currency"):
        logic.create_payment(request, operation())

    assert provider.counts()["charges"] == 0
    assert rows(table) == []


def test_a_rate_limit_executes_nothing() -> None:
    """The provider's rate limiter stands before everything else."""
    with pytest.raises(NotExecuted, match="RateLimitError"):
        logic._charge(answering(stripe.RateLimitError("slow down")), REQUEST, operation(), "pay_1")


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(lambda: stripe.AuthenticationError("no such key"), id="authentication"),
        pytest.param(lambda: invalid("amount"), id="invalid"),
        pytest.param(lambda: stripe.PermissionError("not yours"), id="permission"),
        pytest.param(lambda: stripe.RateLimitError("slow down"), id="rate limit"),
    ],
)
def test_a_refusal_proves_nothing_about_an_earlier_try(refusal: Callable[[], Exception]) -> None:
    """A call without an answer stays unknown although its repetition was refused, for now or for
    good: the first may have charged.

    Red when a refusal of the second try counts as one of the first.
    """
    error_type: Any = stripe.APIConnectionError
    lost = error_type("no answer")
    provider = answering(lost, refusal())

    with pytest.raises(stripe.APIConnectionError) as raised:
        logic._charge(provider, REQUEST, operation(), "pay_1")

    assert raised.value is lost


def test_another_request_under_the_operations_key_is_unknown() -> None:
    """A key that the provider knows with other parameters proves that something was sent."""
    with pytest.raises(stripe.IdempotencyError):
        logic._charge(answering(stripe.IdempotencyError("reused")), REQUEST, operation(), "pay_1")


def test_a_row_that_cannot_be_written_leaves_the_outcome_unknown(
    provider: Provider, table: DynamoDBClient
) -> None:
    """A charge without its row is not reported as if nothing had happened."""
    table.delete_table(TableName="payments-of-the-tests")

    with pytest.raises(ClientError):
        logic.create_payment(REQUEST, operation())

    assert provider.counts()["charges"] == 1


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("name", ["PAYMENTS_TABLE", "PROVIDER_URL", "PROVIDER_API_KEY"])
def test_a_missing_setting_is_found_before_the_charge(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A function that is not configured says what it lacks, and has charged nobody."""
    monkeypatch.delenv(name)

    with pytest.raises(NotExecuted, match=name):
        logic.create_payment(REQUEST, operation())

    assert provider.counts()["calls"] == 0


@pytest.mark.usefixtures("provider", "table")
def test_another_tenants_payment_looks_absent() -> None:
    """A payment is found by its own tenant only."""
    logic.create_payment(REQUEST, operation(tenant="tenant-1"))

    assert logic.find_payment("tenant-2", PAYMENT_ID) is None
    assert logic.find_payment("tenant-1", "pay_" + "0" * 32) is None


@pytest.mark.usefixtures("table")
def test_a_payment_is_read_as_of_now() -> None:
    """Who was told of a payment finds it: the read is strongly consistent.

    Red when an eventually consistent read may answer that there is none.
    """
    sent = Recorder(logic._table())

    logic.find_payment("tenant-1", PAYMENT_ID)

    ((name, parameters),) = sent.calls
    assert (name, parameters["ConsistentRead"]) == ("GetItem", True)


def test_no_tenants_name_reaches_into_anothers_rows() -> None:
    """Tenants and ids that would read the same when joined have different keys."""
    parts = [("a", "b#c"), ("a#b", "c"), ("1#a", "b#c"), ("", "a#b#c"), ("3#a#b", "c")]

    assert len({logic.row_key(tenant, payment_id) for tenant, payment_id in parts}) == len(parts)


def invalid(parameter: str) -> Exception:
    """The provider says that this parameter is wrong."""
    error_type: Any = stripe.InvalidRequestError
    error: Exception = error_type("no", param=parameter)
    return error


def answering(*errors: Exception) -> stripe.StripeClient:
    """A client whose calls fail in this order, as the local provider cannot be told to."""
    left = list(errors)

    class HttpClient(stripe.RequestsClient):
        def request_with_retries(self, *args: Any, **kwargs: Any) -> Any:
            raise left.pop(0)

    return stripe.StripeClient("sk_test_none", http_client=HttpClient())
