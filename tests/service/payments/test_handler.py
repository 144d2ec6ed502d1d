"""Routes and answers of the payments function, against mocked tables."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from functions.payments.handler import handler, logger
from tests.support.events import load, with_body, with_route, with_tenant

if TYPE_CHECKING:
    from tests.support.provider import Provider
    from tests.support.reference_tables import Tables

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


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("name", ["apigw_http_v2_post", "apigw_http_v2_base64_post"])
def test_a_payment_is_accepted_and_can_be_read(name: str) -> None:
    """POST answers 202 with the payment's id and where it is; GET there shows it as pending."""
    made = handler(load(name), None)

    payment = body(made)
    read = handler(get(payment["payment_id"]), None)

    assert made["statusCode"] == 202
    assert made["headers"]["Content-Type"] == JSON
    assert made["headers"]["Location"] == f"/payments/{payment['payment_id']}"
    assert re.fullmatch(r"pay_[0-9a-f]{32}", payment["payment_id"])
    assert payment == {"payment_id": payment["payment_id"], "status": "pending"}
    assert (read["statusCode"], read["headers"]) == (200, {"Content-Type": JSON})
    assert body(read) == {**payment, "amount": 1200, "currency": "eur"}


def test_the_payment_and_its_message_are_written_together(tables: Tables) -> None:
    """One request leaves one pending row, one message that asks for its charge, and the record."""
    payment_id = body(handler(post(), None))["payment_id"]

    (row,), (message,) = tables.rows("payments"), tables.rows("outbox")
    (record,) = tables.rows("idempotency")
    assert (row["payment_id"], row["status"], row["tenant"]) == (payment_id, "pending", "tenant-1")
    assert (message["topic"], message["tenant"]) == ("payment.requested", "tenant-1")
    assert message["operation_id"] == row["operation_id"] == record["operation_id"]
    assert json.loads(message["payload"])["payment_id"] == payment_id
    assert record["status"] == "COMPLETED"


@pytest.mark.requirement("C3")
def test_nobody_is_charged_by_the_api(provider: Provider, tables: Tables) -> None:
    """The provider hears nothing of a payment before its row and message are committed.

    Red when the function calls the provider within the request.
    """
    handler(post(), None)

    assert provider.counts()["calls"] == 0
    assert len(tables.rows("outbox")) == 1


@pytest.mark.parametrize("lost", ["payments", "outbox"])
def test_without_one_of_its_tables_nothing_is_accepted(tables: Tables, lost: str) -> None:
    """Row, message and answer are committed together or not at all, and never a 2xx without."""
    tables.drop(lost)

    answer = handler(post(), None)

    assert answer["statusCode"] == 503
    assert [tables.rows(name) for name in {"payments", "outbox"} - {lost}] == [[]]


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("text", [None, "", "[]", '{"customer_id": "cus_1"}', "\udc80", b"\xff"])
def test_a_body_that_is_no_payment_is_refused(tables: Tables, text: str | bytes | None) -> None:
    """A body that does not fit is a 400, and nothing is written."""
    answer = handler(with_body(post(), text), None)

    assert (answer["statusCode"], answer["headers"]["Content-Type"]) == (400, PROBLEM)
    assert body(answer)["type"].endswith("request-invalid")
    assert [tables.rows(name) for name in ("payments", "outbox", "idempotency")] == [[], [], []]


@pytest.mark.usefixtures("tables")
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
def test_what_is_no_payment_id_is_not_looked_up(payment_id: str) -> None:
    """An id that no payment can have is absent without a question to the table."""
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


def test_a_repeat_gets_the_first_answer(tables: Tables) -> None:
    """The same request again is answered from the record, and asks for no second charge."""
    first = handler(post(), None)
    second = handler(post(), None)

    assert (second["statusCode"], second["body"]) == (202, first["body"])
    assert second["headers"]["Location"] == first["headers"]["Location"]
    assert second["headers"]["Idempotent-Replayed"] == "true"
    assert [len(tables.rows(name)) for name in ("payments", "outbox")] == [1, 1]


@pytest.mark.usefixtures("tables")
def test_a_missing_setting_frees_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that is not told its table accepts nothing; told, it takes the same request."""
    monkeypatch.setenv("PAYMENTS_TABLE", "")
    refused = handler(post(), None)
    monkeypatch.setenv("PAYMENTS_TABLE", "payments-of-the-tests")

    assert refused["statusCode"] == 503
    assert body(refused)["type"].endswith("not-executed")
    assert handler(post(), None)["statusCode"] == 202


def test_it_runs_without_protection_too(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Switched off, a payment is accepted, a bad body is still refused, and nothing is written."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")

    made = handler(post(), None)
    refused = handler(with_body(post(), "{}"), None)

    assert made["statusCode"] == 202
    assert refused["statusCode"] == 400
    assert body(refused)["type"].endswith("request-invalid")
    assert [len(tables.rows(name)) for name in ("payments", "outbox", "idempotency")] == [0, 0, 0]


@pytest.mark.usefixtures("tables")
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
