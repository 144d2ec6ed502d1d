"""What overrides leave of the grants and of what is safe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aws_cdk import App, Duration, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Template

from infra.oncekey_cdk import (
    AuditTable,
    IdempotencyTable,
    IdempotentFunction,
    IdempotentHttpApi,
    Outbox,
    OutboxTable,
    Reconciler,
    ResponseBucket,
)
from tests.support.sample_constructs import grants, let_be, new_role, new_stack, only
from tests.support.sample_templates import named

if TYPE_CHECKING:
    from collections.abc import Callable

STRING, NUMBER = dynamodb.AttributeType.STRING, dynamodb.AttributeType.NUMBER
WRITE = {"kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*"}


def function(scope: Stack, name: str, **props: Any) -> IdempotentFunction:
    """A function of which nothing more is asked."""
    code = lambda_.Code.from_inline("def handler(event, context): ...")
    return IdempotentFunction(scope, name, code=code, handler="index.handler", **props)


def _existing(stack: Stack, key: kms.IKey) -> IdempotencyTable:
    table = dynamodb.Table(
        stack,
        "There",
        partition_key=dynamodb.Attribute(name="pk", type=STRING),
        time_to_live_attribute="expires_at",
        encryption_key=key,
    )
    add_due(table)
    return IdempotencyTable(stack, "Existing", existing=table)


def add_due(table: dynamodb.Table, *, sort_type: dynamodb.AttributeType = NUMBER) -> None:
    """Add the reconciler's index."""
    table.add_global_secondary_index(
        index_name="due",
        partition_key=dynamodb.Attribute(name="due_shard", type=STRING),
        sort_key=dynamodb.Attribute(name="due_at", type=sort_type),
    )


@pytest.fixture(scope="module")
def overridden() -> Template:
    """Constructs with everything overridden that could take a grant away, in one template."""
    stack = new_stack()
    key = kms.Key(stack, "Key")
    managed = dynamodb.TableEncryption.CUSTOMER_MANAGED
    made: dict[str, Callable[[Any], None]] = {
        "TableKey": IdempotencyTable(
            stack, "Keyed", table_props={"encryption_key": key}
        ).grant_reserve,
        "TableOwnKey": IdempotencyTable(
            stack, "OwnKey", table_props={"encryption": managed}
        ).grant_reserve,
        "ExistingKey": _existing(stack, key).grant_reserve,
        "AuditKey": AuditTable(stack, "Audit", table_props={"encryption_key": key}).grant_append,
        "BucketKey": ResponseBucket(
            stack, "Bucket", bucket_props={"encryption_key": key}
        ).grant_keep,
        "BucketOwnKey": ResponseBucket(
            stack, "OwnBucket", bucket_props={"encryption": s3.BucketEncryption.KMS}
        ).grant_keep,
        "ExistingBucket": ResponseBucket(
            stack, "There2", existing=s3.Bucket(stack, "Theirs", encryption_key=key)
        ).grant_fetch,
    }
    outbox = Outbox(
        stack,
        "Outbox",
        table_props={"encryption_key": key},
        queue_props={"encryption_master_key": key, "encryption": None},
    )
    made |= {"Publish": outbox.grant_publish, "Receive": outbox.grant_receive}
    for name, grant in made.items():
        grant(new_role(stack, name))
    _service(stack, key, outbox)
    return Template.from_stack(stack)


