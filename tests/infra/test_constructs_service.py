"""A service that another team makes of the constructs, in one statement each."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Template
from constructs import Construct

import infra.oncekey_cdk
import oncekey
from infra.oncekey_cdk import IdempotencyTable, Outbox, Reconciler
from infra.oncekey_cdk.metrics import service_variable
from oncekey.outbox.relay import OutboxRelay
from oncekey.reconciler import reconciler
from tests.support.sample_constructs import build_service, grants, let_be, new_role, new_stack, only
from tests.support.sample_templates import named

FUNCTION = "AWS::Lambda::Function"
MAPPING = "AWS::Lambda::EventSourceMapping"
ALARM = "AWS::CloudWatch::Alarm"
# Where the layer's metrics go.
METRICS = {"ONCEKEY_METRICS_NAMESPACE", "ONCEKEY_METRICS_SERVICE"}
RESERVE = ("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:GetItem")
RECEIVE = (
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    "sqs:ChangeMessageVisibility",
)
STREAM = (
    "dynamodb:DescribeStream",
    "dynamodb:GetRecords",
    "dynamodb:GetShardIterator",
    "dynamodb:ListStreams",
)
KEEPS = {(("s3:PutObject", "s3:GetObject"), "Answers.Arn/*"), (("s3:ListBucket",), "Answers.Arn")}
TRACES = (("xray:PutTraceSegments", "xray:PutTelemetryRecords"), "*")


@pytest.fixture(scope="module")
def stack() -> Any:
    """The stack of the whole service."""
    stack = new_stack()
    build_service(stack)
    return stack


@pytest.fixture(scope="module")
def service(stack: Any) -> Template:
    """Its template."""
    return Template.from_stack(stack)


def logs(name: str) -> tuple[tuple[str, ...], str]:
    """What every function may do with its own log."""
    return ("logs:CreateLogStream", "logs:PutLogEvents"), f"{name}Logs.Arn"


@pytest.mark.case(50)
def test_each_function_may_do_exactly_this(service: Template) -> None:
    """Handler, relay, worker and reconciler reach what they call, by those calls, and no more.

    Red when any of the four gains or loses an action or a resource.
    """
    assert grants(service, "Payments") == {
        (RESERVE, "Records.Arn"),
        (("dynamodb:PutItem",), "OutboxTable.Arn"),
        *KEEPS,
        logs("Payments"),
        TRACES,
    }
    assert grants(service, "OutboxRelay") == {
        (STREAM, "OutboxTable.StreamArn"),
        (("dynamodb:BatchWriteItem", "dynamodb:UpdateItem"), "OutboxTable.Arn"),
        (("sqs:SendMessage",), "OutboxQueue.Arn"),
        (("sqs:SendMessage",), "OutboxGivenUp.Arn"),
        logs("OutboxRelay"),
        TRACES,
    }
    assert grants(service, "Worker") == {
        (RESERVE, "Records.Arn"),
        (RECEIVE, "OutboxQueue.Arn"),
        *KEEPS,
        logs("Worker"),
        TRACES,
    }
    assert grants(service, "Reconciler") == {
        (RESERVE, "Records.Arn"),
        (("dynamodb:Query",), "Records.Arn/index/due"),
        (("dynamodb:PutItem",), "OutboxTable.Arn"),
        (("dynamodb:Scan",), "OutboxTable.Arn"),
        (("dynamodb:BatchWriteItem", "dynamodb:UpdateItem"), "OutboxTable.Arn"),
        (("sqs:SendMessage",), "OutboxQueue.Arn"),
        (("sqs:SendMessage",), "ReconcilerEscalated.Arn"),
        *KEEPS,
        logs("Reconciler"),
        TRACES,
    }
    service.resource_count_is("AWS::IAM::Role", 4)
    assert all(
        "ManagedPolicyArns" not in role["Properties"]
        for role in service.find_resources("AWS::IAM::Role").values()
    )


@pytest.mark.case(50)
def test_eventbridge_may_use_a_customers_key_as_itself() -> None:
    """A queue under a customer's key is told of failed runs by EventBridge, which has no role: the
    queue's policy and the key's both let the rules of this account in.

    Red when either policy lacks the principal, or lets it in from any account.
    """
    stack = new_stack()
    key = kms.Key(stack, "Key")
    Reconciler(stack, "Reconciler", table=IdempotencyTable(stack, "Records"), encryption_key=key)
    template = Template.from_stack(stack)

    policies = [
        named(template, "AWS::SQS::QueuePolicy", "ReconcilerEscalatedPolicy")["PolicyDocument"],
        only(template, "AWS::KMS::Key")["KeyPolicy"],
    ]
    for policy, action in zip(policies, ("sqs:SendMessage", "kms:GenerateDataKey"), strict=True):
        (statement,) = [
            one
            for one in policy["Statement"]
            if one["Principal"] == {"Service": "events.amazonaws.com"}
        ]
        assert action in statement["Action"]
        assert "rule/*" in json.dumps(statement["Condition"]["ArnLike"]["aws:SourceArn"])


@pytest.mark.case(50)
def test_every_role_may_use_a_customers_key() -> None:
    """With an outbox under a customer's key, who publishes, relays and receives may use the key,
    through the service that asks for it.

    Red when a grant of the outbox forgets the key.
    """
    stack = new_stack()
    outbox = Outbox(stack, "Outbox", encryption_key=kms.Key(stack, "Key"))
    let_be(outbox, "Outbox")
    for name in ("Publish", "Relay", "Receive", "Sweep"):
        getattr(outbox, f"grant_{name.lower()}")(new_role(stack, name))
    template = Template.from_stack(stack)

    write = ("kms:Encrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*")
    allowed = {
        role: {actions for actions, arn in grants(template, role) if arn == "Key.Arn"}
        for role in ("Publish", "Relay", "Receive", "Sweep", "OutboxRelay")
    }
    read = ("kms:Decrypt", "kms:DescribeKey")
    send = ("kms:GenerateDataKey", "kms:Decrypt")
    assert allowed == {
        "Publish": {(*read, *write)},
        "Relay": {read, (*read, *write), send},
        "Receive": {("kms:Decrypt",)},
        "Sweep": {read, (*read, *write), send},
        "OutboxRelay": {read, (*read, *write), send},
    }


def test_the_relay_is_there_without_a_line_of_code(service: Template) -> None:
    """The outbox brings its relay, which is called with what is inserted, and told partly."""
    relay = named(service, FUNCTION, "OutboxRelayFunction")
    mapping = named(service, MAPPING, "OutboxRelayStream")

    assert isinstance(handler_of(relay), OutboxRelay)
    assert set(relay["Environment"]["Variables"]) == METRICS | {
        "ONCEKEY_OUTBOX_TABLE",
        "ONCEKEY_QUEUE_URL",
        "ONCEKEY_PAUSE_CHECK_S",
        "ONCEKEY_TRANSPORT",
    }
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["FilterCriteria"]["Filters"] == [{"Pattern": '{"eventName": ["INSERT"]}'}]
    assert "GivenUp" in json.dumps(mapping["DestinationConfig"])
    stream = named(service, "AWS::DynamoDB::Table", "OutboxTable")["StreamSpecification"]
    assert stream == {"StreamViewType": "NEW_AND_OLD_IMAGES"}


def handler_of(function: dict[str, Any]) -> object:
    """The handler that an inline function's code defines."""
    code: dict[str, Any] = {}
    exec(compile(function["Code"]["ZipFile"], "index.py", "exec"), code)  # noqa: S102
    return code["handler"]


