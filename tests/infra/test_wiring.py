"""What the finished templates are held against: schemas, event sources, wiring, secrets."""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aws_cdk import App, Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Template

from infra import oncekey_cdk
from infra.oncekey_cdk.template_checks import RULES, findings
from tests.support.sample_constructs import build_service, let_be, new_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Written = dict[str, Any]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def service() -> Written:
    """The template of a whole service, in which nothing is wrong."""
    stack = new_stack()
    build_service(stack)
    return dict(Template.from_stack(stack).to_json())


def found(template: Written) -> set[str]:
    """The rules that something is found by."""
    return {finding.rule for finding in findings({"Stack": template})}


def resource(template: Written, kind: str, prefix: str) -> Written:
    """The resource of this kind whose logical id begins like this."""
    (one,) = [
        value
        for name, value in template["Resources"].items()
        if value["Type"] == kind and name.startswith(prefix) and len(name) == len(prefix) + 8
    ]
    properties: Written = one["Properties"]
    return properties


def table(template: Written, name: str) -> Written:
    """A table's properties."""
    return resource(template, "AWS::DynamoDB::Table", name)


def mapping(template: Written) -> Written:
    """The worker's event source."""
    return resource(template, "AWS::Lambda::EventSourceMapping", "WorkerOutboxQueue")


def function(template: Written, name: str) -> Written:
    """A function's properties."""
    return resource(template, "AWS::Lambda::Function", f"{name}Function")


def variables(template: Written, name: str) -> Written:
    """A function's variables."""
    told: Written = function(template, name)["Environment"]["Variables"]
    return told


def _without(template: Written, kind: str, prefix: str) -> None:
    names = [
        name
        for name, value in template["Resources"].items()
        if value["Type"] == kind and name.startswith(prefix)
    ]
    assert names
    for name in names:
        del template["Resources"][name]


def _twice(template: Written) -> None:
    second = copy.deepcopy(mapping(template))
    template["Resources"]["Second"] = {
        "Type": "AWS::Lambda::EventSourceMapping",
        "Properties": {**second, "FunctionName": {"Ref": "Another"}},
    }


def _statements(template: Written, role: str) -> list[Written]:
    policy = resource(template, "AWS::IAM::Policy", f"{role}RoleDefaultPolicy")
    statements: list[Written] = policy["PolicyDocument"]["Statement"]
    return statements


def _without_grants(template: Written, role: str, action: str) -> None:
    statements = _statements(template, role)
    statements[:] = [one for one in statements if action not in json.dumps(one["Action"])]


def _fifo(template: Written, **properties: Any) -> None:
    resource(template, "AWS::SQS::Queue", "OutboxQueue")["FifoQueue"] = True
    _changed(template, **properties)


def _changed(template: Written, **properties: Any) -> None:
    mapping(template).update(properties)


def _reserved(template: Written) -> None:
    _changed(template, ScalingConfig={"MaximumConcurrency": 5})
    function(template, "Worker")["ReservedConcurrentExecutions"] = 4


