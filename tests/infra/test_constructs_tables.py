"""The tables and the bucket that other teams take into their own app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Template

from infra.oncekey_cdk import (
    AuditTable,
    IdempotencyTable,
    IdempotentFunction,
    IdempotentService,
    Outbox,
    Reconciler,
    ResponseBucket,
    ServiceResources,
)
from oncekey_local.description import Function, Service, TableName, records_table
from tests.support.sample_constructs import grants, let_be, new_role, new_stack, only, statements

if TYPE_CHECKING:
    from collections.abc import Callable

# What the layer calls for a handler; tests/repo holds the README's list against recorded calls.
RESERVE = ("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:GetItem")
DUE = ("dynamodb:Query",)
READ_KEY = ("kms:Decrypt", "kms:DescribeKey")
WRITE_KEY = (*READ_KEY, "kms:Encrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*")
TABLE = "AWS::DynamoDB::Table"
BUCKET = "AWS::S3::Bucket"
SERVICE = Service(
    name="orders",
    functions=(
        Function(
            name="orders",
            handler="orders.handler",
            timeout_s=20,
            environment={"ONCEKEY_TABLE": TableName("records")},
            reserves_in="records",
        ),
    ),
    tables=(records_table("records"),),
)


def code() -> lambda_.InlineCode:
    """Some code."""
    return lambda_.Code.from_inline("def handler(event, context): ...")


def a_function(scope: Stack, name: str, **props: Any) -> IdempotentFunction:
    """A function of which nothing more is asked."""
    return IdempotentFunction(scope, name, code=code(), handler="index.handler", **props)


def table_of(stack: Stack) -> object:
    """What the only function of this stack is told as the name of its table."""
    function = only(Template.from_stack(stack), "AWS::Lambda::Function")
    return function["Environment"]["Variables"]["ONCEKEY_TABLE"]


@pytest.fixture(scope="module")
def defaults() -> Template:
    """A table, a bucket and an audit trail of which nothing was asked, and who may use them."""
    stack = new_stack()
    records, audit = IdempotencyTable(stack, "Records"), AuditTable(stack, "Audit")
    answers = ResponseBucket(stack, "Answers")
    handler, reader = new_role(stack, "Handler"), new_role(stack, "Reader")
    records.grant_reserve(handler)
    answers.grant_keep(handler)
    audit.grant_append(handler)
    records.grant_read(reader)
    answers.grant_fetch(reader)
    audit.grant_read(reader)
    records.grant_reconcile(new_role(stack, "Reconciler"))
    return Template.from_stack(stack)


@pytest.fixture(scope="module")
def keyed() -> Template:
    """The same under a customer's key, to be thrown away."""
    stack = new_stack()
    key = kms.Key(stack, "Key")
    records = IdempotencyTable(stack, "Records", encryption_key=key, keeps_data=False)
    answers = ResponseBucket(stack, "Answers", encryption_key=key, keeps_data=False)
    handler, reader = new_role(stack, "Handler"), new_role(stack, "Reader")
    records.grant_reserve(handler)
    answers.grant_keep(handler)
    records.grant_read(reader)
    answers.grant_fetch(reader)
    records.grant_reconcile(new_role(stack, "Reconciler"))
    return Template.from_stack(stack)


def table(template: Template, name: str) -> dict[str, Any]:
    """The resource of the table whose logical id begins like this."""
    (found,) = [one for key, one in template.find_resources(TABLE).items() if key.startswith(name)]
    return dict(found)