def _service(stack: Stack, key: kms.IKey, outbox: Outbox) -> None:
    records = IdempotencyTable(
        stack,
        "Records",
        table_props={
            "deletion_protection": None,
            "point_in_time_recovery_specification": None,
            "billing_mode": None,
        },
    )
    answers = ResponseBucket(
        stack, "Answers", bucket_props={"block_public_access": None, "enforce_ssl": None}
    )
    secret = secretsmanager.Secret(stack, "Secret", encryption_key=key)
    worker = function(
        stack,
        "Worker",
        table=records,
        responses=answers,
        function_props={
            "log_group": logs.LogGroup(stack, "MyLogs"),
            "environment_encryption": key,
            "timeout": Duration.seconds(30),
            "dead_letter_queue": sqs.Queue(stack, "Lost", retention_period=Duration.days(14)),
        },
    )
    worker.read_secret("ONCEKEY_WEBHOOK_SECRET", secret)
    outbox.add_worker(worker)
    plain = function(
        stack,
        "Plain",
        table=records,
        function_props={"log_group": None, "timeout": None, "tracing": None, "vpc": None},
    )
    Reconciler(stack, "Reconciler", table=records)
    api = IdempotentHttpApi(
        stack,
        "Api",
        jwt_issuer="https://login.example.com/",
        jwt_audience=["payments"],
        api_props={"default_authorizer": None},
        stage_props={"throttle": None},
    )
    api.add_route(plain, "POST", "/payments")


@pytest.mark.fault("K14.1")
@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("TableKey", WRITE),
        ("TableOwnKey", WRITE),
        ("ExistingKey", WRITE),
        ("AuditKey", WRITE),
        ("Publish", WRITE),
        ("BucketKey", {"kms:GenerateDataKey", "kms:Decrypt"}),
        ("BucketOwnKey", {"kms:GenerateDataKey", "kms:Decrypt"}),
        ("ExistingBucket", {"kms:Decrypt"}),
        ("Receive", {"kms:Decrypt"}),
        ("OutboxRelay", {*WRITE, "kms:GenerateDataKey"}),
    ],
)
def test_a_key_that_is_overridden_is_granted(
    overridden: Template, role: str, expected: set[str]
) -> None:
    """Whichever way a table, bucket or queue comes to a customer's key, whoever is granted the one
    is granted the other.

    Red when a construct knows only the key that it was given as an argument of its own.
    """
    allowed = {action for actions, _ in grants(overridden, role) for action in actions}

    assert {one for one in allowed if one.startswith("kms:")} == expected


@pytest.mark.fault("K14.1")
def test_a_function_writes_to_the_log_group_that_it_is_given(overridden: Template) -> None:
    """Its role may write to that one, none of ours is created beside it, and what Lambda does with
    a key and a queue of the function's is allowed to it.

    Red when an override leaves its grant behind.
    """
    allowed = grants(overridden, "Worker")

    assert (("logs:CreateLogStream", "logs:PutLogEvents"), "MyLogs.Arn") in allowed
    assert (("kms:Decrypt",), "Key.Arn") in allowed
    assert (("sqs:SendMessage",), "Lost.Arn") in allowed
    names = [*overridden.find_resources("AWS::Logs::LogGroup")]
    assert [name for name in names if name.startswith("Worker")] == []
    worker = named(overridden, "AWS::Lambda::Function", "WorkerFunction")
    assert worker["LoggingConfig"]["LogGroup"]["Ref"].startswith("MyLogs")


@pytest.mark.fault("K14.8")
def test_a_function_uses_the_direct_transport_unless_it_is_told_otherwise() -> None:
    """The construct turns the direct transport on, and its environment may turn it off.

    Red when a deployed function is left with the slower transport, or with no choice.
    """
    stack = new_stack()
    told = {"First": None, "Second": {"ONCEKEY_TRANSPORT": "sdk"}}
    for name, environment in told.items():
        let_be(function(stack, name, environment=environment), "FunctionTable")
    template = Template.from_stack(stack)

    chosen = [
        named(template, "AWS::Lambda::Function", f"{name}Function")["Environment"]["Variables"]
        for name in told
    ]
    assert [each["ONCEKEY_TRANSPORT"] for each in chosen] == ["direct", "sdk"]


