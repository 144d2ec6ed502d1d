"""Routes and answers of the payments function, against a local provider and mocked tables."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import stripe

from functions.payments import logic
from functions.payments.handler import handler, logger
from tests.support.events import load, with_body, with_route, with_tenant
from tests.support.provider import API_KEY

if TYPE_CHECKING:
    from tests.support.provider import Provider

JSON = "application/json"
PROBLEM = "application/problem+json"


def post() -> dict[str, Any]:
    """A payment as the HTTP API hands it over."""
    return load("apigw_http_v2_post")


def get(payment_id: str, tenant: str | None = "tenant-1") -> dict[str, Any]:
    """A request for a payment as the HTTP API hands it over."""
    event = with_route(
        with_body(post(), None), "GET", f"/payments/{payment_id}", resource="/payments/{payment_id}"
    )
    return with_tenant({**event, "pathParameters": {"payment_id": payment_id}}, tenant)


def body(answer: dict[str, Any]) -> dict[str, Any]:
    """The JSON of an answer."""
    found: dict[str, Any] = json.loads(answer["body"])
    return found


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("name", ["apigw_http_v2_post", "apigw_http_v2_base64_post"])
def test_a_payment_is_made_and_can_be_read(provider: Provider, name: str) -> None:
    """POST answers 201 with the payment and where it is; GET there shows the same."""
    made = handler(load(name), None)

    payment = body(made)
    read = handler(get(payment["payment_id"]), None)

    assert made["statusCode"] == 201
    assert made["headers"]["Content-Type"] == JSON
    assert made["headers"]["Location"] == f"/payments/{payment['payment_id']}"
    assert re.fullmatch(r"pay_[0-9a-f]{32}", payment.pop("payment_id"))
    assert payment == {"status": "succeeded", "amount": 1200, "currency": "eur"}
    assert (read["statusCode"], read["headers"]) == (200, {"Content-Type": JSON})
    assert read["body"] == made["body"]
    assert provider.counts()["charges"] == 1


@pytest.mark.usefixtures("table")
def test_a_declined_card_is_a_final_problem(provider: Provider) -> None:
    """A decline is a 402 that is not to be sent again, and the payment can be read as declined."""
    provider.arm(decline=1)

    answer = handler(post(), None)

    problem = body(answer)
    assert (answer["statusCode"], answer["headers"]["Content-Type"]) == (402, PROBLEM)
    assert problem["type"].endswith("card-declined")
    assert (problem["status"], problem["retryable"]) == (402, False)
    assert body(handler(get(problem["payment_id"]), None))["status"] == "declined"


@pytest.mark.usefixtures("table")
def test_a_payment_that_the_provider_refuses_is_a_final_problem(provider: Provider) -> None:
    """A currency that the provider does not have is a 422 that is not to be sent again."""
    body_of_it = '{"customer_id": "cus_1", "amount": 1200, "currency": "zzz"}'

    answer = handler(with_body(post(), body_of_it), None)

    problem = body(answer)
    assert (answer["statusCode"], problem["retryable"]) == (422, False)
    assert problem["type"].endswith("payment-refused")
    assert "currency" in problem["detail"]
    assert provider.counts()["charges"] == 0


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("text", [None, "", "[]", '{"customer_id": "cus_1"}', "\udc80", b"\xff"])
def test_a_body_that_is_no_payment_is_refused(provider: Provider, text: str | bytes | None) -> None:
    """A body that does not fit is a 400, and nobody is charged."""
    answer = handler(with_body(post(), text), None)

    assert (answer["statusCode"], answer["headers"]["Content-Type"]) == (400, PROBLEM)
    assert body(answer)["type"].endswith("request-invalid")
    assert provider.counts()["calls"] == 0


@pytest.mark.usefixtures("table", "provider")
def test_absent_and_foreign_payments_look_alike() -> None:
    """Another tenant's payment, an unknown id and nonsense get the same 404."""
    payment_id = body(handler(post(), None))["payment_id"]

    answers = [
        handler(event, None)
        for event in (
            get(payment_id, tenant="tenant-2"),
            get("pay_" + "0" * 32),
            get("nonsense"),
            get("x" * 3000),
        )
    ]

    assert answers[0]["statusCode"] == 404
    assert body(answers[0])["type"].endswith("payment-unknown")
    assert [answer == answers[0] for answer in answers] == [True] * 4


