"""Routes and answers of the reports function, against mocked tables."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from functions.outbox_worker.handler import handler as worker
from functions.reports.handler import handler, logger
from tests.support.events import load, with_tenant
from tests.support.queue_events import delivery, failed
from tests.support.report_requests import UNKNOWN_PAYMENT_ID, get_report, json_of, post_report

if TYPE_CHECKING:
    from tests.support.reference_tables import Tables

JSON = "application/json"
PROBLEM = "application/problem+json"
WRITTEN = ("reports", "outbox", "idempotency")


def work(tables: Tables) -> None:
    """Let the worker do what it is asked for."""
    assert failed(worker(delivery(*tables.messages()), None)) == []


@pytest.mark.requirement("A12")
def test_a_report_is_accepted_and_not_yet_made(tables: Tables) -> None:
    """POST answers 202 with the operation's id, where to ask and when; its record waits, and one
    message tells the worker.

    Red when the request makes the report, or the record and the answer tell of different ids.
    """
    accepted = handler(post_report(), None)

    (record,), (message,) = tables.records(), tables.rows("outbox")
    operation_id = record["operation_id"]
    assert accepted["statusCode"] == 202
    assert accepted["headers"]["Content-Type"] == JSON
    assert accepted["headers"]["Location"] == f"/operations/{operation_id}"
    body = json_of(accepted)
    assert body.pop("retry_after_s") == int(accepted["headers"]["Retry-After"]) >= 1
    assert body == {"operation_id": operation_id, "status": "pending"}
    assert record["status"] == "PENDING"
    assert (message["topic"], message["tenant"]) == ("oncekey.job", "tenant-1")
    assert (message["operation"], message["operation_id"]) == ("POST /reports", operation_id)
    assert tables.rows("reports") == []


def test_the_message_proves_nobodys_identity(tables: Tables) -> None:
    """What waits in outbox and queue has the request, and not the caller's token.

    It has the tenant as the gateway has found it, and the body.
    """
    handler(post_report(UNKNOWN_PAYMENT_ID), None)

    (message,) = tables.messages()
    assert "Bearer" in json.dumps(load("apigw_http_v2_post"))
    assert "Bearer" not in message
    assert UNKNOWN_PAYMENT_ID in message


@pytest.mark.requirement("A12")
def test_a_repeat_gets_the_same_operation_and_then_the_report(tables: Tables) -> None:
    """While the report is waited for, the same request is the same 202 and asks for no second one;
    once it is made, the answer is the worker's 201, said to be a replay.

    Red when a repeat is accepted anew, or is told of another operation.
    """
    tables.add_payment(status="succeeded", provider_id="pi_1")
    first, second = handler(post_report(), None), handler(post_report(), None)
    assert (second["statusCode"], second["body"]) == (202, first["body"])
    assert second["headers"]["Location"] == first["headers"]["Location"]
    assert len(tables.rows("outbox")) == 1

    work(tables)
    made = handler(post_report(), None)

    assert made["statusCode"] == 201
    assert made["headers"]["Idempotent-Replayed"] == "true"
    report = json_of(made)
    assert re.fullmatch(r"rep_[0-9a-f]{32}", report["report_id"])
    assert made["headers"]["Location"] == f"/reports/{report['report_id']}"
    assert report == {
        "report_id": report["report_id"],
        "payments": 1,
        "unknown": 0,
        "totals": {"succeeded": {"eur": 1200}},
    }
    assert [len(tables.rows(name)) for name in ("reports", "outbox")] == [1, 1]


def test_a_report_can_be_read(tables: Tables) -> None:
    """GET at the answer's Location shows the report that the answer has."""
    handler(post_report(), None)
    work(tables)
    made = handler(post_report(), None)

    read = handler(get_report(made["headers"]["Location"].removeprefix("/reports/")), None)

    assert (read["statusCode"], read["headers"]) == (200, {"Content-Type": JSON})
    assert json_of(read) == json_of(made)


def test_another_request_under_the_key_is_refused_while_the_first_waits(tables: Tables) -> None:
    """A key that an accepted request holds is no other request's: 422, and nothing is asked for."""
    handler(post_report(), None)

    refused = handler(post_report(UNKNOWN_PAYMENT_ID), None)

    assert (refused["statusCode"], refused["headers"]["Content-Type"]) == (422, PROBLEM)
    assert len(tables.rows("outbox")) == len(tables.records()) == 1