def test_a_reconciler_is_there_without_a_line_of_code(service: Template) -> None:
    """Without resolvers of one's own it still ends what is dead, sweeps the outbox and escalates.

    It is told all three queues and tables that the layer's reconciler asks its environment for.
    """
    function = named(service, FUNCTION, "ReconcilerFunction")

    assert isinstance(handler_of(function), reconciler.Reconciler)
    assert set(function["Environment"]["Variables"]) == METRICS | {
        "ONCEKEY_TABLE",
        "ONCEKEY_OUTBOX_TABLE",
        "ONCEKEY_RESPONSE_BUCKET",
        "ONCEKEY_QUEUE_URL",
        "ONCEKEY_ESCALATION_QUEUE_URL",
        "ONCEKEY_PAUSE_CHECK_S",
        "ONCEKEY_TRANSPORT",
    }


def test_an_outbox_in_order_has_a_relay_that_keeps_the_order() -> None:
    """With `fifo=True` queue and dead letters are FIFO, and the relay groups by tenant."""
    stack = new_stack()
    let_be(Outbox(stack, "Outbox", fifo=True), "Outbox")
    template = Template.from_stack(stack)

    code = named(template, FUNCTION, "OutboxRelayFunction")["Code"]["ZipFile"]
    assert "group=lambda message: message.tenant" in code
    fifo = {
        name: named(template, "AWS::SQS::Queue", f"Outbox{name}").get("FifoQueue", False)
        for name in ("Queue", "DeadLetters", "GivenUp")
    }
    assert fifo == {"Queue": True, "DeadLetters": True, "GivenUp": False}


@pytest.mark.case(39)
def test_a_worker_sets_the_queues_visibility_timeout(service: Template) -> None:
    """A message is hidden for six times the worker's timeout and the window.

    Red when adding a worker leaves the visibility timeout to SQS.
    """
    queue = named(service, "AWS::SQS::Queue", "OutboxQueue")
    mapping = named(service, MAPPING, "WorkerOutboxQueue")

    assert queue["VisibilityTimeout"] == 6 * 120 + 5
    assert queue["RedrivePolicy"]["maxReceiveCount"] == 12
    assert mapping["MaximumBatchingWindowInSeconds"] == 5
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert (
        "ONCEKEY_QUEUE_URL"
        in named(service, FUNCTION, "WorkerFunction")["Environment"]["Variables"]
    )