CHANGES: dict[str, tuple[str, Callable[[Written], object]]] = {
    "batch": ("EventSource", lambda t: _changed(t, BatchSize=10_001)),
    "no batch": ("EventSource", lambda t: _changed(t, BatchSize=0)),
    "large batch": (
        "EventSource",
        lambda t: _changed(t, BatchSize=11, MaximumBatchingWindowInSeconds=0),
    ),
    "window": ("EventSource", lambda t: _changed(t, MaximumBatchingWindowInSeconds=301)),
    "FIFO window": ("EventSource", _fifo),
    "FIFO batch": (
        "EventSource",
        lambda t: _fifo(t, BatchSize=11, MaximumBatchingWindowInSeconds=0),
    ),
    "concurrency": (
        "EventSource",
        lambda t: _changed(t, ScalingConfig={"MaximumConcurrency": 1}),
    ),
    "much concurrency": (
        "EventSource",
        lambda t: _changed(t, ScalingConfig={"MaximumConcurrency": 1001}),
    ),
    "key": (
        "TableSchema",
        lambda t: table(t, "Records").update(
            KeySchema=[{"AttributeName": "due_shard", "KeyType": "HASH"}]
        ),
    ),
    "TTL": ("TableSchema", lambda t: table(t, "Records").pop("TimeToLiveSpecification")),
    "other TTL": (
        "TableSchema",
        lambda t: table(t, "Records").update(
            TimeToLiveSpecification={"AttributeName": "ttl", "Enabled": True}
        ),
    ),
    "index": ("TableSchema", lambda t: table(t, "Records").pop("GlobalSecondaryIndexes")),
    "outbox's key": (
        "TableSchema",
        lambda t: table(t, "OutboxTable").update(
            KeySchema=[{"AttributeName": "id", "KeyType": "RANGE"}]
        ),
    ),
    "stream": (
        "TableSchema",
        lambda t: table(t, "OutboxTable").update(
            StreamSpecification={"StreamViewType": "OLD_IMAGE"}
        ),
    ),
    "outbox's TTL": (
        "TableSchema",
        lambda t: table(t, "OutboxTable").update(
            TimeToLiveSpecification={"AttributeName": "at", "Enabled": True}
        ),
    ),
    "no table": ("FunctionTable", lambda t: variables(t, "Payments").pop("ONCEKEY_TABLE")),
    "no grant": ("TableGrant", lambda t: _without_grants(t, "Payments", "dynamodb:")),
    "no reconciler": (
        "Reconciler",
        lambda t: _without_grants(t, "Reconciler", "dynamodb:Query"),
    ),
    "no worker": (
        "Outbox",
        lambda t: _without(t, "AWS::Lambda::EventSourceMapping", "WorkerOutboxQueue"),
    ),
    "no relay": (
        "Outbox",
        lambda t: _without(t, "AWS::Lambda::EventSourceMapping", "OutboxRelayStream"),
    ),
    "two workers": ("OneWorker", _twice),
    "reserved": ("Concurrency", _reserved),
    "plain secret": (
        "PlainSecret",
        lambda t: variables(t, "Payments").update(ONCEKEY_WEBHOOK_SECRET="whsec_0123456789abcdef"),
    ),
    "resolved secret": (
        "PlainSecret",
        lambda t: variables(t, "Payments").update(
            API_KEY={"Fn::Join": ["", ["{{resolve:secretsmanager:", {"Ref": "Secret"}, "}}"]]}
        ),
    ),
    "results": (
        "AnswersKept",
        lambda t: resource(t, "AWS::S3::Bucket", "Answers").update(
            LifecycleConfiguration={"Rules": [{"ExpirationInDays": 9, "Status": "Enabled"}]}
        ),
    ),
}
OF_FAULT = {"EventSource": "K14.3", "TableSchema": "K14.2", "PlainSecret": "K14.8"}


@pytest.mark.fault("K14.2")
@pytest.mark.fault("K14.3")
@pytest.mark.fault("K14.7")
@pytest.mark.fault("K14.8")
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_missing_or_cannot_be_is_found(service: Written, change: str) -> None:
    """Whatever override has left a table without its schema, a function without its table or its
    grant, an outbox without relay or worker, a queue with two, records without a reconciler, a
    reservation too small, an event source that Lambda refuses, or a secret in clear: it is found,
    by the rule for it alone.

    Red when one of the rules looks at what constructs were given, or not at all.
    """
    rule, do = CHANGES[change]
    template = copy.deepcopy(service)
    assert found(template) == set()

    do(template)

    assert found(template) - {"VisibilityTimeout"} == {rule}
    assert rule in RULES


@pytest.mark.parametrize("action", ["dynamodb:*Item", "DynamoDB:getitem", "dynamodb:G?tItem", "*"])
def test_a_grant_of_ones_own_is_a_grant(service: Written, action: str) -> None:
    """It may have wildcards and letters as IAM takes them, and a table's ARN written out.

    Red when the synthesis refuses a function that has access to its table.
    """
    _without_grants(service, "Payments", "dynamodb:")
    table(service, "Records")["TableName"] = "records"
    arn = "arn:aws:dynamodb:eu-central-1:111111111111:table/records"
    _statements(service, "Payments").append({"Action": action, "Resource": arn})

    assert "TableGrant" not in found(service)