def test_two_tenants_with_one_key_have_two_operations(tables: Tables) -> None:
    """A key is its tenant's own, and so is what it stands for."""
    first, second = (
        json_of(handler(with_tenant(post_report(), tenant), None))["operation_id"]
        for tenant in ("tenant-1", "tenant-2")
    )

    assert first != second
    assert len(tables.rows("outbox")) == 2


@pytest.mark.parametrize("lost", ["outbox", "idempotency"])
def test_without_one_of_its_tables_nothing_is_accepted(tables: Tables, lost: str) -> None:
    """Record, pointer and message are written together or not at all, and never a 2xx without."""
    tables.drop(lost)

    answer = handler(post_report(), None)

    assert answer["statusCode"] == 503
    assert [tables.rows(name) for name in {"outbox", "idempotency"} - {lost}] == [[]]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"payment_ids": []}',
        '{"payment_ids": ["nonsense"]}',
        '{"payment_ids": ["pay_00000000000000000000000000000000"], "more": 1}',
        "\udc80",
        b"\xff",
    ],
)
def test_a_body_that_is_no_reports_is_refused(tables: Tables, text: str | bytes) -> None:
    """A body that does not fit is a 400 at once, rather than a failure of the worker's."""
    answer = handler(post_report(body=text), None)

    assert (answer["statusCode"], answer["headers"]["Content-Type"]) == (400, PROBLEM)
    assert json_of(answer)["type"].endswith("request-invalid")
    assert [tables.rows(name) for name in WRITTEN] == [[], [], []]


@pytest.mark.requirement("C11")
def test_absent_and_foreign_reports_look_alike(tables: Tables) -> None:
    """Another tenant's report, an unknown id and nonsense get the same 404.

    Red when a report is found by its id alone.
    """
    handler(post_report(), None)
    work(tables)
    report_id = json_of(handler(post_report(), None))["report_id"]

    answers = [
        handler(event, None)
        for event in (
            get_report(report_id, tenant="tenant-2"),
            get_report("rep_" + "0" * 32),
            get_report("nonsense"),
            get_report("x" * 3000),
        )
    ]

    assert answers[0]["statusCode"] == 404
    assert json_of(answers[0])["type"].endswith("report-unknown")
    assert [answer == answers[0] for answer in answers] == [True] * 4


@pytest.mark.parametrize("report_id", ["nonsense", "", "x" * 3000, "rep_" + "0" * 32 + "\n"])
def test_what_is_no_report_id_is_not_looked_up(report_id: str) -> None:
    """An id that no report can have is absent without a question to the table."""
    assert handler(get_report(report_id), None)["statusCode"] == 404


def test_reading_without_a_tenant_is_refused() -> None:
    """A token without the tenant's claim reads nothing."""
    answer = handler(get_report("rep_" + "0" * 32, tenant=None), None)

    assert (answer["statusCode"], answer["headers"]) == (403, {"Content-Type": PROBLEM})
    assert json_of(answer)["type"].endswith("tenant-missing")


@pytest.mark.parametrize("event", [{}, {"routeKey": "DELETE /reports"}, {"routeKey": "$default"}])
def test_an_unknown_route_is_absent(event: dict[str, Any]) -> None:
    """A route that the function does not have is a 404 problem."""
    answer = handler(event, None)

    assert (answer["statusCode"], answer["headers"]) == (404, {"Content-Type": PROBLEM})
    assert json_of(answer)["type"].endswith("route-unknown")


def test_it_runs_without_protection_too(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Switched off, a report is made at once and not written, and a bad body is still refused."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")

    made = handler(post_report(), None)
    refused = handler(post_report(body="{}"), None)

    assert made["statusCode"] == 201
    assert refused["statusCode"] == 400
    assert json_of(refused)["type"].endswith("request-invalid")
    assert [len(tables.rows(name)) for name in WRITTEN] == [0, 0, 0]


def test_no_payload_and_no_secret_is_logged(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the operation and the report, and neither payments, key nor token."""
    lines = io.StringIO()
    monkeypatch.setattr(logger.registered_handler, "stream", lines)
    caplog.set_level("INFO")

    accepted = handler(post_report(UNKNOWN_PAYMENT_ID), None)
    work(tables)

    entry = json.loads(lines.getvalue())
    assert entry["operation_id"] == json_of(accepted)["operation_id"]
    assert entry["report_id"] == f"rep_{entry['operation_id'].replace('-', '')}"
    secrets = (UNKNOWN_PAYMENT_ID, "8e03978e", "Bearer")
    output = lines.getvalue() + caplog.text
    assert [secret for secret in secrets if secret in output] == []