def test_a_function_may_read_the_secret_that_it_is_told(overridden: Template) -> None:
    """`read_secret` names the secret in a variable, and allows it and its key to the function.

    Red when a function is told a secret that it may not read.
    """
    variables = named(overridden, "AWS::Lambda::Function", "WorkerFunction")["Environment"]

    assert variables["Variables"]["ONCEKEY_WEBHOOK_SECRET_ARN"]["Ref"].startswith("Secret")
    assert (("secretsmanager:GetSecretValue",), "<SecretA720EF05>") in grants(overridden, "Worker")


@pytest.mark.fault("K14.1")
def test_none_leaves_what_is_safe_as_it_is(overridden: Template) -> None:
    """An override that says nothing takes no safety away: of tables, buckets, queues, functions
    and APIs.

    Red when None means the CDK's default in place of ours.
    """
    table = named(overridden, "AWS::DynamoDB::Table", "Records")
    assert table["DeletionProtectionEnabled"] is True
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    bucket = named(overridden, "AWS::S3::Bucket", "Answers")
    assert bucket["PublicAccessBlockConfiguration"]["BlockPublicPolicy"] is True
    assert named(overridden, "AWS::SQS::Queue", "OutboxQueue")["KmsMasterKeyId"]
    plain = named(overridden, "AWS::Lambda::Function", "PlainFunction")
    assert (plain["TracingConfig"], plain["Timeout"]) == ({"Mode": "Active"}, 20)
    assert plain["LoggingConfig"]["LogGroup"]["Ref"].startswith("PlainLogs")
    assert only(overridden, "AWS::ApiGatewayV2::Route")["AuthorizationType"] == "JWT"
    stage = only(overridden, "AWS::ApiGatewayV2::Stage")
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] == 500


REFUSED: dict[str, tuple[Callable[[Stack], object], str]] = {
    "dead letters": (
        lambda stack: Outbox(stack, "X", queue_props={"dead_letter_queue": None}),
        "use max_receives=",
    ),
    "order": (lambda stack: Outbox(stack, "X", queue_props={"fifo": True}), "use fifo="),
    "visibility": (
        lambda stack: Outbox(stack, "X", queue_props={"visibility_timeout": Duration.seconds(1)}),
        "use visibility_timeout=",
    ),
    "replicas": (
        lambda stack: Outbox(stack, "X", table_props={"replication_regions": ["eu-west-1"]}),
        "each Region's relay would send every message",
    ),
    "second log group": (
        lambda stack: function(
            stack, "X", function_props={"log_retention": logs.RetentionDays.ONE_DAY}
        ),
        "use log_retention= of this construct",
    ),
    "runs": (
        lambda stack: Reconciler(
            stack,
            "X",
            table=IdempotencyTable(stack, "Records"),
            function_props={"retry_attempts": 2},
        ),
        "the schedule of the reconciler sets it",
    ),
    "two keys": (
        lambda stack: IdempotencyTable(
            stack,
            "X",
            encryption_key=kms.Key(stack, "One"),
            table_props={"encryption_key": kms.Key(stack, "Two")},
        ),
        "the key is given twice",
    ),
}


@pytest.mark.fault("K14.1")
@pytest.mark.parametrize("what", REFUSED)
def test_an_override_that_takes_a_safety_away_is_refused(what: str) -> None:
    """What another argument says, or what the layer relies on, is no matter for an override.

    Red when such an override is passed on silently.
    """
    build, complaint = REFUSED[what]

    with pytest.raises(ValueError, match=complaint):
        build(new_stack())


def _table(stack: Stack, **changes: Any) -> dynamodb.Table:
    props: dict[str, Any] = {
        "partition_key": dynamodb.Attribute(name="pk", type=STRING),
        "time_to_live_attribute": "expires_at",
    }
    return dynamodb.Table(stack, "There", **{**props, **changes})


def _with_due(table: dynamodb.Table, **options: Any) -> dynamodb.Table:
    add_due(table, **options)
    return table


