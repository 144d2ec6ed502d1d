"""The functions of the service stack: code, settings, logs and grants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from infra.service import SERVICE
from oncekey_local.description import BucketName, Setting, TableName

if TYPE_CHECKING:
    from tests.support.templates import Synthesised

KIND = "AWS::Lambda::Function"
(PAYMENTS,) = SERVICE.functions
LAYER_SOURCE = Path(__file__).parents[2] / "layer" / "python" / "oncekey"


def _asset(app: Synthesised, folder_in_it: str) -> Path:
    (found,) = [path for path in app.folder.glob("asset.*") if (path / folder_in_it).is_dir()]
    return found


def _refers_to(value: Any, table: str, attribute: str) -> bool:
    # The CDK names the export after the table's construct and what it exports of it.
    return f"{attribute}{table.capitalize()}Table" in json.dumps(value)


def test_the_function_is_as_described(app: Synthesised) -> None:
    """Handler, timeout and memory are the description's; runtime, processor and tracing ours."""
    app.service.resource_count_is(KIND, len(SERVICE.functions))
    app.service.has_resource_properties(
        KIND,
        {
            "Handler": PAYMENTS.handler,
            "Timeout": PAYMENTS.timeout_s,
            "MemorySize": PAYMENTS.memory_mb,
            "Runtime": "python3.13",
            "Architectures": ["arm64"],
            "TracingConfig": {"Mode": "Active"},
        },
    )


def test_the_environment_is_as_described(app: Synthesised) -> None:
    """The function is told every variable of the description, resolved, and no other."""
    (function,) = app.properties(KIND)
    variables = function["Environment"]["Variables"]

    assert set(variables) == set(PAYMENTS.environment)
    for name, value in PAYMENTS.environment.items():
        match value:
            case TableName(table=table):
                assert _refers_to(variables[name], table, "Ref")
            case Setting():
                assert variables[name] != value, f"{name} is not resolved"
            case BucketName(bucket=bucket):
                assert f"{bucket.capitalize()}Bucket" in str(variables[name])
            case _:
                assert variables[name] == value
    assert variables["PROVIDER_URL"] == "https://api.stripe.com"


@pytest.mark.parametrize("stage", ["dev", "production"])
def test_the_api_key_is_only_a_reference(stage: str, request: pytest.FixtureRequest) -> None:
    """A template names the secret that holds the provider's key; no parameter passes it along."""
    app: Synthesised = request.getfixturevalue(stage)
    (function,) = app.properties(KIND)

    assert function["Environment"]["Variables"]["PROVIDER_API_KEY"] == (
        f"{{{{resolve:secretsmanager:oncekey/{stage}/provider-api-key:SecretString:::}}}}"
    )
    assert set(app.service.to_json()["Parameters"]) == {"BootstrapVersion"}


def test_the_role_may_do_exactly_this(app: Synthesised) -> None:
    """The role reserves in the idempotency table, keeps large answers, reads and adds payments,
    logs, traces.
    """
    allowed = {
        tuple([one["Action"]] if isinstance(one["Action"], str) else one["Action"]): one["Resource"]
        for one in app.statements()
    }

    assert set(allowed) == {
        ("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:GetItem"),
        ("dynamodb:GetItem", "dynamodb:PutItem"),
        ("s3:PutObject", "s3:GetObject"),
        ("s3:ListBucket",),
        ("logs:CreateLogStream", "logs:PutLogEvents"),
        ("xray:PutTraceSegments", "xray:PutTelemetryRecords"),
    }
    reserve = allowed["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:GetItem"]
    assert _refers_to(reserve, "idempotency", "FnGetAtt")
    assert _refers_to(allowed["dynamodb:GetItem", "dynamodb:PutItem"], "payments", "FnGetAtt")
    assert len(app.statements()) == len(allowed)


def test_no_managed_policy_widens_the_role(app: Synthesised) -> None:
    """The role has its own policy and no managed one."""
    app.service.resource_count_is("AWS::IAM::Role", len(SERVICE.functions))
    for role in app.properties("AWS::IAM::Role"):
        assert "ManagedPolicyArns" not in role
        assert "Policies" not in role


def test_no_grant_has_a_wildcard(app: Synthesised) -> None:
    """Nothing is granted on a wildcard, but the objects of one bucket, and X-Ray, which knows no
    resources to name.
    """
    wide = [
        one
        for one in app.statements()
        if "*" in json.dumps(one["Resource"]) or any("*" in action for action in one["Action"])
    ]

    assert sorted(one["Action"] for one in wide) == [
        ["s3:PutObject", "s3:GetObject"],
        ["xray:PutTraceSegments", "xray:PutTelemetryRecords"],
    ]
    (objects,) = [one["Resource"] for one in wide if "s3:GetObject" in one["Action"]]
    assert objects["Fn::Join"][1][1] == "/*"


@pytest.mark.parametrize(
    ("stage", "days", "policy"), [("dev", 7, "Delete"), ("production", 180, "Retain")]
)
def test_every_log_ends(stage: str, days: int, policy: str, request: pytest.FixtureRequest) -> None:
    """Function and API log to groups of ours whose entries are forgotten after a stated time."""
    app: Synthesised = request.getfixturevalue(stage)

    app.service.resource_count_is("AWS::Logs::LogGroup", len(SERVICE.functions) + 1)
    app.service.all_resources("AWS::Logs::LogGroup", {"DeletionPolicy": policy})
    app.service.all_resources_properties("AWS::Logs::LogGroup", {"RetentionInDays": days})
    (function,) = app.properties(KIND)
    assert function["LoggingConfig"]["LogGroup"]["Ref"].startswith("PaymentsLogs")


def test_the_layer_is_the_package_as_it_stands(app: Synthesised) -> None:
    """The layer's asset is layer/python/oncekey, file by file, without caches or anything else."""
    asset = _asset(app, "python")
    shipped = {
        path.relative_to(asset / "python" / "oncekey").as_posix(): path.read_bytes()
        for path in asset.rglob("*")
        if path.is_file()
    }

    assert shipped == {
        path.relative_to(LAYER_SOURCE).as_posix(): path.read_bytes()
        for path in LAYER_SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_code_asset_holds_the_functions_only(app: Synthesised) -> None:
    """The functions' asset holds the handler at its dotted path and nothing from elsewhere."""
    asset = _asset(app, "functions")

    assert [path.name for path in asset.iterdir()] == ["functions"]
    assert (asset / "functions" / "payments" / "handler.py").is_file()
    assert not list(asset.rglob("__pycache__"))
