"""What the layer calls is what the constructs' grants allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import boto3
import pytest
from aws_cdk.assertions import Template
from botocore.client import BaseClient
from moto import mock_aws

from infra.service_resources import IDEMPOTENCY, OUTBOX
from oncekey import Operation, idempotent, jwt_claim
from oncekey.clock import SystemClock
from oncekey_local.store.tables import create_table_request
from tests.support.events import load, with_body, with_header, with_tenant
from tests.support.sample_constructs import build_service, grants, new_stack
from tests.support.sample_templates import named
from tests.support.steps import BESIDE, IN_THE_BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterator

Calls = set[tuple[str, str]]
ANSWERS = {"beside": BESIDE, "in the bucket": IN_THE_BUCKET}
HOUR_MS = 3_600_000
REGION: Final = "eu-central-1"
# Called as the constructs are in the template.
RECORDS, MESSAGES, QUEUE, ESCALATED = "Records", "OutboxTable", "OutboxQueue", "ReconcilerEscalated"
ENVIRONMENT = {
    "AWS_DEFAULT_REGION": REGION,
    "ONCEKEY_TABLE": RECORDS,
    "ONCEKEY_OUTBOX_TABLE": MESSAGES,
    "ONCEKEY_RESPONSE_BUCKET": "answers",
    # A person is told at the first turn.
    "ONCEKEY_RECONCILE_MAX_ATTEMPTS": "1",
}
_TRANSACTED = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
}


class Recorder:
    """The actions of IAM that calls of any client need, and on what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Calls = set()
        send = vars(BaseClient)["_make_api_call"]

        def recorded(client: Any, operation: str, parameters: dict[str, Any]) -> Any:
            self.calls |= set(needed(client.meta.service_model.service_name, operation, parameters))
            return send(client, operation, parameters)

        monkeypatch.setattr(BaseClient, "_make_api_call", recorded)

    def taken(self) -> Calls:
        """What was called since this was last asked."""
        taken, self.calls = self.calls, set()
        return taken


