"""The reference service's handlers keep their promises in all plays of `assert_idempotent`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import functions.refunds.resolver  # noqa: F401 -- its decorator declares the resolver
from functions.payments.handler import handler as payments
from functions.refunds.handler import handler as refunds
from functions.reports.handler import create_report
from functions.reports.handler import handler as reports
from oncekey.testing import assert_idempotent
from tests.support.events import load, with_body, with_route, with_tenant
from tests.support.reference_tables import PAYMENT_ID
from tests.support.report_requests import post_report

if TYPE_CHECKING:
    from tests.support.provider import Provider

PLAYS = {"again", "another key", "another body", "another tenant", "five at once"}


def _request(route: str, body: dict[str, Any]) -> dict[str, Any]:
    event = with_body(load("apigw_http_v2_post"), json.dumps(body))
    return with_tenant(with_route(event, "POST", route), "tenant-1")


@pytest.mark.usefixtures("tables")
def test_payments_are_accepted_once() -> None:
    """`POST /payments`, with its row and its message."""
    order = {"amount": 1200, "currency": "eur", "customer_id": "cus_1"}
    played = assert_idempotent(payments, _request("/payments", order))
    assert PLAYS | {"kill before complete", "kill after complete"} <= {*played}


@pytest.mark.usefixtures("intent_id")
def test_refunds_are_made_once(provider: Provider) -> None:
    """`POST /refunds`, with the provider and the resolver that asks it after a crash."""
    played = assert_idempotent(
        refunds,
        _request("/refunds", {"payment_id": PAYMENT_ID, "amount": 2}),
        effects=lambda: provider.counts()["refunds"],
    )
    assert PLAYS | {"kill before complete", "kill after complete"} <= {*played}


@pytest.mark.usefixtures("tables")
def test_reports_are_made_once() -> None:
    """`POST /reports`, which is accepted and then made by a worker."""
    played = assert_idempotent(reports, post_report(), jobs=[create_report])
    assert PLAYS | {"kill after reserve", "kill after begin", "kill after complete"} <= {*played}
