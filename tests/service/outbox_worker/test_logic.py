"""When the provider is asked before it is told to charge, and what its answers mean."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import stripe

from functions.outbox_worker import logic
from functions.shared import provider as provider_of_functions
from functions.shared.models import Charge
from oncekey import InProgress, NotExecuted, current_operation, idempotent_function
from tests.support.queue_events import MESSAGE
from tests.support.reference_tables import PAYMENT_ID
from tests.support.stripe_answers import Scripted, invalid, lost

if TYPE_CHECKING:
    from tests.support.provider import Provider
    from tests.support.reference_tables import Tables

REQUEST = Charge.model_validate(MESSAGE["payload"])
LATE_MS = logic.PROVIDER_REMEMBERS_MS + 1
CREATE, SEARCH = ("post", "/v1/payment_intents"), ("get", "/v1/payment_intents/search")


@idempotent_function(
    operation="charge", key=lambda key, _: key, tenant=lambda *_: "tenant-1", effects="recorded"
)
def charge(key: str, age_ms: int) -> str:
    """Charge in an operation of its own; the status."""
    operation = current_operation()
    return logic.charge(REQUEST, operation, requested_by="operation", age_ms=age_ms).status.value


@pytest.fixture(autouse=True)
def payment(tables: Tables) -> None:
    """The payment that is to be charged."""
    tables.add_payment()


def intent(status: str, **members: Any) -> tuple[int, str]:
    """A payment intent in this state, as the provider answers it."""
    return 200, json.dumps(_intent(status, **members))


def found(*intents: dict[str, Any]) -> tuple[int, str]:
    """What the provider's search answers."""
    return 200, json.dumps({"object": "search_result", "data": list(intents), "has_more": False})


def _intent(status: str, **members: Any) -> dict[str, Any]:
    shape = {"object": "payment_intent", "last_payment_error": None}
    return {"id": "pi_1", "created": 1796083200, "status": status, **shape, **members}


def scripted(monkeypatch: pytest.MonkeyPatch, *script: Exception | tuple[int, str]) -> Scripted:
    """Let the function meet a provider that answers so."""
    sdk = Scripted(*script)
    monkeypatch.setattr(provider_of_functions, "client", lambda: sdk.client)
    return sdk


@pytest.mark.parametrize(
    ("state", "members", "row"),
    [
        ("succeeded", {}, {"status": "succeeded"}),
        ("processing", {}, {"status": "pending"}),
        ("canceled", {}, {"status": "declined", "reason": "canceled"}),
        (
            "requires_payment_method",
            {"last_payment_error": {"type": "card_error", "code": "expired_card"}},
            {"status": "declined", "reason": "expired_card"},
        ),
    ],
)
def test_the_row_says_what_the_providers_state_means(
    monkeypatch: pytest.MonkeyPatch, tables: Tables, state: str, members: Any, row: Any
) -> None:
    """Only what was charged has succeeded, and what may still be charged is pending."""
    scripted(monkeypatch, intent(state, **members))

    assert charge("1", age_ms=0) == row["status"]

    (stored,) = tables.rows("payments")
    assert stored.items() >= {**row, "provider_id": "pi_1", "charged_at": 1796083200}.items()
    assert ("reason" in stored) is ("reason" in row)


def test_a_decline_without_its_intent_is_one_too(
    monkeypatch: pytest.MonkeyPatch, tables: Tables
) -> None:
    """A card error that names no payment intent leaves a declined payment without an id."""
    error = {"error": {"type": "card_error", "code": "expired_card", "message": "no"}}
    scripted(monkeypatch, (402, json.dumps(error)))

    assert charge("1", age_ms=0) == "declined"

    (stored,) = tables.rows("payments")
    assert stored["reason"] == "expired_card"
    assert "provider_id" not in stored


@pytest.mark.parametrize(
    "refusal",
    [
        stripe.AuthenticationError("no such key"),
        stripe.PermissionError("not yours"),
        stripe.RateLimitError("slow down"),
    ],
    ids=lambda refusal: type(refusal).__name__,
)
def test_a_refusal_for_now_says_that_nothing_happened(
    monkeypatch: pytest.MonkeyPatch, tables: Tables, refusal: stripe.StripeError
) -> None:
    """What stands before the provider's work has charged nobody, and ends nothing."""
    scripted(monkeypatch, refusal)

    with pytest.raises(NotExecuted, match=type(refusal).__name__):
        charge("1", age_ms=0)

    assert [row["status"] for row in tables.rows("payments")] == ["pending"]


