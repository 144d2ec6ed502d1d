"""What a deployment must do: a scene tests one promise, and raises `Broken` if it fails."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from infra.local_deployment.api import TENANT
from oncekey_local.identifiers import new_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.local_deployment.api import Answer, Api, HttpApi
    from infra.local_deployment.cloud import Cloud
    from infra.local_deployment.issuer import Issuer
    from infra.local_deployment.provider_process import ProviderProcess
    from infra.local_deployment.toolkit import Deployed, Toolkit

PAYMENT = {"customer_id": "cus_1", "amount": 1200, "currency": "eur"}
_REPLAYED = "idempotent-replayed"
# Two minutes and more: a schedule's minute, and whatever holds a busy machine up.
_LOOKS = 600
_PAUSE_S = 0.2


class Broken(Exception):  # noqa: N818 -- it says what happened
    """The deployment does not do what it must; the message says what."""


def ensure(kept: bool, otherwise: str) -> None:  # noqa: FBT001 -- reads as an assertion does
    """Raise `Broken` unless the promise is kept."""
    if not kept:
        raise Broken(otherwise)


def wait_a_little() -> None:
    """Let the deployment work by itself."""
    threading.Event().wait(_PAUSE_S)


def pay_once(api: Api, charges: Callable[[], int], work: Callable[[], object]) -> str:
    """A payment is sent twice under one key, before and after it is charged, and charged once.

    Args:
        api: The deployed API.
        charges: Tells how many charges the provider has made so far.
        work: What carries messages on, or waits until the deployment has done so.

    Returns:
        The path of the payment.
    """
    before, key = charges(), new_id()
    first = api.post("/payments", PAYMENT, key=key)
    ensure(first.status == 202, f"a payment was answered with {first.status}: {first.body!r}")
    ensure(_REPLAYED not in first.headers, "the first answer is said to be a replay")
    _ensure_replay(api.post("/payments", PAYMENT, key=key), first)
    path = first.headers["location"]
    status = _ended(api, path, work)
    ensure(status == "succeeded", f"the payment has ended as {status}")
    _ensure_replay(api.post("/payments", PAYMENT, key=key), first)
    made = charges() - before
    ensure(made == 1, f"the provider has charged {made} times")
    return path


def _ensure_replay(answer: Answer, first: Answer) -> None:
    ensure(answer.headers.get(_REPLAYED) == "true", f"not replayed: {answer.body!r}")
    same = (answer.status, answer.body) == (first.status, first.body)
    ensure(same, f"the replay differs: {answer.body!r}, and not {first.body!r}")


def _ended(api: Api, path: str, work: Callable[[], object]) -> str:
    for _ in range(_LOOKS):
        status = str(api.get(path).json()["status"])
        if status != "pending":
            return status
        work()
    raise Broken(f"{path} is still pending")


def settle_an_unknown(
    api: Api, provider: ProviderProcess, payment: str, reconcile: Callable[[], object]
) -> None:
    """A refund of which nobody knows whether it was made is not made again, and settled.

    Args:
        api: The deployed API.
        provider: The stand-in that the deployed functions call.
        payment: The path of a payment that is charged.
        reconcile: Lets the deployed reconciler run, or lets it be time for its next run.
    """
    before, key = provider.refunds(), new_id()
    body = {"payment_id": payment.rpartition("/")[2], "amount": 300}
    # The function asks twice.
    provider.lose_answers(2)
    lost = api.post("/refunds", body, key=key)
    ensure(lost.status >= 500, f"a lost answer was answered with {lost.status}: {lost.body!r}")
    doubtful = api.post("/refunds", body, key=key)
    ensure(b"outcome-unknown" in doubtful.body, f"not in doubt: {doubtful.body!r}")
    reconcile()
    for _ in range(_LOOKS):
        settled = api.post("/refunds", body, key=key)
        if settled.status != doubtful.status:
            break
        wait_a_little()
    else:
        raise Broken("the refund is still in doubt")
    ensure(settled.status == 201, f"settled as {settled.status}: {settled.body!r}")
    made = provider.refunds() - before
    ensure(made == 1, f"the provider has given back {made} times")


def refuse_wrong_tokens(api: HttpApi, issuer: Issuer) -> None:
    """The deployed authorizer refuses every caller without a valid token."""
    for fault, token in issuer.wrong_tokens(TENANT).items():
        answer = api.send("GET", "/payments/pay_1", token)
        ensure(answer.status == 401, f"a token that is {fault} was answered with {answer.status}")


def find_everything(cloud: Cloud, deployed: Deployed) -> None:
    """Every table, queue and bucket that a stack puts out is there."""
    outputs = {name: value for one in deployed.outputs.values() for name, value in one.items()}
    dynamodb, sqs, s3 = cloud.client("dynamodb"), cloud.client("sqs"), cloud.client("s3")
    for name, value in outputs.items():
        if name.endswith("TableName"):
            dynamodb.describe_table(TableName=value)
        elif name.endswith("QueueUrl"):
            sqs.get_queue_attributes(QueueUrl=value)
        elif name.endswith("BucketName"):
            s3.head_bucket(Bucket=value)
    ensure("IdempotencyTableName" in outputs, f"no table is put out, only {[*outputs]}")


def change_nothing(toolkit: Toolkit, deployed: Deployed) -> None:
    """A second deployment of the same finds nothing to do."""
    unchanged = toolkit.deploy().unchanged
    changed = {*deployed.outputs} - unchanged
    ensure(not changed, f"a second deployment has changed {sorted(changed)}")


def keep_the_data(cloud: Cloud, toolkit: Toolkit, deployed: Deployed, path: str) -> None:
    """Both stacks are deleted, and take no table, queue, bucket or row of stage production along.

    AWS would refuse the one with the data before that, because it is protected; moto does not.

    Args:
        cloud: Where they are deployed.
        toolkit: The command line that deletes them.
        deployed: What it has deployed there.
        path: The path of a payment that was made there.
    """
    toolkit.destroy(*deployed.outputs)
    ensure(not cloud.client("lambda").list_functions()["Functions"], "a function is left")
    find_everything(cloud, deployed)
    tables = [outputs for outputs in deployed.outputs.values() if "PaymentsTableName" in outputs]
    rows = cloud.client("dynamodb").scan(TableName=tables[0]["PaymentsTableName"])["Items"]
    kept = {row["payment_id"]["S"] for row in rows}
    ensure(path.rpartition("/")[2] in kept, f"{path} is gone")
