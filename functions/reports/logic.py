"""Making and reading a report, without any code for events and routes."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from functions.reports.models import Report
from functions.shared import dynamodb, payments_table
from functions.shared.settings import setting

if TYPE_CHECKING:
    from functions.reports.models import ReportRequest
    from oncekey import Operation


def make_report(request: ReportRequest, operation: Operation) -> Report:
    """Look up every payment, and collect the report, which the operation's completion writes.

    Another tenant's payment counts as unknown, like one that does not exist.

    Raises:
        NotConfigured: a table is not named; nothing was collected.
    """
    table_name = setting("REPORTS_TABLE")
    totals: dict[str, Counter[str]] = {}
    unknown = 0
    for payment_id in dict.fromkeys(request.payment_ids):
        row = payments_table.find(operation.tenant, payment_id)
        if row is None:
            unknown += 1
            continue
        totals.setdefault(row.status.value, Counter())[row.currency] += row.amount
    report = Report(
        report_id=payments_table.identifier("rep", operation),
        payments=len(set(request.payment_ids)),
        unknown=unknown,
        totals={status: dict(amounts) for status, amounts in totals.items()},
    )
    operation.transaction.put(
        table_name,
        {
            "pk": payments_table.row_key(operation.tenant, report.report_id),
            "tenant": operation.tenant,
            "operation_id": operation.operation_id,
            "report": report.model_dump_json(),
        },
    )
    return report


def find_report(tenant: str, report_id: str) -> Report | None:
    """The tenant's report of this id, if there is one."""
    found = dynamodb.client().get_item(
        TableName=setting("REPORTS_TABLE"),
        Key={"pk": {"S": payments_table.row_key(tenant, report_id)}},
        ConsistentRead=True,
    )
    row = found.get("Item")
    return None if row is None else Report.model_validate(json.loads(row["report"]["S"]))
