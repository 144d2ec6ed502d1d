"""What the operations function tells of accepted requests, against mocked tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from functions.operations.handler import handler
from functions.outbox_worker.handler import handler as worker
from functions.reports.handler import handler as reports
from tests.support.queue_events import delivery, failed
from tests.support.report_requests import get_operation, json_of, post_report

if TYPE_CHECKING:
    from tests.support.reference_tables import Tables

PROBLEM = "application/problem+json"


def accepted() -> str:
    """The id of an operation that was accepted just now."""
    operation_id: str = json_of(reports(post_report(), None))["operation_id"]
    return operation_id


@pytest.mark.requirement("A12")
def test_an_accepted_request_can_be_asked_after(tables: Tables) -> None:
    """Before the worker has it, an operation is pending, with the time to ask again; after, it is
    completed, with the status and place of what was made.

    Red when the id of the 202 is not found, or shows another state than the record's.
    """
    operation_id = accepted()

    pending = handler(get_operation(operation_id), None)
    assert failed(worker(delivery(*tables.messages()), None)) == []
    completed = handler(get_operation(operation_id), None)

    assert (pending["statusCode"], completed["statusCode"]) == (200, 200)
    assert int(pending["headers"]["Retry-After"]) >= 1
    before, after = json_of(pending), json_of(completed)
    assert before == {
        "operation_id": operation_id,
        "operation": "POST /reports",
        "status": "pending",
        "created_at": before["created_at"],
    }
    assert "Retry-After" not in completed["headers"]
    location = f"/reports/rep_{operation_id.replace('-', '')}"
    assert after == {
        **before,
        "status": "completed",
        "completed_at": after["completed_at"],
        "answer": {"status": 201, "location": location},
    }


def test_no_answer_is_kept_by_caches(tables: Tables) -> None:
    """What is shown of an operation, or that there is none, holds for the moment only."""
    answers = [handler(get_operation(each), None) for each in (accepted(), "nonsense")]

    assert {answer["headers"]["Cache-Control"] for answer in answers} == {"no-store"}


@pytest.mark.parametrize("tenant", ["tenant-1", "tenant-2"])
def test_asking_changes_nothing(tables: Tables, tenant: str) -> None:
    """However often an operation is asked after, and by whom, its record stays as it was."""
    operation_id = accepted()
    before = tables.rows("idempotency")

    for _ in range(2):
        handler(get_operation(operation_id, tenant=tenant), None)

    assert tables.rows("idempotency") == before
    assert len(tables.rows("outbox")) == 1


@pytest.mark.requirement("C11")
@pytest.mark.usefixtures("tables")
def test_absent_and_foreign_operations_look_alike() -> None:
    """Another tenant's operation, an unknown id and nonsense get the same 404.

    Red when an operation is found by its id alone.
    """
    operation_id = accepted()

    answers = [
        handler(event, None)
        for event in (
            get_operation(operation_id, tenant="tenant-2"),
            get_operation("0f8fad5b-d9cb-469f-a165-70867728950e"),
            get_operation("nonsense"),
            get_operation(""),
        )
    ]

    assert (answers[0]["statusCode"], answers[0]["headers"]["Content-Type"]) == (404, PROBLEM)
    assert json_of(answers[0])["type"].endswith("operation-unknown")
    assert [answer == answers[0] for answer in answers] == [True] * 4
    assert handler(get_operation(operation_id), None)["statusCode"] == 200


def test_asking_without_a_tenant_is_refused() -> None:
    """A token without the tenant's claim is shown nothing, and no table is asked."""
    answer = handler(get_operation("0f8fad5b-d9cb-469f-a165-70867728950e", tenant=None), None)

    assert (answer["statusCode"], answer["headers"]["Content-Type"]) == (403, PROBLEM)
    assert json_of(answer)["type"].endswith("tenant-missing")


def test_without_its_table_the_answer_is_to_ask_later(tables: Tables) -> None:
    """A store that does not answer is a 503 and no 404, which would say that nothing was sent."""
    operation_id = accepted()
    tables.drop("idempotency")

    answer = handler(get_operation(operation_id), None)

    assert answer["statusCode"] == 503
    assert json_of(answer)["type"].endswith("store-unavailable")