def _positions(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for name, child in children:
        yield (*path, name)
        if isinstance(child, dict | list):
            yield from _positions(child, (*path, name))


@pytest.fixture(scope="module")
def smaller(service: Written) -> Written:
    """The service without its alarms, and with a REST API's method."""
    left = {
        name: one
        for name, one in service["Resources"].items()
        if not one["Type"].startswith(("AWS::CloudWatch", "AWS::SNS", "AWS::Logs"))
    }
    uri = ["arn:aws:apigateway:", {"Fn::GetAtt": ["PaymentsFunctionCEDF3A54", "Arn"]}]
    left["Method"] = {
        "Type": "AWS::ApiGateway::Method",
        "Properties": {"Integration": {"TimeoutInMillis": 20000, "Uri": {"Fn::Join": ["", uri]}}},
    }
    outputs = {"Out": {"Value": {"Ref": "Records"}, "Export": {"Name": "records"}}}
    return {"Resources": left, "Outputs": outputs}


UNKNOWN = {"Ref": "OfTheDeployment"}
CONDITIONAL = {"Fn::If": ["IsLarge", 1, UNKNOWN]}


@pytest.mark.fault("K14.6")
@pytest.mark.parametrize(
    "unknown",
    [
        UNKNOWN,
        CONDITIONAL,
        pytest.param("${Token[TOKEN.1]}", marks=pytest.mark.proof),
        pytest.param(None, marks=pytest.mark.proof),
    ],
)
def test_the_checks_survive_whatever_only_the_deployment_knows(
    smaller: Written, unknown: object
) -> None:
    """Any part of a template may be a reference, a condition, a token or something else: the
    checks end, and what is wrong elsewhere is still found.

    Red when a value that is no number, text, list or mapping raises.
    """
    broken = copy.deepcopy(smaller)
    broken["Resources"]["Method"]["Properties"]["Integration"]["TimeoutInMillis"] = 1000
    for name in broken["Resources"]:
        for path in _positions(broken["Resources"][name], ("Resources", name)):
            _replaced(broken, path, unknown)
    for path in [("Resources",), ("Outputs",), *_positions(broken["Outputs"], ("Outputs",))]:
        _replaced(broken, path, unknown)


def _replaced(template: Written, path: tuple[Any, ...], value: object) -> None:
    part: Any = template
    for name in path[:-1]:
        part = part[name]
    before = part[path[-1]]
    part[path[-1]] = value
    try:
        rules = found(template)
    finally:
        part[path[-1]] = before
    if path[:2] == ("Resources", "Records091F6ECA"):
        assert "ApiTimeout" in rules


@pytest.mark.fault("K14.6")
@pytest.mark.parametrize("name", ["Timeout", "ReservedConcurrentExecutions", "MemorySize"])
def test_an_unknown_number_is_no_finding(service: Written, name: str) -> None:
    """A number that a parameter gives is taken to be right.

    Red when it counts as CloudFormation's default.
    """
    template = copy.deepcopy(service)
    function(template, "Worker")[name] = {"Ref": "Size"}
    resource(template, "AWS::SQS::Queue", "OutboxQueue")["VisibilityTimeout"] = {"Ref": "Seconds"}

    assert found(template) == set()


@pytest.mark.fault("K14.6")
def test_what_a_nested_stack_refers_to_is_followed(service: Written) -> None:
    """A worker in a nested stack, whose queue is a parameter, is the queue's worker.

    Red when a reference ends at the border of a template.
    """
    outer: Written = copy.deepcopy(service)
    inner: Written = {"Parameters": {"Queue": {"Type": "String"}}}
    name = next(each for each in outer["Resources"] if each.startswith("WorkerOutboxQueue"))
    moved = outer["Resources"].pop(name)
    inner["Resources"] = {"Moved": moved}
    moved["Properties"]["FunctionName"] = "a-function"
    arn, moved["Properties"]["EventSourceArn"] = (
        moved["Properties"]["EventSourceArn"],
        {"Ref": "Queue"},
    )
    assert found(outer) == {"Outbox"}
    outer["Resources"]["Nested"] = {
        "Type": "AWS::CloudFormation::Stack",
        "Properties": {"Parameters": {"Queue": arn}},
    }

    assert [*findings({"Outer": outer, "Inner": inner})] == []


@pytest.mark.fault("K14.7")
def test_an_app_without_a_reconciler_is_told_and_may_say_why() -> None:
    """The synthesis fails until somebody settles what is due, or it is acknowledged; and one thing
    that is acknowledged leaves every other an error.

    Red when it is only in a report, or the first acknowledgement switches all rules off.
    """

    def app(*rules: str, timeout_s: int = 20) -> App:
        stack = new_stack()
        records = oncekey_cdk.IdempotencyTable(stack, "Records")
        code = lambda_.Code.from_inline("def handler(event, context): ...")
        orders = oncekey_cdk.IdempotentFunction(
            stack,
            "Orders",
            table=records,
            code=code,
            handler="index.handler",
            environment={"ONCEKEY_DEFAULT_LEASE_MS": "60000"},
            timeout=Duration.seconds(timeout_s),
        )
        orders.function.add_environment("ONCEKEY_LEASE_MARGIN_MS", "no number" * (timeout_s < 20))
        let_be(records, *rules)
        root = stack.node.root
        assert isinstance(root, App)
        return root

    with pytest.raises(RuntimeError, match="create a Reconciler"):
        app().synth()
    assert app("Reconciler").synth().stacks
    with pytest.raises(RuntimeError, match="a whole number is needed"):
        app("Reconciler", timeout_s=19).synth()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "batch": ({"batch_size": 10_001}, "batch_size is 10001: use 1 to 10000"),
    "no batch": ({"batch_size": 0}, "batch_size is 0"),
    "large batch": ({"batch_size": 11}, "need a window of at least one second"),
    "window": ({"window": Duration.seconds(301)}, "the window is 301 s"),
    "part of a second": (
        {"window": Duration.millis(1500)},
        "the window is 1.5 s: use whole seconds",
    ),
    "concurrency": ({"max_concurrency": 1}, "max_concurrency is 1: use 2 to 1000"),
    "much concurrency": ({"max_concurrency": 1001}, "max_concurrency is 1001"),
    "FIFO window": ({"window": Duration.seconds(1)}, "a FIFO queue has no window"),
    "FIFO batch": ({"batch_size": 11}, "a FIFO queue allows at most 10"),
}


