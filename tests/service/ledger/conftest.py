"""Tables, bucket and provider of a comparison, and a day on which it is due."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from functions.ledger.handler import handler
from tests.support.provider import Provider, sdk

if TYPE_CHECKING:
    from collections.abc import Iterator

    import stripe
    from mypy_boto3_s3 import S3Client

    from tests.support.reference_tables import Tables

BUCKET = "responses-of-the-tests"


@dataclass
class Context:
    """What Lambda tells a run: how much time it has left."""

    remaining_ms: int = 900_000

    def get_remaining_time_in_millis(self) -> int:
        """The time left."""
        return self.remaining_ms


@dataclass
class Ledgers:
    """Both sides of both ledgers, and runs of the function over them."""

    tables: Tables
    stripe: stripe.StripeClient
    objects: S3Client
    context: Context

    def charge(self, payment_id: str | None, amount: int = 1200, **changes: Any) -> str:
        """Charge at the provider; its id of it."""
        metadata = {} if payment_id is None else {"payment_id": payment_id}
        return self.stripe.v1.payment_intents.create(
            {
                "amount": amount,
                "currency": "eur",
                "customer": "cus_1",
                "confirm": True,
                "metadata": metadata,
                **changes,  # type: ignore[typeddict-item]
            }
        ).id

    def give_back(self, intent_id: str, refund_id: str, amount: int) -> str:
        """Refund at the provider; its id of it."""
        return self.stripe.v1.refunds.create(
            {
                "payment_intent": intent_id,
                "amount": amount,
                "metadata": {"refund_id": refund_id},
            }
        ).id

    def add_payment(self, payment_id: str, provider_id: str | None, **changes: Any) -> None:
        """Put a row of a payment that was charged now."""
        charged = {"status": "succeeded", "charged_at": _now_s(), "provider_id": provider_id}
        self.tables.add_payment(payment_id=payment_id, **{**charged, **changes})

    def add_refund(self, refund_id: str, provider_id: str, amount: int, **changes: Any) -> None:
        """Put a row of a refund that was made now."""
        made = {"pk": f"8#tenant-1#{refund_id}", "refund_id": refund_id, "provider_id": provider_id}
        row = {**made, "amount": amount, "status": "succeeded", "refunded_at": _now_s(), **changes}
        self.tables.add("refunds", row)

    def run(self, **event: str) -> dict[str, str]:
        """Compare what is as old as this test, unless `event` says otherwise."""
        now = datetime.now(tz=UTC)
        window = {"start": str(now - timedelta(hours=1)), "end": str(now + timedelta(hours=1))}
        return handler(event or window, self.context)  # type: ignore[arg-type]

    def reports(self) -> dict[str, str]:
        """The reports in the bucket, by the ends of their names."""
        found = self.objects.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return {
            one["Key"].rpartition("Z-")[2]: self.objects.get_object(Bucket=BUCKET, Key=one["Key"])[
                "Body"
            ]
            .read()
            .decode()
            for one in found
        }


def _now_s() -> int:
    return int(datetime.now(tz=UTC).timestamp())


def metrics_in(output: str) -> dict[str, dict[str, float]]:
    """The CloudWatch metrics in what a run has printed, by ledger."""
    found: dict[str, dict[str, float]] = {}
    for line in output.splitlines():
        printed = json.loads(line) if line.startswith("{") else {}
        for directive in printed.get("_aws", {}).get("CloudWatchMetrics", ()):
            assert directive["Namespace"] == "oncekey"
            assert "ledger" in directive["Dimensions"][0]
            found[printed["ledger"]] = {
                one["Name"]: printed[one["Name"]][0] for one in directive["Metrics"]
            }
    return found


@pytest.fixture
def ledgers(
    tables: Tables, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ledgers]:
    """Both sides, empty."""
    monkeypatch.setenv("ONCEKEY_RESPONSE_BUCKET", BUCKET)
    objects: S3Client = boto3.client("s3")
    objects.create_bucket(
        Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    with sdk(provider.url) as client:
        yield Ledgers(tables, client, objects, Context())