def test_a_lease_without_a_context_lasts_as_long_as_the_function(service: Template) -> None:
    """A function that may run for longer than the default lease is given a longer one."""
    worker = named(service, FUNCTION, "WorkerFunction")["Environment"]["Variables"]
    payments = named(service, FUNCTION, "PaymentsFunction")["Environment"]["Variables"]

    assert worker["ONCEKEY_DEFAULT_LEASE_MS"] == "120000"
    assert set(payments) == METRICS | {
        "ONCEKEY_TABLE",
        "ONCEKEY_OUTBOX_TABLE",
        "ONCEKEY_RESPONSE_BUCKET",
        "ONCEKEY_PAUSE_CHECK_S",
        "ONCEKEY_TRANSPORT",
    }


def test_the_clock_calls_the_reconciler(service: Template) -> None:
    """It runs each minute; a call that is late or fails is told to the queue for people.

    EventBridge sends as itself, so the queue's own policy lets it in; Lambda sends under the role.
    """
    rule = only(service, "AWS::Events::Rule")
    runs = only(service, "AWS::Lambda::EventInvokeConfig")
    policy = named(service, "AWS::SQS::QueuePolicy", "ReconcilerEscalatedPolicy")
    senders = [
        one["Principal"]
        for one in policy["PolicyDocument"]["Statement"]
        if one["Effect"] == "Allow"
    ]

    assert rule["ScheduleExpression"] == "rate(1 minute)"
    assert "Escalated" in json.dumps(rule["Targets"][0]["DeadLetterConfig"])
    assert (runs["MaximumRetryAttempts"], runs["MaximumEventAgeInSeconds"]) == (0, 60)
    assert senders == [{"Service": "events.amazonaws.com"}]


def test_only_the_route_that_says_so_is_open(service: Template) -> None:
    """Every route asks for a JWT, but the one for webhooks; all are throttled and logged."""
    routes = {
        one["Properties"]["RouteKey"]: one["Properties"]["AuthorizationType"]
        for one in service.find_resources("AWS::ApiGatewayV2::Route").values()
    }
    stage = only(service, "AWS::ApiGatewayV2::Stage")

    assert routes == {"POST /payments": "JWT", "POST /webhooks": "NONE"}
    assert stage["DefaultRouteSettings"] == {
        "ThrottlingRateLimit": 500,
        "ThrottlingBurstLimit": 1000,
    }
    assert "header" not in stage["AccessLogSettings"]["Format"]


def test_every_alarm_says_what_to_do_and_tells_the_topic(service: Template) -> None:
    """What is created is watched, and one dead letter is an alarm."""
    alarms = service.find_resources(ALARM)
    (topic,) = service.find_resources("AWS::SNS::Topic")

    for alarm in alarms.values():
        assert alarm["Properties"]["AlarmActions"] == [{"Ref": topic}]
        # What happened, and what to do.
        assert ". " in alarm["Properties"]["AlarmDescription"]
    depths = [one["Properties"] for key, one in alarms.items() if "Depth" in key]
    assert len(depths) == 3
    assert {one["Threshold"] for one in depths} == {0}


def test_the_layer_is_the_installed_library(stack: Any, service: Template) -> None:
    """The layer holds the package file by file, where Lambda's Python looks, and no caches."""
    service.resource_count_is("AWS::Lambda::LayerVersion", 1)
    app = stack.node.root
    assert isinstance(app, App)
    (asset,) = Path(app.outdir).glob("asset.*")
    source = Path(oncekey.__file__).parents[1]

    shipped = {path.relative_to(asset / "python") for path in asset.rglob("*") if path.is_file()}
    assert shipped == {
        path.relative_to(source)
        for path in (source / "oncekey").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_a_service_is_called_by_printable_ascii_whatever_its_construct_is_called() -> None:
    """CloudWatch refuses an alarm by another dimension.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_Dimension.html
    """
    variables = service_variable(Construct(new_stack(), "Zahlungen für Größen"))

    assert variables["ONCEKEY_METRICS_SERVICE"].endswith("-Zahlungen f-r Gr--en")


def test_the_package_can_leave_this_repository() -> None:
    """It imports itself by relative names, the CDK, the library, the types of a description and
    the operator's reading of templates, and nothing else of ours.
    """
    folder = Path(infra.oncekey_cdk.__file__).parent
    imported = {
        name.partition(".")[0]
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for name in _imported(node)
    }

    others = imported - {
        *("", "aws_cdk", "constructs", "jsii"),
        *("oncekey", "oncekey_local", "oncekey_operator"),
    }
    assert others <= sys.stdlib_module_names
    assert "typing" in others, "Bug: no import was found"


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return ["" if node.level else str(node.module)]
    return []