def needed(service: str, operation: str, parameters: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What IAM asks for a call: transactions and batches have no action of their own."""
    match service, operation, parameters:
        case "dynamodb", "TransactWriteItems", {"TransactItems": several}:
            for kind, item in (pair for one in several for pair in one.items()):
                yield f"dynamodb:{_TRANSACTED[kind]}", f"{item['TableName']}.Arn"
        case "dynamodb", "BatchWriteItem", {"RequestItems": tables}:
            for table in tables:
                yield "dynamodb:BatchWriteItem", f"{table}.Arn"
        case "dynamodb", _, {"TableName": table}:
            index = f"/index/{parameters['IndexName']}" if "IndexName" in parameters else ""
            yield f"dynamodb:{operation}", f"{table}.Arn{index}"
        case "sqs", _, {"QueueUrl": url}:
            yield f"sqs:{operation.removesuffix('Batch')}", f"{url.rpartition('/')[2]}.Arn"
        case "s3", _, {"Bucket": bucket}:
            yield f"s3:{operation}", f"{bucket.title()}.Arn/*"
        case _:
            yield f"{service}:{operation}", "unknown"


@pytest.fixture(scope="module")
def service() -> Template:
    """The template of a service that is made of the constructs."""
    stack = new_stack()
    build_service(stack)
    return Template.from_stack(stack)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """What the layer calls from here on, of tables, bucket and queues on moto."""
    with mock_aws():
        dynamodb = boto3.client("dynamodb", region_name=REGION)
        dynamodb.create_table(**create_table_request(RECORDS, IDEMPOTENCY))
        dynamodb.create_table(**create_table_request(MESSAGES, OUTBOX))
        boto3.client("s3", region_name=REGION).create_bucket(
            Bucket="answers", CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        sqs = boto3.client("sqs", region_name=REGION)
        urls = [sqs.create_queue(QueueName=name)["QueueUrl"] for name in (QUEUE, ESCALATED)]
        for name, value in {
            **ENVIRONMENT,
            "ONCEKEY_QUEUE_URL": urls[0],
            "ONCEKEY_ESCALATION_QUEUE_URL": urls[1],
        }.items():
            monkeypatch.setenv(name, value)
        yield Recorder(monkeypatch)


@idempotent(operation="POST /payments", tenant=jwt_claim("tenant_id"), effects="recorded")
def pay(event: dict[str, Any], context: object, op: Operation) -> dict[str, Any]:
    """Publish a message, take a step, and answer more than a record holds, or than an item does."""
    op.step("charge", lambda: "ch_1")
    op.outbox.publish("payment.requested", {"payment_id": op.operation_id})
    return {"statusCode": 201, "body": ANSWERS[event["body"]].hex()}


@idempotent(operation="POST /refunds", tenant=jwt_claim("tenant_id"))
def refund(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Nobody knows whether it was made."""
    raise TimeoutError


def request(key: str, answer: str = "") -> dict[str, Any]:
    """A request with this key, and for this answer."""
    event = with_body(with_tenant(load("apigw_http_v2_post"), "acme"), answer)
    return with_header(event, "idempotency-key", key)


def allowed(template: Template, role: str) -> Calls:
    """What a role may do, one action at a time; the bucket's objects and not the bucket."""
    return {(action, on) for actions, on in grants(template, role) for action in actions}


def run(template: Template, function: str, event: Any) -> Any:
    """Call an inline function of the template as it would be deployed."""
    code: dict[str, Any] = {}
    text = named(template, "AWS::Lambda::Function", f"{function}Function")["Code"]["ZipFile"]
    exec(compile(text, "index.py", "exec"), code)  # noqa: S102
    return code["handler"](event, None)


@pytest.mark.case(50)
def test_each_role_may_do_what_its_code_calls(
    recorder: Recorder, service: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handler, relay and reconciler call nothing that their roles may not do, and the handler's
    table actions are all needed.

    Red when the layer makes a call that a grant lacks, or a grant of the table allows one more.
    """
    # Whatever other tests have imported, nobody can be asked about these refunds.
    monkeypatch.setattr("oncekey.settlement.resolvers._resolvers", {})
    for answer in ("beside", "in the bucket"):
        for _first_and_replay in range(2):
            assert pay(request(f"key-for-what-is-{answer[:3]}", answer), None)["statusCode"] == 201
    handled = recorder.taken()
    with pytest.raises(TimeoutError):
        refund(request("c-key-of-16-letters"), None)
    assert recorder.taken() <= handled

    items = boto3.client("dynamodb", region_name=REGION).scan(TableName=MESSAGES)["Items"]
    recorder.taken()
    first = {"NewImage": items[0], "SequenceNumber": "1"}
    answer = run(service, "OutboxRelay", {"Records": [{"eventName": "INSERT", "dynamodb": first}]})
    relayed = recorder.taken()
    now_ms = SystemClock().now_ms()
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: now_ms + HOUR_MS)
    report = run(service, "Reconciler", {})
    reconciled = recorder.taken()

    assert answer == {"batchItemFailures": []}
    assert (report["resent"], report["escalated"], report["failed"]) == (1, 1, 0)
    assert handled <= allowed(service, "Payments")
    assert {("s3:PutObject", "Answers.Arn/*"), ("s3:GetObject", "Answers.Arn/*")} <= handled
    assert relayed <= allowed(service, "OutboxRelay")
    assert reconciled <= allowed(service, "Reconciler")
    of_the_table = {call for call in allowed(service, "Payments") if call[1] == f"{RECORDS}.Arn"}
    assert of_the_table <= handled
    assert ("dynamodb:Query", f"{RECORDS}.Arn/index/due") in reconciled
    assert ("dynamodb:Scan", f"{MESSAGES}.Arn") in reconciled