@pytest.mark.parametrize("payment_id", ["nonsense", "", "x" * 3000, "pay_" + "0" * 32 + "\n"])
def test_what_is_no_payment_id_is_not_looked_up(
    monkeypatch: pytest.MonkeyPatch, payment_id: str
) -> None:
    """An id that no payment can have is absent without a question to the table."""
    monkeypatch.delenv("PAYMENTS_TABLE", raising=False)

    assert handler(get(payment_id), None)["statusCode"] == 404


def test_reading_without_a_tenant_is_refused() -> None:
    """A token without the tenant's claim reads nothing."""
    answer = handler(get("pay_" + "0" * 32, tenant=None), None)

    assert (answer["statusCode"], answer["headers"]) == (403, {"Content-Type": PROBLEM})
    assert body(answer)["type"].endswith("tenant-missing")


@pytest.mark.parametrize("event", [{}, {"routeKey": "DELETE /payments"}, {"routeKey": "$default"}])
def test_an_unknown_route_is_absent(event: dict[str, Any]) -> None:
    """A route that the function does not have is a 404 problem."""
    answer = handler(event, None)

    assert (answer["statusCode"], answer["headers"]) == (404, {"Content-Type": PROBLEM})
    assert body(answer)["type"].endswith("route-unknown")


@pytest.mark.usefixtures("table")
def test_a_repeat_gets_the_first_answer(provider: Provider) -> None:
    """The same request again is answered from the record, and the provider hears nothing of it."""
    first = handler(post(), None)
    second = handler(post(), None)

    assert (second["statusCode"], second["body"]) == (201, first["body"])
    assert second["headers"]["Location"] == first["headers"]["Location"]
    assert second["headers"]["Idempotent-Replayed"] == "true"
    assert (provider.counts()["calls"], provider.counts()["charges"]) == (1, 1)


@pytest.mark.usefixtures("table")
def test_a_declined_repeat_does_not_try_the_card_again(provider: Provider) -> None:
    """A decline is the final answer of its key."""
    provider.arm(decline=1)

    answers = [handler(post(), None) for _ in range(2)]

    assert [answer["statusCode"] for answer in answers] == [402, 402]
    assert answers[0]["body"] == answers[1]["body"]
    assert provider.counts()["calls"] == 1


@pytest.mark.usefixtures("table")
def test_a_lost_answer_is_unknown_and_never_charged_again(provider: Provider) -> None:
    """A charge that nobody heard of raises; a repeat is told so, and the provider not asked."""
    provider.arm(lose_answer=2)

    with pytest.raises(stripe.APIConnectionError):
        handler(post(), None)
    repeat = handler(post(), None)

    assert repeat["statusCode"] == 409
    assert body(repeat)["type"].endswith("outcome-unknown")
    assert (provider.counts()["calls"], provider.counts()["charges"]) == (2, 1)


@pytest.mark.usefixtures("table")
def test_what_was_not_executed_may_be_sent_again(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal by the provider frees the key: the same request succeeds once it is accepted."""
    monkeypatch.setenv("PROVIDER_API_KEY", "wrong")
    refused = handler(post(), None)
    monkeypatch.setenv("PROVIDER_API_KEY", API_KEY)
    logic._provider.cache_clear()

    repeat = handler(post(), None)

    assert refused["statusCode"] == 503
    assert body(refused)["type"].endswith("not-executed")
    assert repeat["statusCode"] == 201
    assert provider.counts()["charges"] == 1


@pytest.mark.usefixtures("table")
def test_it_runs_without_protection_too(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the decorator switched off a payment is made, and a bad body is still refused."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")

    made = handler(post(), None)
    refused = handler(with_body(post(), "{}"), None)

    assert made["statusCode"] == 201
    assert refused["statusCode"] == 400
    assert body(refused)["type"].endswith("request-invalid")
    assert provider.counts()["calls"] == 1


@pytest.mark.usefixtures("table", "provider")
def test_no_payload_and_no_secret_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the operation and the payment, and neither customer, key nor token."""
    lines = io.StringIO()
    monkeypatch.setattr(logger.registered_handler, "stream", lines)
    caplog.set_level("INFO")

    answer = handler(post(), None)

    entry = json.loads(lines.getvalue())
    payment_id = body(answer)["payment_id"]
    assert entry["payment_id"] == payment_id
    assert payment_id == f"pay_{entry['operation_id'].replace('-', '')}"
    secrets = ("cus_1", "sk_test", "8e03978e", "Bearer")
    output = lines.getvalue() + caplog.text
    assert [secret for secret in secrets if secret in output] == []
