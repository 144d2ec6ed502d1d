"""The construct for operators: its grants are what the commands call, and its outputs are found."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from aws_cdk.assertions import Template
from moto import mock_aws

from infra import oncekey_cdk
from oncekey import idempotent, single_tenant
from oncekey.store.dynamodb.schema import IDEMPOTENCY
from oncekey.store.dynamodb.tables import create_tables
from oncekey_local import cli
from oncekey_local.description import Function, Service, TableName, records_table
from oncekey_operator.console.console import Access, Console
from oncekey_operator.console.exchange import Request
from oncekey_operator.console.target_desk import TargetDesk
from oncekey_operator.messages import queues
from oncekey_operator.targets import OUTPUTS, Target
from tests.infra.test_granted_calls import REGION, Calls, Recorder, allowed
from tests.support.events import load, with_header
from tests.support.sample_constructs import let_be, new_role, new_stack
from tests.support.steps import IN_THE_BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.templates import Synthesised

RECORDS, MESSAGES, AUDIT, BUCKET = "Records", "OutboxTable", "Audit", "answers"
WHERE = ("--table", RECORDS, "--outbox-table", MESSAGES, "--audit-table", AUDIT)
WHY = ("--reason", "a test", "--yes")


@pytest.fixture(scope="module")
def template() -> Template:
    """A stack with all that operators can be given."""
    stack = new_stack()
    outbox = oncekey_cdk.Outbox(stack, "Outbox")
    let_be(outbox, "Outbox")
    table = oncekey_cdk.IdempotencyTable(stack, RECORDS)
    operators = oncekey_cdk.OncekeyOperators(
        stack,
        "Operators",
        table=table,
        reconciler=oncekey_cdk.Reconciler(stack, "Reconciler", table=table),
        audit=oncekey_cdk.AuditTable(stack, AUDIT),
        outbox=outbox,
        responses=oncekey_cdk.ResponseBucket(stack, "Answers"),
    )
    operators.grant_read(new_role(stack, "Reader"))
    operators.grant_act(new_role(stack, "Actor"))
    return Template.from_stack(stack)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """What is called from here on, of tables and a bucket on moto."""
    with mock_aws():
        monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
        client = boto3.client("dynamodb", region_name=REGION)
        create_tables(client, RECORDS, outbox=MESSAGES, audit=AUDIT)
        boto3.client("s3", region_name=REGION).create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        monkeypatch.setenv("ONCEKEY_TABLE", RECORDS)
        monkeypatch.setenv("ONCEKEY_RESPONSE_BUCKET", BUCKET)
        sqs = boto3.client("sqs", region_name=REGION)
        dead = sqs.create_queue(QueueName="OutboxDeadLetters")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]
        policy = json.dumps({"deadLetterTargetArn": arn["QueueArn"], "maxReceiveCount": 10})
        work = sqs.create_queue(QueueName="OutboxQueue", Attributes={"RedrivePolicy": policy})
        about = {"topic": "t", "operation": "POST /x", "operation_id": "o", "payload": {}}
        for number in "12":
            sqs.send_message(QueueUrl=dead, MessageBody=json.dumps({"id": number, **about}))
        monkeypatch.setenv("QUEUE_OF_THE_TEST", work["QueueUrl"])
        escalated = sqs.create_queue(QueueName="ReconcilerEscalated")["QueueUrl"]
        monkeypatch.setenv("ESCALATED_OF_THE_TEST", escalated)
        monkeypatch.setattr(queues, "_WAIT_S", 0)
        yield Recorder(monkeypatch)


def oncekey(*arguments: str) -> int:
    """Run a command on the tables."""
    queue = ("--queue-url", os.environ["QUEUE_OF_THE_TEST"])
    escalated = ("--escalation-queue-url", os.environ["ESCALATED_OF_THE_TEST"])
    return cli.main([*arguments, *WHERE, "--bucket", BUCKET, *queue, *escalated])


def target() -> Target:
    """The same tables and queues, for a console."""
    return Target(
        table=RECORDS,
        outbox_table=MESSAGES,
        audit_table=AUDIT,
        bucket=BUCKET,
        queue_url=os.environ["QUEUE_OF_THE_TEST"],
        escalation_queue_url=os.environ["ESCALATED_OF_THE_TEST"],
        region=REGION,
    )


def console_request(path: str) -> Request:
    """What the console's page asks for."""
    headers = {"host": "127.0.0.1:1", "sec-fetch-site": "same-origin", "x-oncekey-console": "t"}
    return Request(method="GET", path=f"api/{path}", headers=headers)


def taken(recorder: Recorder) -> Calls:
    """What was called. Anybody may ask AWS who they are."""
    calls = recorder.taken() - {("sts:GetCallerIdentity", "unknown")}
    # This call names its queue in another way than all others.
    found = {(action, "OutboxDeadLetters.Arn") for action, on in calls if on == "unknown"}
    return {call for call in calls if call[1] != "unknown"} | found


def reference(capsys: pytest.CaptureFixture[str]) -> str:
    """The reference of the only operation that was listed as JSON."""
    found: str = json.loads(capsys.readouterr().out)["reference"]
    return found


