"""What the reports function accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from functions.reports.models import ReportRequest


def identifiers(count: int) -> list[str]:
    """So many ids of payments."""
    return [f"pay_{number:032x}" for number in range(count)]


@pytest.mark.parametrize("count", [1, 2, 100])
def test_a_request_for_a_report_is_accepted(count: int) -> None:
    """One payment makes a report, and so do a hundred; their order is kept."""
    body = {"payment_ids": identifiers(count)}

    request = ReportRequest.model_validate_json(json.dumps(body))

    assert list(request.payment_ids) == identifiers(count)


@pytest.mark.parametrize(
    ("body", "location"),
    [
        ({}, ("payment_ids",)),
        ({"payment_ids": None}, ("payment_ids",)),
        ({"payment_ids": "pay_" + "0" * 32}, ("payment_ids",)),
        ({"payment_ids": []}, ("payment_ids",)),
        ({"payment_ids": identifiers(101)}, ("payment_ids",)),
        ({"payment_ids": [*identifiers(1), "nonsense"]}, ("payment_ids", 1)),
        ({"payment_ids": ["pay_" + "0" * 32 + "\n"]}, ("payment_ids", 0)),
        ({"payment_ids": [1]}, ("payment_ids", 0)),
        ({"payment_ids": identifiers(1), "format": "pdf"}, ("format",)),
    ],
)
def test_what_asks_for_no_report_is_refused(body: dict[str, Any], location: tuple[Any]) -> None:
    """A value that is not what it should be is refused, and so is a field that nobody knows."""
    with pytest.raises(ValidationError) as refused:
        ReportRequest.model_validate_json(json.dumps(body))

    # A list with a wrong item counts as too short as well.
    assert refused.value.errors()[0]["loc"] == location