@pytest.mark.parametrize("row", [{"status": "succeeded"}, {"provider_id": "pi_9"}])
def test_a_payment_that_is_settled_is_not_charged(
    monkeypatch: pytest.MonkeyPatch, tables: Tables, row: dict[str, str]
) -> None:
    """A message whose record is forgotten, or that somebody else has settled, changes nothing."""
    tables.add_payment(**row)
    before = tables.rows("payments")
    sdk = scripted(monkeypatch)

    assert charge("1", age_ms=0) == row.get("status", "pending")

    assert (sdk.sent, tables.rows("payments")) == ([], before)


def test_a_payment_without_a_row_is_not_charged(
    monkeypatch: pytest.MonkeyPatch, tables: Tables
) -> None:
    """Whatever a message says, nobody is charged for a payment that is not on record."""
    tables.drop("payments")
    tables.client.create_table(
        TableName="payments-of-the-tests",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
    )
    sdk = scripted(monkeypatch)

    with pytest.raises(logic.PaymentMissing, match=PAYMENT_ID):
        charge("1", age_ms=0)

    assert sdk.sent == []


@pytest.mark.parametrize("name", ["PAYMENTS_TABLE", "PROVIDER_URL", "PROVIDER_API_KEY"])
def test_a_missing_setting_is_found_before_the_charge(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A function that is not configured says what it lacks, and has charged nobody."""
    monkeypatch.delenv(name)

    with pytest.raises(NotExecuted, match=name):
        charge("1", age_ms=0)

    assert provider.counts()["calls"] == 0


@pytest.mark.requirement("C18")
def test_a_late_message_asks_before_it_charges(provider: Provider, tables: Tables) -> None:
    """A dead letter that is redriven finds the charge whose answer was lost, by its metadata, and
    does not lean on a key that the provider may have forgotten.

    Red when the worker charges without asking, however old the message is.
    """
    provider.arm(lose_answer=1)
    with pytest.raises(stripe.APIConnectionError):
        charge("1", age_ms=0)
    calls = provider.counts()["calls"]

    assert charge("1", age_ms=LATE_MS) == "succeeded"

    (row,) = tables.rows("payments")
    (charged,) = provider.payment_intents()
    assert row["provider_id"] == charged["id"]
    assert (provider.counts()["calls"], provider.counts()["charges"]) == (calls, 1)


def test_a_late_message_that_was_never_charged_is(
    monkeypatch: pytest.MonkeyPatch, tables: Tables
) -> None:
    """Where the provider knows of nothing, it is charged now; a young message asks nothing."""
    late = scripted(monkeypatch, found(), intent("succeeded"))
    assert charge("1", age_ms=LATE_MS) == "succeeded"

    tables.add_payment()
    young = scripted(monkeypatch, intent("succeeded"))
    assert charge("2", age_ms=LATE_MS - 1) == "succeeded"

    assert (late.sent, young.sent) == ([SEARCH, CREATE], [CREATE])


@pytest.mark.parametrize(
    ("answer", "status"), [(found(_intent("succeeded")), "succeeded"), (found(), "declined")]
)
def test_a_final_refusal_proves_nothing_about_an_earlier_attempt(
    monkeypatch: pytest.MonkeyPatch, answer: tuple[int, str], status: str
) -> None:
    """A charge whose answer was lost is looked for before its repetition's refusal is believed.

    Red when a payment is declined although the first attempt has charged it.
    """
    sdk = scripted(monkeypatch, lost(), invalid("customer"), answer)

    with pytest.raises(Exception, match="no answer"):
        charge("1", age_ms=0)
    assert charge("1", age_ms=0) == status

    assert sdk.sent == [CREATE, CREATE, SEARCH]


def test_a_payment_that_changed_meanwhile_is_not_overwritten(
    monkeypatch: pytest.MonkeyPatch, tables: Tables
) -> None:
    """What somebody else wrote during the charge stays, and the message fails for a person to see.

    Red when the row is written whatever it says by then.
    """
    sdk = scripted(monkeypatch, intent("succeeded"))
    ask = logic._charge

    def meanwhile(*args: Any, **kwargs: Any) -> Any:
        tables.add_payment(status="declined", reason="by an operator")
        return ask(*args, **kwargs)

    monkeypatch.setattr(logic, "_charge", meanwhile)

    with pytest.raises(Exception, match="condition did not hold"):
        charge("1", age_ms=0)

    (row,) = tables.rows("payments")
    assert (row["status"], row["reason"]) == ("declined", "by an operator")
    assert sdk.sent == [CREATE]


def test_who_comes_while_it_runs_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two deliveries at once are one charge: the second is told that the first is running."""
    sdk = scripted(monkeypatch, intent("succeeded"))
    ask = logic._charge

    def meanwhile(*args: Any, **kwargs: Any) -> Any:
        with pytest.raises(InProgress):
            charge("1", age_ms=0)
        return ask(*args, **kwargs)

    monkeypatch.setattr(logic, "_charge", meanwhile)

    assert charge("1", age_ms=0) == "succeeded"
    assert sdk.sent == [CREATE]
