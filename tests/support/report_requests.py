"""Requests of the routes of reports and operations, made of the sample event."""

from __future__ import annotations

import json
from typing import Any

from tests.support.events import Event, load, with_body, with_route, with_tenant
from tests.support.reference_tables import PAYMENT_ID

UNKNOWN_PAYMENT_ID = "pay_" + "0" * 32


def post_report(*payment_ids: str, body: str | bytes | None = None) -> Event:
    """A request for a report about these payments, or with another body."""
    about = json.dumps({"payment_ids": payment_ids or [PAYMENT_ID]})
    return with_body(
        with_route(load("apigw_http_v2_post"), "POST", "/reports"), about if body is None else body
    )


def get_report(report_id: str, tenant: str | None = "tenant-1") -> Event:
    """A request for a report that was made."""
    return _get("reports", "report_id", report_id, tenant)


def get_operation(operation_id: str, tenant: str | None = "tenant-1") -> Event:
    """A request for what an operation came to."""
    return _get("operations", "operation_id", operation_id, tenant)


def json_of(answer: dict[str, Any]) -> dict[str, Any]:
    """The JSON of an answer."""
    found: dict[str, Any] = json.loads(answer["body"])
    return found


def _get(collection: str, parameter: str, identifier: str, tenant: str | None) -> Event:
    event = with_route(
        with_body(load("apigw_http_v2_post"), None),
        "GET",
        f"/{collection}/{identifier}",
        resource=f"/{collection}/{{{parameter}}}",
    )
    return with_tenant({**event, "pathParameters": {parameter: identifier}}, tenant)