@pytest.mark.case(48)
def test_a_table_of_which_nothing_was_asked_is_what_the_layer_expects(defaults: Template) -> None:
    """Key, TTL and index are the layer's; it is on demand, recoverable, and keeps its data.

    Red when the construct gives the key, the TTL attribute or the index another name.
    """
    records = table(defaults, "Records")
    properties = records["Properties"]

    assert (records["DeletionPolicy"], records["UpdateReplacePolicy"]) == ("Retain", "Retain")
    assert properties["DeletionProtectionEnabled"] is True
    assert properties["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert properties["BillingMode"] == "PAY_PER_REQUEST"
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    (due,) = properties["GlobalSecondaryIndexes"]
    assert due["IndexName"] == "due"
    assert [key["AttributeName"] for key in due["KeySchema"]] == ["due_shard", "due_at"]
    assert "SSESpecification" not in properties


@pytest.mark.case(49)
def test_nothing_has_a_fixed_name_and_what_is_thrown_away_goes(
    defaults: Template, keyed: Template
) -> None:
    """No table or bucket has a physical name; with `keeps_data=False` none outlives its stack.

    Red when the construct names a table, or keeps data that it was told not to keep.
    """
    for template in (defaults, keyed):
        for properties in template.find_resources(TABLE).values():
            assert "TableName" not in properties["Properties"]
        assert "BucketName" not in only(template, BUCKET)
    thrown = table(keyed, "Records")
    assert (thrown["DeletionPolicy"], thrown["UpdateReplacePolicy"]) == ("Delete", "Delete")
    assert thrown["Properties"]["DeletionProtectionEnabled"] is False
    keyed.all_resources(BUCKET, {"DeletionPolicy": "Delete"})


@pytest.mark.case(50)
def test_each_role_may_do_exactly_this(defaults: Template) -> None:
    """A handler reserves, keeps and appends; a reader looks; a reconciler also asks what is due.
    Nobody deletes.

    Red when a grant gains or loses an action, or names more than one resource.
    """
    assert grants(defaults, "Handler") == {
        (RESERVE, "Records.Arn"),
        (("s3:PutObject", "s3:GetObject"), "Answers.Arn/*"),
        (("s3:ListBucket",), "Answers.Arn"),
        (("dynamodb:PutItem",), "Audit.Arn"),
    }
    assert grants(defaults, "Reader") == {
        (("dynamodb:GetItem",), "Records.Arn"),
        (("s3:GetObject",), "Answers.Arn/*"),
        (("s3:ListBucket",), "Answers.Arn"),
        (("dynamodb:Query",), "Audit.Arn"),
    }
    assert grants(defaults, "Reconciler") == {
        (RESERVE, "Records.Arn"),
        (DUE, "Records.Arn/index/due"),
    }


@pytest.mark.case(50)
def test_a_customers_key_is_granted_along(keyed: Template) -> None:
    """Whoever may reserve may also decrypt, and use the key through DynamoDB and S3 only.

    Red when a grant on a table with a customer's key lacks kms:Decrypt, or allows the key as such.
    """
    assert grants(keyed, "Handler") >= {
        (WRITE_KEY, "Key.Arn"),
        (("kms:GenerateDataKey", "kms:Decrypt"), "Key.Arn"),
    }
    assert grants(keyed, "Reader") >= {
        (READ_KEY, "Key.Arn"),
        (("kms:Decrypt",), "Key.Arn"),
    }
    assert grants(keyed, "Reconciler") >= {(READ_KEY, "Key.Arn"), (WRITE_KEY, "Key.Arn")}
    through = {
        one["Condition"]["StringLike"]["kms:ViaService"]
        for role in ("Handler", "Reader")
        for one in statements(keyed, role)
        if "kms:Decrypt" in one["Action"]
    }
    assert through == {"dynamodb.*", "s3.*"}
    assert table(keyed, "Records")["Properties"]["SSESpecification"]["SSEEnabled"] is True


def test_the_bucket_forgets_answers_and_messages_and_no_result(defaults: Template) -> None:
    """The bucket is private, asks for TLS, and its rules leave the results of steps alone."""
    bucket = only(defaults, BUCKET)

    rules = bucket["LifecycleConfiguration"]["Rules"]
    assert {rule["Prefix"]: rule["ExpirationInDays"] for rule in rules} == {
        "answers/": 3,
        "outbox/": 90,
    }
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    policy = only(defaults, "AWS::S3::BucketPolicy")["PolicyDocument"]["Statement"]
    assert policy[0]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_any_default_can_be_overridden() -> None:
    """What the CDK's own constructs take is passed through, by its name, over our default."""
    stack = new_stack()
    IdempotencyTable(
        stack, "Records", table_props={"deletion_protection": False, "table_name": "records"}
    )
    ResponseBucket(stack, "Answers", bucket_props={"versioned": True, "enforce_ssl": False})
    template = Template.from_stack(stack)

    assert only(template, TABLE)["TableName"] == "records"
    assert only(template, TABLE)["DeletionProtectionEnabled"] is False
    assert only(template, BUCKET)["VersioningConfiguration"] == {"Status": "Enabled"}
    template.resource_count_is("AWS::S3::BucketPolicy", 0)


@pytest.mark.case(49)
def test_a_table_that_is_there_already_is_taken_as_it_is() -> None:
    """A retained table, or another team's, is used by its name or ARN, and none is created.

    Red when importing a table creates one, or its grants name another.
    """
    stack = new_stack()
    role = new_role(stack, "Handler")
    theirs = "arn:aws:dynamodb:eu-west-1:111111111111:table/theirs"
    IdempotencyTable.from_table_name(stack, "Left", "left-behind").grant_reserve(role)
    IdempotencyTable.from_table_arn(stack, "Theirs", theirs).grant_read(role)
    template = Template.from_stack(stack)

    template.resource_count_is(TABLE, 0)
    assert {(actions, arn.rpartition(":")[2]) for actions, arn in grants(template, "Handler")} == {
        (RESERVE, "table/left-behind"),
        (("dynamodb:GetItem",), "table/theirs"),
    }


def test_a_table_of_another_account_is_named_by_its_arn() -> None:
    """DynamoDB looks up a name in the caller's account, so a function would miss another account's
    table. A table of the own account keeps its name, however it was imported.

    Red when ONCEKEY_TABLE has the name of a table that is elsewhere.
    """
    here, elsewhere = (
        f"arn:aws:dynamodb:eu-west-1:{account}:table/records"
        for account in ("111111111111", "222222222222")
    )
    for account, arn, named in (
        ("111111111111", here, "records"),
        ("111111111111", elsewhere, elsewhere),
        (None, elsewhere, elsewhere),
    ):
        stack = Stack(App(), "Stack", env=Environment(account=account, region="eu-west-1"))
        assert IdempotencyTable.from_table_arn(stack, "Records", arn).table_name == named
        assert IdempotencyTable.from_table_name(stack, "Left", "left").table_name == "left"


def test_a_table_of_another_stack_and_account_is_named_by_its_arn() -> None:
    """A stack of the same app may be in another account, and its functions would miss the name.

    Red when ONCEKEY_TABLE has the name of a table that is elsewhere.
    """
    app = App(analytics_reporting=False)
    theirs, ours = (
        Stack(app, name, env=Environment(account=account, region="eu-west-1"))
        for name, account in (("Theirs", "111111111111"), ("Ours", "222222222222"))
    )
    records = IdempotencyTable(theirs, "Records", table_props={"table_name": "records"})
    let_be(records, "Reconciler")
    a_function(theirs, "Near", table=records)
    a_function(ours, "Far", table=records)

    arn = ["arn:", {"Ref": "AWS::Partition"}, ":dynamodb:eu-west-1:111111111111:table/records"]
    (near,) = Template.from_stack(theirs).find_resources(TABLE)
    assert table_of(theirs) == {"Ref": near}
    assert table_of(ours) == {"Fn::Join": ["", arn]}


def test_a_function_of_another_region_than_its_tables_is_refused() -> None:
    """A function calls DynamoDB in its own Region, also if its table is of another stack.

    Red when a function, a relay or a described service is told the name of a table that is
    elsewhere.
    """
    app = App(analytics_reporting=False)
    theirs, ours = (
        Stack(
            app,
            region,
            env=Environment(account="111111111111", region=region),
            cross_region_references=True,
        )
        for region in ("eu-west-1", "us-east-1")
    )
    records, outbox = IdempotencyTable(theirs, "Records"), Outbox(theirs, "Outbox")
    resources = ServiceResources(theirs, "Resources", SERVICE)

    said = "in eu-west-1, but functions of this stack call DynamoDB in us-east-1"
    with pytest.raises(ValueError, match=f"'eu-west-1/Records' is {said}"):
        a_function(ours, "Payments", table=records)
    with pytest.raises(ValueError, match=f"'eu-west-1/Outbox/Table' is {said}"):
        a_function(ours, "Publisher", outbox=outbox)
    with pytest.raises(ValueError, match=said):
        Outbox(theirs, "Other", relay_scope=ours)
    with pytest.raises(ValueError, match=said):
        IdempotentService(ours, "Service", SERVICE, resources=resources, code=code())


def test_a_table_of_another_region_is_refused() -> None:
    """A function calls DynamoDB in its own Region, and would miss a table that is elsewhere, or use
    another of the same name. A stack whose Region is not known yet is not refused.

    Red when either of the two ways to name such a table is accepted.
    """
    app = App()
    theirs = Stack(app, "Theirs", env=Environment(account="111111111111", region="eu-west-1"))
    ours = Stack(app, "Ours", env=Environment(account="111111111111", region="us-east-1"))
    table = IdempotencyTable(theirs, "Records").table
    arn = "arn:aws:dynamodb:eu-west-1:111111111111:table/records"

    said = (
        "the existing table is in eu-west-1, but functions of this stack call DynamoDB in us-east"
    )
    with pytest.raises(ValueError, match=said):
        IdempotencyTable.from_table_arn(ours, "Imported", arn)
    with pytest.raises(ValueError, match=said):
        IdempotencyTable(ours, "Existing", existing=table)
    IdempotencyTable.from_table_arn(Stack(app, "Anywhere"), "Records", arn)


def _records(stack: Stack, **props: Any) -> None:
    IdempotencyTable(stack, "Records", **props)


REFUSED: dict[str, tuple[Callable[[Stack], object], list[str]]] = {
    "schema": (
        lambda stack: _records(
            stack,
            table_props={
                "partition_key": dynamodb.Attribute(name="id", type=dynamodb.AttributeType.STRING),
                "time_to_live_attribute": "ttl",
                "replication_regions": ["eu-west-1"],
                "tabel_name": "records",
            },
        ),
        [
            "IdempotencyTable 'Stack/Records' is wrong: ",
            "table_props['partition_key'] cannot be overridden",
            "table_props['time_to_live_attribute'] cannot be overridden",
            "each tenant one Region",
            "table_props['tabel_name'] is no property of Table",
        ],
    ),
    "existing": (
        lambda stack: _records(
            stack,
            existing=dynamodb.Table.from_table_name(stack, "Left", "left"),
            table_props={"table_name": "records"},
        ),
        ["cannot change an existing table"],
    ),
    "bucket": (
        lambda stack: ResponseBucket(
            stack, "Answers", expire_after_days={"": 3, "answers/": 0}, bucket_props={"color": 1}
        ),
        [
            "ResponseBucket 'Stack/Answers' is wrong: ",
            "expire_after_days[''] removes step results",
            "expire_after_days['answers/'] is 0: use at least 1",
            "bucket_props['color'] is no property of Bucket",
        ],
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_all_that_is_wrong_is_said_at_once(kind: str) -> None:
    """A construct that cannot be is refused with every fault, and leaves nothing in the stack."""
    build, complaints = REFUSED[kind]
    stack = new_stack()

    with pytest.raises(ValueError, match=r" is wrong: ") as refused:
        build(stack)

    assert [one for one in complaints if one not in str(refused.value)] == []
    assert Template.from_stack(stack).to_json().get("Resources", {}) == {}


def test_a_table_without_its_index_is_for_handlers_whose_clients_retry() -> None:
    """`due_index=False` makes no index, tells each function, and needs no reconciler.

    Red when a function writes index keys all the same, or the synthesis asks for a reconciler.
    """
    stack = new_stack()
    records = IdempotencyTable(stack, "Records", due_index=False)
    IdempotentFunction(stack, "Orders", table=records, code=code(), handler="index.handler")

    template = Template.from_stack(stack)

    properties = table(template, "Records")["Properties"]
    assert "GlobalSecondaryIndexes" not in properties
    assert [each["AttributeName"] for each in properties["AttributeDefinitions"]] == ["pk"]
    variables = only(template, "AWS::Lambda::Function")["Environment"]["Variables"]
    assert variables["ONCEKEY_DUE_SHARDS"] == "0"


def test_a_function_that_writes_to_a_missing_index_is_found() -> None:
    """One function that was told otherwise fails the synthesis, which names what is missing."""
    stack = new_stack()
    records = IdempotencyTable(stack, "Records", due_index=False)
    orders, _ = (
        IdempotentFunction(stack, name, table=records, code=code(), handler="index.handler")
        for name in ("Orders", "Refunds")
    )
    orders.function.add_environment("ONCEKEY_DUE_SHARDS", "16")

    with pytest.raises(RuntimeError, match=r"(?s)oncekey::TableSchema.*oncekey::Reconciler"):
        Template.from_stack(stack)


NEEDS_INDEX: dict[str, Callable[[Stack, IdempotencyTable], object]] = {
    "reconciler": lambda stack, records: Reconciler(stack, "Reconciler", table=records),
    "outbox": lambda stack, records: IdempotentFunction(
        stack,
        "Orders",
        table=records,
        outbox=Outbox(stack, "Outbox"),
        code=code(),
        handler="index.handler",
    ),
    "grant": lambda stack, records: records.grant_reconcile(new_role(stack, "Reader")),
}


@pytest.mark.parametrize("what", NEEDS_INDEX)
def test_what_needs_the_index_is_refused_without_it(what: str) -> None:
    """A reconciler, an outbox and a grant for either are refused as they are made."""
    stack = new_stack()
    records = IdempotencyTable(stack, "Records", due_index=False)

    with pytest.raises(ValueError, match=r"has no index due \(due_index=False\)"):
        NEEDS_INDEX[what](stack, records)
