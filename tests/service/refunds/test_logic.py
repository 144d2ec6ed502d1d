"""Giving back and storing it, against the local provider and mocked tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import stripe
from botocore.exceptions import ClientError

from functions.refunds import logic
from functions.refunds.models import Refund, RefundRequest
from functions.shared import provider as provider_of_functions
from oncekey import NotExecuted, Operation
from oncekey.effects.operation import downstream_key
from tests.support.provider import sdk
from tests.support.reference_tables import PAYMENT_ID
from tests.support.stripe_answers import Scripted, invalid, lost

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.provider import Provider
    from tests.support.reference_tables import Tables

REQUEST = RefundRequest(payment_id=PAYMENT_ID, amount=300)
OPERATION_ID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
REFERENCE = f"v1#record.{OPERATION_ID}"
REFUND_ID = "ref_7c9e6679742540de944be07fc1f90ae7"
REFERENCE = f"v1#record.{OPERATION_ID}"


def operation(attempt: int = 1, tenant: str = "tenant-1") -> Operation:
    """An attempt at the operation of these tests."""
    return Operation(
        name="POST /refunds",
        operation_id=OPERATION_ID,
        attempt=attempt,
        tenant=tenant,
        reference=REFERENCE,
    )


def give_back(client: stripe.StripeClient) -> stripe.Refund:
    """Ask the provider behind this client."""
    return logic._give_back(client, REQUEST, operation(), refund_id=REFUND_ID, intent_id="pi_1")


def test_a_refund_is_made_and_stored(provider: Provider, tables: Tables, intent_id: str) -> None:
    """The provider gives back once and knows the operation; the row says so."""
    refund = logic.create_refund(REQUEST, operation())

    assert refund == Refund(
        refund_id=REFUND_ID, payment_id=PAYMENT_ID, status="succeeded", amount=300
    )
    with sdk(provider.url) as client:
        (made,) = client.v1.refunds.list().data
    assert (made.amount, made.payment_intent) == (300, intent_id)
    assert made.metadata is not None
    assert made.metadata.to_dict() == {
        "operation_id": OPERATION_ID,
        "payment_id": PAYMENT_ID,
        "refund_id": REFUND_ID,
        "tenant": "tenant-1",
        "reference": REFERENCE,
    }
    assert tables.rows("refunds") == [
        {
            "pk": f"8#tenant-1#{REFUND_ID}",
            "tenant": "tenant-1",
            "refund_id": REFUND_ID,
            "payment_id": PAYMENT_ID,
            "operation_id": OPERATION_ID,
            "amount": 300,
            "status": "succeeded",
            "provider_id": made.id,
            "refunded_at": made.created,
        }
    ]


@pytest.mark.usefixtures("intent_id")
def test_a_second_attempt_gives_nothing_back(provider: Provider, tables: Tables) -> None:
    """Another attempt at the same operation gets the same refund and leaves the same row."""
    first = logic.create_refund(REQUEST, operation())
    before = tables.rows("refunds")

    second = logic.create_refund(REQUEST, operation(attempt=2))

    assert first == second
    assert before == tables.rows("refunds")
    assert provider.counts()["refunds"] == 1


@pytest.mark.usefixtures("intent_id")
@pytest.mark.parametrize("fault", ["lose_answer", "fail"])
def test_one_missing_answer_is_asked_for_again(provider: Provider, fault: str) -> None:
    """A lost answer or a 5xx is followed by the same call, and there is one refund."""
    provider.arm(**{fault: 1})

    assert logic.create_refund(REQUEST, operation()).status == "succeeded"
    assert provider.counts()["refunds"] == 1


@pytest.mark.usefixtures("intent_id")
@pytest.mark.parametrize(
    ("fault", "error", "refunds"),
    [("lose_answer", stripe.APIConnectionError, 1), ("fail", stripe.APIError, 0)],
)
def test_missing_answers_leave_the_outcome_unknown(
    provider: Provider, tables: Tables, fault: str, error: type[Exception], refunds: int
) -> None:
    """Without an answer nothing is claimed: not that it was given back, and not that it was not."""
    provider.arm(**{fault: 2})

    with pytest.raises(error) as raised:
        logic.create_refund(REQUEST, operation())

    assert not isinstance(raised.value, NotExecuted)
    assert provider.counts()["refunds"] == refunds
    assert tables.rows("refunds") == []


@pytest.mark.usefixtures("tables", "intent_id")
def test_a_wrong_key_of_the_provider_executes_nothing(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused authentication proves that nothing happened."""
    monkeypatch.setenv("PROVIDER_API_KEY", "wrong")
    provider_of_functions.client.cache_clear()

    with pytest.raises(NotExecuted, match="AuthenticationError"):
        logic.create_refund(REQUEST, operation())

    assert provider.counts()["refunds"] == 0