@idempotent(operation="POST /x", tenant=single_tenant())
def large(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer more than an item holds."""
    return {"statusCode": 201, "body": IN_THE_BUCKET.hex()}


@idempotent(operation="POST /y", tenant=single_tenant())
def fails(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Nobody knows what became of it."""
    raise TimeoutError


def test_operators_may_do_what_the_commands_call(
    recorder: Recorder,
    template: Template,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Reading commands need the reader's grants alone, the others no more than the actor's."""
    event = load("apigw_http_v2_post")
    large(with_header(event, "idempotency-key", "a-key-of-16-letters"), None)
    with pytest.raises(TimeoutError):
        fails(with_header(event, "idempotency-key", "b-key-of-16-letters"), None)
    file = tmp_path / "answer.json"
    file.write_text(json.dumps({"statusCode": 201, "body": IN_THE_BUCKET.hex()}), "utf-8")
    recorder.taken()

    assert oncekey("list", "--unknown", "--json") == 0
    unknown = reference(capsys)
    assert oncekey("list", "--completed", "--json") == 0
    completed = reference(capsys)
    assert oncekey("show", completed) == oncekey("show", unknown.partition(".")[2]) == 0
    read = taken(recorder)
    assert oncekey("resolve", unknown, "--completed", str(file), *WHY) == 0
    assert oncekey("bust", completed, "--even-if", "completed", *WHY) == 0
    assert oncekey("erase", unknown, "--even-if", "unsent", *WHY) == 0
    assert oncekey("pause", "POST /x", *WHY) == oncekey("resume", "POST /x", *WHY) == 0
    assert oncekey("redrive", "--dead-letters", "--limit", "1", *WHY) == 0
    assert oncekey("redrive", "--discard", "2", *WHY) == 0
    acted = taken(recorder)

    assert read <= allowed(template, "Reader")
    assert acted <= allowed(template, "Actor")
    assert {
        ("s3:PutObject", "Answers.Arn/*"),
        ("s3:DeleteObject", "Answers.Arn/*"),
        ("dynamodb:DeleteItem", "Records.Arn"),
        ("dynamodb:PutItem", "Audit.Arn"),
        ("sqs:SendMessage", "OutboxQueue.Arn"),
        ("sqs:DeleteMessage", "OutboxDeadLetters.Arn"),
    } <= acted
    assert not {call for call in allowed(template, "Reader") if "Put" in call[0]}


def test_a_reader_may_call_what_looks(
    recorder: Recorder, template: Template, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each reading command, and the console without changes. `doctor` also tries what its role may
    not do, changes nothing by it, and asks about functions, which this construct does not know.
    """
    may_read, may_act = allowed(template, "Reader"), allowed(template, "Actor")
    assert oncekey("tail", "--looks", "1") == oncekey("outbox") == oncekey("pause") == 0
    console = Console(TargetDesk(target()), Access(token="t"))
    for path in ("operations", "messages"):
        assert console.handle(console_request(path)).status == 200
    assert taken(recorder) <= may_read

    # The relay's event source is not there: moto has no stream's.
    assert oncekey("doctor") in {0, 1}
    tried = {call for call in taken(recorder) if call[0].startswith("dynamodb:")} - may_read
    assert tried <= may_act
    assert {action for action, _ in tried} == {
        "dynamodb:PutItem",
        "dynamodb:UpdateItem",
        "dynamodb:DeleteItem",
    }
    assert "not known" not in capsys.readouterr().out.partition("permissions")[0]


def test_an_actor_of_two_tables_may_move_records(recorder: Recorder, template: Template) -> None:
    """With the grants of both tables' constructs, and no more of the new one than of the old."""
    client = boto3.client("dynamodb", region_name=REGION)
    client.create_table(**IDEMPOTENCY.create_request("Newer"))
    large(with_header(load("apigw_http_v2_post"), "idempotency-key", "c-key-of-16-letters"), None)
    recorder.taken()

    assert oncekey("move", "--to", "Newer", *WHY) == 0

    moved = {(action, on.replace("Newer", RECORDS)) for action, on in taken(recorder)}
    assert moved <= allowed(template, "Actor")
    assert ("dynamodb:PutItem", "Records.Arn") in moved


def test_the_outputs_are_those_that_the_commands_read(template: Template) -> None:
    """`--stack` finds each resource by an output of its own name."""
    outputs = set(template.to_json()["Outputs"])

    assert {each for each in outputs if each.startswith("Oncekey")} == set(OUTPUTS.values())


def test_a_described_service_is_found_by_its_stack(app: Synthesised) -> None:
    """`--stack payments-<stage>-stateful` names each resource of the reference service."""
    outputs = app.stateful.to_json()["Outputs"]

    found = {
        name: value["Value"]["Ref"][:-8]
        for name, value in outputs.items()
        if name in OUTPUTS.values()
    }
    assert found == {
        "OncekeyTable": "IdempotencyTable",
        "OncekeyAuditTable": "AuditTable",
        "OncekeyOutboxTable": "OutboxTable",
        "OncekeyResponseBucket": "ResponsesBucket",
        "OncekeyQueueUrl": "PaymentsQueue",
        "OncekeyEscalationQueueUrl": "EscalatedQueue",
    }


@pytest.mark.parametrize(
    ("tables", "fault"),
    [
        ((), "no function of the description names a table of records in ONCEKEY_TABLE"),
        (("a", "b"), "name a, b in ONCEKEY_TABLE: operators work on one"),
    ],
)
def test_a_description_without_one_table_of_records_is_refused(
    tables: tuple[str, ...], fault: str
) -> None:
    """Operators work on one table of records: a description that names none or two is refused."""
    stack = new_stack()
    functions = tuple(
        Function(
            name=f"function-{table}",
            handler="functions.none.handler",
            timeout_s=10,
            environment={"ONCEKEY_TABLE": TableName(table)},
        )
        for table in tables
    )
    service = Service(
        name="two", functions=functions, tables=tuple(records_table(table) for table in tables)
    )

    with pytest.raises(ValueError, match=fault):
        oncekey_cdk.OncekeyOperators.described(
            stack,
            "Operators",
            service,
            resources=oncekey_cdk.ServiceResources(stack, "Resources", service),
            audit=oncekey_cdk.AuditTable(stack, AUDIT),
        )
