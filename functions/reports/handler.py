"""The Lambda handler: the routes and their answers.

A report may take longer than a client waits. So `POST /reports` is accepted here as a job, and its
handler runs in the worker of the queue (`functions.outbox_worker`).
"""

from __future__ import annotations

import re
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger
from pydantic import ValidationError

from functions.reports import logic
from functions.reports.models import REPORT_ID_PATTERN, ReportRequest
from functions.shared.http import TENANT, answer, body_of, problem, route_unknown
from oncekey import Operation, idempotent

if TYPE_CHECKING:
    from functions.shared.http import Answer, Event

logger = Logger()


def handler(event: Event, context: object) -> Answer:
    """Answer a request of the HTTP API."""
    match event.get("routeKey"):
        case "POST /reports":
            return create_report(event, context)
        case "GET /reports/{report_id}":
            return read_report(event)
        case _:
            return route_unknown()


@idempotent(
    operation="POST /reports",
    tenant=TENANT,
    fingerprint=ReportRequest,
    effects="recorded",
    mode="queued",
    # Longer than its message lives: 4 days in the queue and 14 days in its dead-letter queue.
    retention=timedelta(days=30),
)
def create_report(event: Event, context: object, op: Operation) -> Answer:
    """Make a report once for each Idempotency-Key. Its answer is 201, after the 202 of the job."""
    del context
    try:
        request = ReportRequest.model_validate_json(body_of(event))
    except ValidationError:
        # The decorator refuses such a body before. Without protection, it is refused here.
        return problem(HTTPStatus.BAD_REQUEST, "request-invalid", "The body is not a report's.")
    report = logic.make_report(request, op)
    logger.info(
        "report made",
        extra={
            "operation_id": op.operation_id,
            "attempt": op.attempt,
            "report_id": report.report_id,
        },
    )
    location = {"Location": f"/reports/{report.report_id}"}
    return answer(HTTPStatus.CREATED, report.model_dump(), location)


def read_report(event: Event) -> Answer:
    """Show a report to its tenant. Another tenant's report looks absent."""
    tenant = TENANT(event.get("requestContext") or {})
    if tenant is None:
        return problem(
            HTTPStatus.FORBIDDEN, "tenant-missing", "The token carries no tenant_id claim."
        )
    report_id = (event.get("pathParameters") or {}).get("report_id", "")
    is_one = re.fullmatch(REPORT_ID_PATTERN.strip("^$"), report_id)
    report = logic.find_report(tenant, report_id) if is_one else None
    if report is None:
        return problem(HTTPStatus.NOT_FOUND, "report-unknown", "There is no such report.")
    return answer(HTTPStatus.OK, report.model_dump())