@pytest.mark.fault("K14.3")
@pytest.mark.parametrize("what", REFUSED)
def test_an_event_source_that_lambda_refuses_is_refused(what: str) -> None:
    """Batch sizes, windows and concurrency that Lambda refuses half way through a deployment are
    refused where they are said, and nothing is left in the tree.

    Red when they are passed on to CloudFormation.
    """
    stack = new_stack()
    outbox = oncekey_cdk.Outbox(stack, "Outbox", fifo=what.startswith("FIFO"))
    worker = _worker(stack)
    options, complaint = REFUSED[what]

    with pytest.raises(ValueError, match=complaint):
        outbox.add_worker(worker, **options)
    assert worker.works_for is None


@pytest.mark.fault("K14.7")
def test_a_second_worker_of_an_outbox_is_refused() -> None:
    """An outbox has one worker. The refusal names `Topics`, with which it handles all topics.

    Red when each message reaches one of two, by chance.
    """
    stack = new_stack()
    outbox = oncekey_cdk.Outbox(stack, "Outbox")
    outbox.add_worker(_worker(stack))

    with pytest.raises(ValueError, match=r"'Stack/Worker' works for it already, .*outbox\.Topics"):
        outbox.add_worker(_worker(stack, "Other"))


def _worker(stack: Any, name: str = "Worker") -> oncekey_cdk.IdempotentFunction:
    code = lambda_.Code.from_inline("def handler(event, context): ...")
    return oncekey_cdk.IdempotentFunction(stack, name, code=code, handler="index.handler")


@pytest.mark.fault("K14.10")
def test_the_lowest_cdk_that_is_allowed_has_what_is_imported() -> None:
    """The checks are a plugin of the CDK's, which 2.260 has first.

    Red when the bound names a version in which the package cannot be imported.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert "aws-cdk-lib>=2.260" in project["optional-dependencies"]["cdk"]
