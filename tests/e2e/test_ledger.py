"""The daily comparison in the running service, called by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import boto3
import pytest

from oncekey_local.functions.environment import REGION
from tests.support.dev_service import running
from tests.support.looking import until
from tests.support.payments_client import Client, new_key
from tests.support.provider import sdk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.proof

BUCKET = "payments-local-responses"


@pytest.fixture(scope="module")
def service() -> Iterator[Client]:
    """The reference service, whose ledgers are compared until now."""
    with running("infra.service:SERVICE", env={"LEDGER_SETTLING_S": "0"}) as dev:
        yield Client(dev)


def compared(service: Client, ledger: str, beginning: str) -> str:
    """What the function says of a ledger, as soon as it says that.

    What was made within the present second is compared by the next run.
    """
    said: list[str] = []

    def says_so() -> bool:
        run = service.dev.call_now("ledger")
        assert run["outcome"] == "result", run
        said.append(run["said"][ledger])
        return said[-1].startswith(beginning)

    until(says_so, f"the ledger is never {beginning}")
    return said[-1]


@pytest.mark.requirement("C19")
def test_a_charge_that_the_service_does_not_know_is_found(service: Client) -> None:
    """What the service charged and gave back agrees; a charge past it is found, and reported.

    Red when the deployed function lacks a table, the bucket or the provider, or the clock's event
    is not understood.
    """
    assert service.dev.schedules()["ledger"] == "daily at 4:00 UTC"
    refund = service.refunding(300)
    assert refund.ask(new_key()).status == 201

    compared(service, "payments", "AGREED: 1 compared, 1 equal")
    compared(service, "refunds", "AGREED: 1 compared, 1 equal")
    with sdk(service.dev.provider_url) as client:
        stranger = client.v1.payment_intents.create(
            {"amount": 700, "currency": "eur", "customer": "cus_1", "confirm": True}
        )
    found = compared(service, "payments", "DIFFERENT")

    assert found.endswith("1 only theirs (missing in our table)")
    objects: S3Client = boto3.client("s3", endpoint_url=service.dev.store_url, region_name=REGION)
    reports = objects.list_objects_v2(Bucket=BUCKET, Prefix="reports/ledger/")["Contents"]
    last = max(one["Key"] for one in reports if one["Key"].endswith("-payments.txt"))
    text = objects.get_object(Bucket=BUCKET, Key=last)["Body"].read().decode()
    assert f"only theirs  {stranger.id}: provider_id {stranger.id}, amount 700" in text