EXISTING: dict[str, tuple[Callable[[Stack], object], str]] = {
    "key": (
        lambda stack: IdempotencyTable(
            stack,
            "X",
            existing=_with_due(
                _table(stack, partition_key=dynamodb.Attribute(name="id", type=STRING))
            ),
        ),
        "has the key id S, and pk S is needed",
    ),
    "type": (
        lambda stack: IdempotencyTable(
            stack,
            "X",
            existing=_with_due(
                _table(stack, partition_key=dynamodb.Attribute(name="pk", type=NUMBER))
            ),
        ),
        "has the key pk N",
    ),
    "sort key": (
        lambda stack: IdempotencyTable(
            stack,
            "X",
            existing=_with_due(_table(stack, sort_key=dynamodb.Attribute(name="at", type=STRING))),
        ),
        "has the key pk S, at S",
    ),
    "TTL": (
        lambda stack: IdempotencyTable(
            stack, "X", existing=_with_due(_table(stack, time_to_live_attribute="ttl"))
        ),
        "has no TTL on expires_at",
    ),
    "index": (
        lambda stack: IdempotencyTable(stack, "X", existing=_table(stack)),
        r"has no index due \(due_shard S, due_at N\)",
    ),
    "index's key": (
        lambda stack: IdempotencyTable(
            stack, "X", existing=_with_due(_table(stack), sort_type=STRING)
        ),
        "its index due has the key due_shard S, due_at S",
    ),
    "replicas": (
        lambda stack: IdempotencyTable(
            stack,
            "X",
            existing=dynamodb.TableV2(
                stack,
                "There",
                partition_key=dynamodb.Attribute(name="pk", type=STRING),
                time_to_live_attribute="expires_at",
                replicas=[dynamodb.ReplicaTableProps(region="eu-west-1")],
            ),
        ),
        "has replicas",
    ),
    "stream": (
        lambda stack: OutboxTable(
            stack,
            "X",
            existing=dynamodb.Table(
                stack,
                "There",
                partition_key=dynamodb.Attribute(name="id", type=STRING),
                stream=dynamodb.StreamViewType.KEYS_ONLY,
            ),
        ),
        "has no stream with the new item",
    ),
    "outbox's TTL": (
        lambda stack: OutboxTable(
            stack,
            "X",
            existing=_table(
                stack,
                partition_key=dynamodb.Attribute(name="id", type=STRING),
                stream=dynamodb.StreamViewType.NEW_IMAGE,
            ),
        ),
        "would delete messages that are not sent yet",
    ),
    "imported stream": (
        lambda stack: OutboxTable(
            stack, "X", existing=dynamodb.Table.from_table_name(stack, "There", "outbox")
        ),
        "the stream of the existing table is not known",
    ),
    "audit": (
        lambda stack: AuditTable(stack, "X", existing=_table(stack)),
        "has the key pk S, and pk S, at S is needed",
    ),
}


@pytest.mark.fault("K14.2")
@pytest.mark.parametrize("what", EXISTING)
def test_an_existing_table_without_what_is_needed_is_refused(what: str) -> None:
    """A table of the same app is looked at when it is passed in: its key, TTL, index, stream and
    replicas; of an imported one, what is known.

    Red when `existing=` is taken on trust.
    """
    build, complaint = EXISTING[what]
    stack = Stack(App(analytics_reporting=False), "Stack", env={"region": "eu-central-1"})

    with pytest.raises(ValueError, match=complaint):
        build(stack)


@pytest.mark.fault("K14.2")
def test_an_existing_table_with_what_is_needed_is_taken() -> None:
    """A table with the schema is used as it is, and so is an imported one, of which nobody knows.

    Red when the check refuses what would work.
    """
    stack = new_stack()
    there = _with_due(_table(stack))

    assert IdempotencyTable(stack, "X", existing=there).table is there
    assert IdempotencyTable.from_table_name(stack, "Y", "records").table_name == "records"
