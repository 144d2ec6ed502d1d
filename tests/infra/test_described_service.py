"""`IdempotentService`: a whole service from the description that the local runtime runs."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from infra.node import use_packaged_node

# The CDK starts node as it is imported.
use_packaged_node()

from aws_cdk import App, Stack  # noqa: E402
from aws_cdk import aws_lambda as lambda_  # noqa: E402
from aws_cdk import aws_secretsmanager as secretsmanager  # noqa: E402
from aws_cdk.assertions import Template  # noqa: E402

from infra.oncekey_cdk import (  # noqa: E402
    IdempotentHttpApi,
    IdempotentService,
    ServiceResources,
)
from infra.service import SERVICE  # noqa: E402
from infra.service_environment import (  # noqa: E402
    PROVIDER_API_KEY,
    PROVIDER_URL,
    WEBHOOK_SECRET,
)
from oncekey_local.description import (  # noqa: E402
    Allow,
    Attribute,
    Bucket,
    BucketName,
    Expiration,
    Function,
    Index,
    Queue,
    QueueUrl,
    Service,
    Setting,
    Table,
    TableName,
    records_table,
)
from tests.support.sample_constructs import let_be, new_stack  # noqa: E402
from tests.support.sample_templates import named  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

INLINE = "def handler(event, context): ..."


def an_api(stack: Stack) -> IdempotentHttpApi:
    """An API that asks for tokens."""
    return IdempotentHttpApi(
        stack, "Api", jwt_issuer="https://login.example.com/", jwt_audience=["payments"]
    )


def settings_of(stack: Stack) -> dict[str, Any]:
    """What differs between deployments of the reference service."""
    named = secretsmanager.Secret.from_secret_name_v2
    return {
        PROVIDER_URL.name: "https://api.stripe.com",
        PROVIDER_API_KEY.name: named(stack, "ApiKey", "api-key"),
        WEBHOOK_SECRET.name: named(stack, "WebhookSecret", "webhook-secret"),
    }


def test_one_statement_deploys_a_whole_description() -> None:
    """The tables, queues, functions, routes, schedules and alarms of a description are in one
    stack, and every check of the finished templates passes.

    Red when a piece is left out, such as the event source of the worker.
    """
    app = App(analytics_reporting=False)
    stack = Stack(app, "Payments")

    IdempotentService(
        stack,
        "Service",
        SERVICE,
        api=an_api(stack),
        settings=settings_of(stack),
        code=lambda_.Code.from_inline(INLINE),
    )

    app.synth()  # raises for each finding
    template = Template.from_stack(stack)
    routes = [route for function in SERVICE.functions for route in function.routes]
    for kind, count in (
        ("AWS::DynamoDB::Table", len(SERVICE.tables)),
        ("AWS::SQS::Queue", 2 * len(SERVICE.queues)),
        ("AWS::Lambda::Function", len(SERVICE.functions)),
        ("AWS::ApiGatewayV2::Route", len(routes)),
        ("AWS::Lambda::EventSourceMapping", 2),
        ("AWS::Events::Rule", 2),
    ):
        template.resource_count_is(kind, count)
    assert template.find_resources("AWS::CloudWatch::Alarm")


def test_the_library_fits_the_functions_python_and_processor() -> None:
    """The default layer is made for the runtime and the architecture that the service is given.

    Red when it is always for Python 3.13 on arm64: the CDK then refuses the functions.
    """
    stack = new_stack()

    IdempotentService(
        stack,
        "Service",
        SERVICE,
        api=an_api(stack),
        settings=settings_of(stack),
        code=lambda_.Code.from_inline(INLINE),
        runtime=lambda_.Runtime.PYTHON_3_11,
        architecture=lambda_.Architecture.X86_64,
    )

    layers = Template.from_stack(stack).find_resources("AWS::Lambda::LayerVersion")
    assert [one["Properties"]["CompatibleRuntimes"] for one in layers.values()] == [["python3.11"]]
    assert [one["Properties"]["CompatibleArchitectures"] for one in layers.values()] == [["x86_64"]]


def without(settings: dict[str, Any], setting: str) -> dict[str, Any]:
    """The settings but one."""
    return {name: value for name, value in settings.items() if name != setting}


KEY, HOST = Setting("tax-key", local="tk", secret=True), Setting("tax-host", local="http://tax")
YEAR = Attribute(name="year", type="N")
OWN = Service(
    name="tax",
    functions=(
        Function(
            name="report",
            handler="tax.report.handler",
            timeout_s=20,
            environment={
                "ONCEKEY_TABLE": TableName("records"),
                "TAX_KEY": KEY,
                "TAX_HOST": HOST,
            },
            reserves_in="records",
            checks=("rows",),
            queries=("rows",),
            allows=(
                Allow(actions=("dynamodb:BatchGetItem",), on=TableName("rows")),
                Allow(actions=("s3:DeleteObject",), on=BucketName("files"), objects="old/"),
                Allow(actions=("sqs:PurgeQueue",), on=QueueUrl("told")),
            ),
        ),
        Function(
            name="reconciler",
            handler="tax.reconciler.handler",
            timeout_s=20,
            environment={"ONCEKEY_TABLE": TableName("records")},
            reconciles="records",
        ),
    ),
    tables=(
        dataclasses.replace(
            records_table("records"),
            stream=True,
            indexes=(
                *records_table("records").indexes,
                Index(name="by-tenant", partition_key=Attribute(name="tenant")),
            ),
        ),
        Table(
            name="rows",
            partition_key=Attribute(name="pk"),
            sort_key=YEAR,
            indexes=(Index(name="by-year", partition_key=YEAR, all_attributes=True),),
        ),
    ),
    buckets=(Bucket(name="files", expirations=(Expiration(prefix="", after_days=30),)),),
    queues=(Queue(name="told"),),
)


@pytest.fixture(scope="module")
def own() -> Template:
    """A service with settings, tables and permissions of its own."""
    app = App(analytics_reporting=False)
    stack = Stack(app, "Tax")
    secret = secretsmanager.Secret.from_secret_name_v2(stack, "Key", "tax-key")
    IdempotentService(
        stack,
        "Service",
        OWN,
        settings={"tax-key": secret, "tax-host": "https://tax.example.com"},
        code=lambda_.Code.from_inline(INLINE),
    )
    app.synth()
    return Template.from_stack(stack)


def test_a_service_has_settings_of_its_own(own: Template) -> None:
    """A setting is text in a variable, and a secret is named in one, whatever it is for."""
    variables = named(own, "AWS::Lambda::Function", "ServiceReportFunction")["Environment"]

    assert variables["Variables"]["TAX_HOST"] == "https://tax.example.com"
    assert variables["Variables"]["TAX_KEY_ARN"] == "tax-key"
    assert "TAX_KEY" not in variables["Variables"]


def test_a_described_table_is_deployed_as_described(own: Template) -> None:
    """The sort key, more indexes and a stream are deployed, also those of the records' table.

    Red when a table of the layer drops what the description adds.
    """
    rows = named(own, "AWS::DynamoDB::Table", "ServiceResourcesRowsTable")
    records = named(own, "AWS::DynamoDB::Table", "ServiceResourcesRecordsTable")

    assert rows["KeySchema"][1] == {"AttributeName": "year", "KeyType": "RANGE"}
    assert rows["GlobalSecondaryIndexes"][0]["Projection"] == {"ProjectionType": "ALL"}
    assert records["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert [one["IndexName"] for one in records["GlobalSecondaryIndexes"]] == ["due", "by-tenant"]


def test_a_described_bucket_is_deployed_as_described(own: Template) -> None:
    """A bucket without answers may expire every object. One that keeps answers also has step
    results, and may not.

    Red when the rule for answers refuses another bucket, or lets one of answers lose results.
    """
    rules = named(own, "AWS::S3::Bucket", "ServiceResourcesFilesBucket")["LifecycleConfiguration"]
    report, *others = OWN.functions
    keeps = dataclasses.replace(report, keeps_answers_in="files")

    assert rules == {"Rules": [{"ExpirationInDays": 30, "Status": "Enabled"}]}
    with pytest.raises(ValueError, match="removes step results"):
        ServiceResources(
            new_stack(), "Resources", dataclasses.replace(OWN, functions=(keeps, *others))
        )


@pytest.mark.case(50)
def test_a_described_function_may_do_what_its_fields_say(own: Template) -> None:
    """Checks, queries and other actions are granted on the table and its indexes, the objects and
    the queue that they name, and on nothing else.

    Red when a field is left out of `grants_of`, or a grant reaches more than it names.
    """
    policy = named(own, "AWS::IAM::Policy", "ServiceReportRoleDefaultPolicy")["PolicyDocument"]
    found = {json.dumps(one["Resource"]): one["Action"] for one in policy["Statement"]}

    def actions(kind: str, below: str = "") -> list[object]:
        return [
            allowed
            for on, allowed in found.items()
            if kind in on and (below in on if below else "/" not in on)
        ]

    assert actions("RowsTable") == [
        ["dynamodb:ConditionCheckItem", "dynamodb:Query", "dynamodb:BatchGetItem"]
    ]
    assert actions("RowsTable", "/index/by-year") == ["dynamodb:Query"]
    assert actions("FilesBucket", "/old/*") == ["s3:DeleteObject"]
    assert actions("ToldQueue") == ["sqs:PurgeQueue"]


def renamed(name: str) -> Service:
    """The reference service with another name of its first function."""
    first, *others = SERVICE.functions
    return dataclasses.replace(SERVICE, functions=(dataclasses.replace(first, name=name), *others))


REFUSED: dict[str, tuple[Any, str]] = {
    "no API": (
        lambda given: {**given, "api": None},
        "routes, such as 'POST /payments', and there is no API: pass api=IdempotentHttpApi",
    ),
    "no setting": (
        lambda given: {**given, "settings": without(given["settings"], PROVIDER_URL.name)},
        r"functions need the setting 'provider-url': pass text in settings=",
    ),
    "a secret as text": (
        lambda given: {
            **given,
            "settings": {**given["settings"], PROVIDER_API_KEY.name: "sk_live_1"},
        },
        r"settings\['provider-api-key'\] must be a secret of Secrets Manager",
    ),
    "something else for the description": (
        lambda given: {**given, "service": "infra.service:SERVICE"},
        r"service is a str: give the Service itself",
    ),
    "a misspelt argument": (
        lambda given: {**given, "setings": {}},
        r"setings is no argument \(did you mean settings\?\)",
    ),
    "a function with the id of the alarms": (
        lambda given: {**given, "service": renamed("alarms")},
        "function 'alarms' would have the id Alarms, which another part of the service has",
    ),
    "a function with the id of the resources": (
        lambda given: {**given, "service": renamed("resources")},
        "give it another name, such as 'resources-function'",
    ),
    "two functions with one id": (
        lambda given: {**given, "service": renamed("outbox--relay")},
        "function 'outbox-relay' would have the id OutboxRelay",
    ),
    "no code": (
        lambda given: {**given, "code": None},
        "the handlers' package 'functions' is not in .*: run cdk in the project's root",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_description_needs_is_asked_for(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API for the routes, a value for each setting, and the handlers' code are asked for, with
    what to do; a secret as text is refused, because it would be in the template.
    """
    monkeypatch.chdir(tmp_path)
    stack = new_stack()
    change, complaint = REFUSED[what]
    given = change(
        {
            "service": SERVICE,
            "api": an_api(stack),
            "settings": settings_of(stack),
            "code": lambda_.Code.from_inline(INLINE),
        }
    )

    with pytest.raises(ValueError, match=complaint):
        IdempotentService(stack, "Service", **given)

    assert stack.node.try_find_child("Service") is None


def test_the_code_is_the_handlers_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `code=`, the asset holds the packages that handlers are named in and what these
    import, and nothing else of the project, such as its tests or its virtual environment.

    Red when a module beside the handlers is left out: then every function fails on AWS alone.
    """
    for name, text in {
        "orders/handler.py": "import json\nfrom common.money import cents\n",
        "common/money.py": "import rates\n",
        "rates.py": "",
        "tests/test_orders.py": "",
        ".venv/lib.py": "",
        "app.py": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    app = App(analytics_reporting=False, outdir=str(tmp_path / "cdk.out"))
    stack = Stack(app, "Stack")
    function = dataclasses.replace(
        SERVICE.functions[4], handler="orders.handler.handler", routes=()
    )
    service = dataclasses.replace(SERVICE, functions=(function,), queues=())

    IdempotentService(stack, "Service", service)
    let_be(stack, "FunctionTable", "TableGrant", "Reconciler")
    app.synth()
    assets = [
        sorted(path.name for path in folder.iterdir())
        for folder in (tmp_path / "cdk.out").glob("asset.*")
        if folder.is_dir()
    ]
    assert ["common", "orders", "rates.py"] in assets
