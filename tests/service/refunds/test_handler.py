"""The refunds function's answers, against a local provider and mocked tables."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import stripe

from functions.refunds.handler import handler, logger
from functions.shared import provider as provider_of_functions
from tests.support.events import load, with_body, with_key, with_route, with_tenant
from tests.support.provider import API_KEY
from tests.support.reference_tables import PAYMENT_ID

if TYPE_CHECKING:
    from tests.support.provider import Provider
    from tests.support.reference_tables import Tables

PROBLEM = "application/problem+json"


def post(
    *, payment_id: str = PAYMENT_ID, amount: int = 300, tenant: str = "tenant-1", key: str = ""
) -> dict[str, Any]:
    """A refund as the HTTP API hands it over."""
    body_of_it = json.dumps({"payment_id": payment_id, "amount": amount})
    event = with_route(with_body(load("apigw_http_v2_post"), body_of_it), "POST", "/refunds")
    return with_tenant(with_key(event, key) if key else event, tenant)


def body(answer: dict[str, Any]) -> dict[str, Any]:
    """The JSON of an answer."""
    found: dict[str, Any] = json.loads(answer["body"])
    return found


@pytest.mark.usefixtures("intent_id")
def test_a_refund_is_made(provider: Provider) -> None:
    """POST answers 201 with the refund, and the provider has given back so much."""
    answer = handler(post(), None)

    refund = body(answer)
    assert (answer["statusCode"], answer["headers"]["Content-Type"]) == (201, "application/json")
    assert re.fullmatch(r"ref_[0-9a-f]{32}", refund.pop("refund_id"))
    assert refund == {"payment_id": PAYMENT_ID, "status": "succeeded", "amount": 300}
    assert provider.counts()["refunds"] == 1


@pytest.mark.usefixtures("intent_id")
def test_a_repeat_gets_the_first_answer(provider: Provider) -> None:
    """The same request again is answered from the record; another key is another refund."""
    first, second = handler(post(), None), handler(post(), None)
    other = handler(post(key="another-key-0123456789"), None)

    assert (second["statusCode"], second["body"]) == (201, first["body"])
    assert second["headers"]["Idempotent-Replayed"] == "true"
    assert body(other)["refund_id"] != body(first)["refund_id"]
    assert provider.counts()["refunds"] == 2


@pytest.mark.usefixtures("intent_id")
@pytest.mark.parametrize("changes", [{"payment_id": "pay_" + "0" * 32}, {"tenant": "tenant-2"}])
def test_absent_and_foreign_payments_look_alike(provider: Provider, changes: Any) -> None:
    """A payment that the tenant does not have is a 404 that is not to be sent again."""
    answer = handler(post(**changes), None)

    assert (answer["statusCode"], answer["headers"]["Content-Type"]) == (404, PROBLEM)
    assert body(answer)["type"].endswith("payment-unknown")
    assert body(answer)["retryable"] is False
    assert provider.counts()["refunds"] == 0


@pytest.mark.parametrize("status", ["pending", "declined"])
def test_what_was_not_charged_is_not_given_back(
    provider: Provider, tables: Tables, status: str
) -> None:
    """A payment that is pending or declined is a 409, final for its key."""
    tables.add_payment(status=status, provider_id="pi_1")

    answers = [handler(post(), None) for _ in range(2)]

    assert [answer["statusCode"] for answer in answers] == [409, 409]
    assert body(answers[0])["type"].endswith("payment-not-charged")
    assert status in body(answers[0])["detail"]
    assert answers[1]["headers"]["Idempotent-Replayed"] == "true"
    assert provider.counts()["calls"] == 0


@pytest.mark.usefixtures("intent_id")
def test_more_than_was_charged_is_a_final_problem(provider: Provider) -> None:
    """What the provider refuses for good is a 422 that says which parameter it was."""
    answer = handler(post(amount=1201), None)

    assert (answer["statusCode"], body(answer)["retryable"]) == (422, False)
    assert body(answer)["type"].endswith("refund-refused")
    assert "amount" in body(answer)["detail"]
    assert provider.counts()["refunds"] == 0


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    "text",
    [
        None,
        "[]",
        '{"amount": 300}',
        f'{{"payment_id": "{PAYMENT_ID}"}}',
        f'{{"payment_id": "{PAYMENT_ID}", "amount": 0}}',
        '{"payment_id": "nonsense", "amount": 300}',
        f'{{"payment_id": "{PAYMENT_ID}", "amount": 300, "reason": "x"}}',
    ],
)
def test_a_body_that_is_no_refund_is_refused(provider: Provider, text: str | None) -> None:
    """A body that does not fit is a 400, and the provider is not asked."""
    answer = handler(with_body(post(), text), None)

    assert (answer["statusCode"], answer["headers"]["Content-Type"]) == (400, PROBLEM)
    assert body(answer)["type"].endswith("request-invalid")
    assert provider.counts()["calls"] == 0


@pytest.mark.parametrize("event", [{}, {"routeKey": "GET /refunds"}])
def test_an_unknown_route_is_absent(event: dict[str, Any]) -> None:
    """A route that the function does not have is a 404 problem."""
    answer = handler(event, None)

    assert (answer["statusCode"], answer["headers"]) == (404, {"Content-Type": PROBLEM})
    assert body(answer)["type"].endswith("route-unknown")


@pytest.mark.usefixtures("intent_id")
def test_a_lost_answer_is_unknown_and_never_sent_again(provider: Provider) -> None:
    """A refund that nobody heard of raises; a repeat is told so, and the provider not asked."""
    before = provider.counts()["calls"]
    provider.arm(lose_answer=2)

    with pytest.raises(stripe.APIConnectionError):
        handler(post(), None)
    repeat = handler(post(), None)

    assert repeat["statusCode"] == 409
    assert body(repeat)["type"].endswith("outcome-unknown")
    assert (provider.counts()["calls"] - before, provider.counts()["refunds"]) == (2, 1)


@pytest.mark.usefixtures("intent_id")
def test_what_was_not_executed_may_be_sent_again(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal by the provider frees the key: the same request succeeds once it is accepted."""
    monkeypatch.setenv("PROVIDER_API_KEY", "wrong")
    refused = handler(post(), None)
    monkeypatch.setenv("PROVIDER_API_KEY", API_KEY)
    provider_of_functions.client.cache_clear()

    repeat = handler(post(), None)

    assert refused["statusCode"] == 503
    assert body(refused)["type"].endswith("not-executed")
    assert repeat["statusCode"] == 201
    assert provider.counts()["refunds"] == 1


@pytest.mark.usefixtures("intent_id")
def test_it_runs_without_protection_too(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the decorator switched off a refund is made, and a bad body is still refused."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")

    made, refused = handler(post(), None), handler(with_body(post(), "{}"), None)

    assert (made["statusCode"], refused["statusCode"]) == (201, 400)
    assert body(refused)["type"].endswith("request-invalid")
    assert provider.counts()["refunds"] == 1


@pytest.mark.usefixtures("intent_id")
def test_no_payload_and_no_secret_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names operation, payment and refund, and neither key nor token."""
    lines = io.StringIO()
    monkeypatch.setattr(logger.registered_handler, "stream", lines)
    caplog.set_level("INFO")

    refund = body(handler(post(), None))

    entry = json.loads(lines.getvalue())
    assert (entry["payment_id"], entry["refund_id"]) == (PAYMENT_ID, refund["refund_id"])
    output = lines.getvalue() + caplog.text
    assert [secret for secret in ("sk_test", "8e03978e", "Bearer") if secret in output] == []
