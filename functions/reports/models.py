"""The bodies of requests and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from functions.shared.models import PaymentId

REPORT_ID_PATTERN = r"^rep_[0-9a-f]{32}$"


class ReportRequest(BaseModel):
    """The body of `POST /reports`: the payments that the report is about."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    payment_ids: Annotated[tuple[PaymentId, ...], Field(min_length=1, max_length=100)]


class Report(BaseModel):
    """The report on the payments.

    `totals` are the amounts in minor units by status and currency: `{"succeeded": {"eur": 1}}`.
    """

    model_config = ConfigDict(frozen=True)

    report_id: str
    payments: int
    unknown: int
    totals: dict[str, dict[str, int]]