def test_a_rate_limit_executes_nothing() -> None:
    """The provider's rate limiter stands before everything else."""
    with pytest.raises(NotExecuted, match="RateLimitError"):
        give_back(Scripted(stripe.RateLimitError("slow down")).client)


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
    good: the first may have given the money back.

    Red when a refusal of the second try counts as one of the first.
    """
    first = lost()

    with pytest.raises(stripe.APIConnectionError) as raised:
        give_back(Scripted(first, refusal()).client)

    assert raised.value is first


def test_another_request_under_the_operations_key_is_unknown() -> None:
    """A key that the provider knows with other parameters proves that something was sent."""
    with pytest.raises(stripe.IdempotencyError):
        give_back(Scripted(stripe.IdempotencyError("reused")).client)


@pytest.mark.usefixtures("intent_id")
def test_a_payment_that_cannot_be_read_executes_nothing(provider: Provider, tables: Tables) -> None:
    """Without the payment the provider is not asked, so the key is free again."""
    tables.drop("payments")

    with pytest.raises(NotExecuted, match="payments table"):
        logic.create_refund(REQUEST, operation())

    assert provider.counts()["refunds"] == 0


@pytest.mark.usefixtures("intent_id")
def test_a_row_that_cannot_be_written_leaves_the_outcome_unknown(
    provider: Provider, tables: Tables
) -> None:
    """A refund without its row is not reported as if nothing had happened."""
    tables.drop("refunds")

    with pytest.raises(ClientError):
        logic.create_refund(REQUEST, operation())

    assert provider.counts()["refunds"] == 1


@pytest.mark.usefixtures("intent_id")
@pytest.mark.parametrize(
    "name", ["PAYMENTS_TABLE", "REFUNDS_TABLE", "PROVIDER_URL", "PROVIDER_API_KEY"]
)
def test_a_missing_setting_is_found_before_the_refund(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A function that is not configured says what it lacks, and has given nothing back."""
    monkeypatch.delenv(name)

    with pytest.raises(NotExecuted, match=name):
        logic.create_refund(REQUEST, operation())

    assert provider.counts()["refunds"] == 0


def test_the_provider_is_shown_the_operations_own_key(provider: Provider, intent_id: str) -> None:
    """A second call under the key of the operation's refund is the same refund to the provider.

    Red when the refund is sent without the operation's key, or under another one.
    """
    refund = logic.create_refund(REQUEST, operation())

    with sdk(provider.url) as client:
        repeated = client.v1.refunds.create(
            {
                "payment_intent": intent_id,
                "amount": 300,
                "metadata": {
                    "operation_id": OPERATION_ID,
                    "payment_id": PAYMENT_ID,
                    "refund_id": refund.refund_id,
                    "tenant": "tenant-1",
                    "reference": REFERENCE,
                },
            },
            {"idempotency_key": downstream_key(OPERATION_ID, "refund")},
        )

    assert repeated.status == "succeeded"
    assert provider.counts()["refunds"] == 1
