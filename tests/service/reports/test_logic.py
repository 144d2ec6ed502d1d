"""What a report says, and how one is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from functions.reports import logic
from functions.reports.models import Report, ReportRequest
from functions.shared import dynamodb
from oncekey import NotExecuted, current_operation, idempotent_function
from tests.support.dynamodb import Recorder
from tests.support.report_requests import UNKNOWN_PAYMENT_ID

if TYPE_CHECKING:
    from tests.support.reference_tables import Tables


@idempotent_function(
    operation="make", key=",".join, tenant=lambda _: "tenant-1", effects="recorded"
)
def make(payment_ids: list[str]) -> str:
    """Make a report in an operation of its own; its id."""
    request = ReportRequest(payment_ids=tuple(payment_ids))
    return logic.make_report(request, current_operation()).report_id


def identifier(number: int) -> str:
    """The id of a payment."""
    return f"pay_{number:032x}"


def test_a_report_counts_and_adds_up(tables: Tables) -> None:
    """Each payment counts once, by status and currency; one that is not there, or is another
    tenant's, counts as unknown.
    """
    tables.add_payment(payment_id=identifier(1), amount=100)
    tables.add_payment(payment_id=identifier(2), amount=20, status="succeeded")
    tables.add_payment(payment_id=identifier(3), amount=3, status="succeeded")
    tables.add_payment(payment_id=identifier(4), amount=4, status="succeeded", currency="jpy")
    tables.add_payment(payment_id=identifier(5), amount=5_000, tenant="tenant-2")
    asked = [identifier(number) for number in (1, 2, 3, 3, 4, 5)]

    report_id = make([*asked, UNKNOWN_PAYMENT_ID])

    assert logic.find_report("tenant-1", report_id) == Report(
        report_id=report_id,
        payments=6,
        unknown=2,
        totals={"pending": {"eur": 100}, "succeeded": {"eur": 23, "jpy": 4}},
    )


def test_a_report_is_its_tenants(tables: Tables) -> None:
    """The row says whose it is and which operation has made it, and no other tenant finds it."""
    report_id = make([UNKNOWN_PAYMENT_ID])

    (row,), (record,) = tables.rows("reports"), tables.records()
    assert (row["tenant"], row["operation_id"]) == ("tenant-1", record["operation_id"])
    assert logic.find_report("tenant-1", report_id) is not None
    assert logic.find_report("tenant-2", report_id) is None
    assert logic.find_report("tenant-1", "rep_" + "0" * 32) is None


@pytest.mark.parametrize("variable", ["PAYMENTS_TABLE", "REPORTS_TABLE"])
def test_nothing_is_made_without_the_tables_names(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """A function that is not configured says what it lacks, and writes no report."""
    monkeypatch.delenv(variable)

    with pytest.raises(NotExecuted, match=variable):
        make([UNKNOWN_PAYMENT_ID])

    assert tables.rows("reports") == []


@pytest.mark.usefixtures("tables")
def test_a_report_is_read_as_of_now() -> None:
    """Who was told of a report finds it: the read is strongly consistent.

    Red when an eventually consistent read may answer that there is none.
    """
    sent = Recorder(dynamodb.client())

    logic.find_report("tenant-1", "rep_" + "0" * 32)

    ((name, parameters),) = sent.calls
    assert (name, parameters["ConsistentRead"]) == ("GetItem", True)
