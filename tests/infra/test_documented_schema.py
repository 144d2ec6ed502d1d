"""layer/docs/guides/without-cdk.md makes the same tables and policies as the constructs."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
import yaml  # type: ignore[import-untyped]
from aws_cdk.assertions import Template

from infra import oncekey_cdk
from oncekey.store.dynamodb import schema
from tests.support.aws_engine import mocked_aws
from tests.support.documents import blocks, run_example
from tests.support.hcl import Block, read_hcl
from tests.support.sample_constructs import grants, let_be, new_role, new_stack

PAGE = "layer/docs/guides/without-cdk.md"
TABLES = {"records": "Records", "outbox": "Outbox", "audit": "Audit"}
Properties = dict[str, Any]
Allowed = set[tuple[str, str]]


@pytest.fixture(scope="module")
def constructs() -> Template:
    """The tables of the constructs, a handler's role and a reconciler's."""
    stack = new_stack()
    records = oncekey_cdk.IdempotencyTable(stack, "Records")
    outbox = oncekey_cdk.Outbox(stack, "Messages")
    oncekey_cdk.AuditTable(stack, "Audit")
    let_be(outbox, "Outbox")
    handler = new_role(stack, "Handler")
    records.grant_reserve(handler)
    outbox.grant_publish(handler)
    records.grant_reconcile(new_role(stack, "Reconciler"))
    return Template.from_stack(stack)


@pytest.fixture(scope="module")
def wanted(constructs: Template) -> dict[str, Properties]:
    """The tables that the constructs make."""
    prefixes = {"Records": "records", "Messages": "outbox", "Audit": "audit"}
    return {
        name: comparable(resource["Properties"])
        for logical_id, resource in constructs.find_resources("AWS::DynamoDB::Table").items()
        for prefix, name in prefixes.items()
        if logical_id.startswith(prefix)
    }


def comparable(properties: Properties) -> Properties:
    """The properties of a CloudFormation table; the order of attributes does not count."""
    named = properties["AttributeDefinitions"]
    types = {each["AttributeName"]: each["AttributeType"] for each in named}
    return {**properties, "AttributeDefinitions": types}


def listing(language: str) -> str:
    """The only block of the page in this language."""
    (code,) = [code for each, code in blocks(PAGE) if each == language]
    return code


def test_the_boto3_listing_makes_the_tables_of_the_constructs(
    wanted: dict[str, Properties],
) -> None:
    """The Python of the page makes tables with the keys, index, TTL, stream, recovery and
    protection that the constructs give them.

    Red when one of the two has another attribute, index or protection.
    """
    with mocked_aws():
        run_example("layer/docs/guides/without-cdk.md", "client.create_table(")
        client = boto3.client("dynamodb", region_name="eu-central-1")

        assert {name: _described(client, name) for name in TABLES} == wanted


def _described(client: Any, name: str) -> Properties:
    table = client.describe_table(TableName=name)["Table"]
    ttl = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    backups = client.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
    recovery = backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"]
    found: Properties = {
        "KeySchema": table["KeySchema"],
        "AttributeDefinitions": table["AttributeDefinitions"],
        "BillingMode": table["BillingModeSummary"]["BillingMode"],
        "DeletionProtectionEnabled": table["DeletionProtectionEnabled"],
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": recovery == "ENABLED"},
    }
    if ttl["TimeToLiveStatus"] == "ENABLED":
        found["TimeToLiveSpecification"] = {
            "AttributeName": ttl["AttributeName"],
            "Enabled": True,
        }
    if "StreamSpecification" in table:
        view = table["StreamSpecification"]["StreamViewType"]
        found["StreamSpecification"] = {"StreamViewType": view}
    if table.get("GlobalSecondaryIndexes"):
        found["GlobalSecondaryIndexes"] = [
            {name: index[name] for name in ("IndexName", "KeySchema", "Projection")}
            for index in table["GlobalSecondaryIndexes"]
        ]
    return comparable(found)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Reads CloudFormation's short forms as texts: `!GetAtt Records.Arn` as `Records.Arn`."""


_Loader.add_multi_constructor("!", lambda loader, _, node: loader.construct_scalar(node))


def test_the_cloudformation_listing_is_the_constructs_template(
    wanted: dict[str, Properties], constructs: Template
) -> None:
    """The YAML of the page has the tables of the constructs, kept on deletion, and their policies.

    Red when a property or an action of one of the two differs.
    """
    resources = yaml.load(listing("yaml"), _Loader)["Resources"]  # noqa: S506 -- derived from SafeLoader

    tables = {name: resources[logical_id] for name, logical_id in TABLES.items()}
    assert {name: comparable(each["Properties"]) for name, each in tables.items()} == wanted
    for each in tables.values():
        assert (each["DeletionPolicy"], each["UpdateReplacePolicy"]) == ("Retain", "Retain")
    for role in ("Handler", "Reconciler"):
        policy = resources[f"{role}Policy"]["Properties"]["PolicyDocument"]
        listed = {
            (action, _resource(each["Resource"]))
            for each in policy["Statement"]
            for action in _many(each["Action"])
        }
        assert listed == allowed(constructs, role)


def test_the_terraform_listing_is_the_constructs_template(
    wanted: dict[str, Properties], constructs: Template
) -> None:
    """The HCL of the page has the tables of the constructs, kept on deletion, and their policies.

    Red when an argument or an action of one of the two differs.
    """
    found = {block.labels: block for block in read_hcl(listing("hcl"))}

    tables = {name: found["aws_dynamodb_table", name] for name in TABLES}
    assert {name: _properties(table) for name, table in tables.items()} == wanted
    for name, table in tables.items():
        assert table.attributes["name"] == name
        assert table.one("lifecycle") == {"prevent_destroy": True}
    for role in ("Handler", "Reconciler"):
        listed = {
            (action, _resource(resource))
            for statement in found["aws_iam_policy_document", role.lower()].all("statement")
            for action in statement.attributes["actions"]
            for resource in statement.attributes["resources"]
        }
        assert listed == allowed(constructs, role)


def _properties(table: Block) -> Properties:
    given, ttl = table.attributes, table.one("ttl")
    properties: Properties = {
        "KeySchema": _keys(given),
        "AttributeDefinitions": {
            each.attributes["name"]: each.attributes["type"] for each in table.all("attribute")
        },
        "BillingMode": given["billing_mode"],
        "DeletionProtectionEnabled": given["deletion_protection_enabled"],
        "PointInTimeRecoverySpecification": {
            "PointInTimeRecoveryEnabled": table.one("point_in_time_recovery")["enabled"]
        },
    }
    if ttl:
        specification = {"AttributeName": ttl["attribute_name"], "Enabled": ttl["enabled"]}
        properties["TimeToLiveSpecification"] = specification
    if given.get("stream_enabled"):
        properties["StreamSpecification"] = {"StreamViewType": given["stream_view_type"]}
    indexes = [each.attributes for each in table.all("global_secondary_index")]
    if indexes:
        properties["GlobalSecondaryIndexes"] = [
            {
                "IndexName": index["name"],
                "KeySchema": _keys(index),
                "Projection": {"ProjectionType": index["projection_type"]},
            }
            for index in indexes
        ]
    return properties


def _keys(given: Properties) -> list[dict[str, str]]:
    pairs = (("hash_key", "HASH"), ("range_key", "RANGE"))
    return [
        {"AttributeName": given[name], "KeyType": kind} for name, kind in pairs if name in given
    ]


def allowed(constructs: Template, role: str) -> Allowed:
    """The pairs of action and resource that the constructs allow to `role`."""
    granted = grants(constructs, role)
    return {(action, _resource(named)) for actions, named in granted for action in actions}


def _resource(text: str) -> str:
    # Records.Arn, ${Records.Arn}/index/due, aws_dynamodb_table.records.arn: records, records/index.
    for name, logical_id in TABLES.items():
        prefix = "Messages" if name == "outbox" else logical_id
        if prefix in text or logical_id in text or f"aws_dynamodb_table.{name}." in text:
            return f"{name}/index/due" if text.endswith("/index/due") else name
    return text


def _many(actions: str | list[str]) -> list[str]:
    return [actions] if isinstance(actions, str) else actions


@pytest.mark.parametrize("name", TABLES)
def test_the_schema_of_the_library_is_that_of_the_constructs(
    name: str, wanted: dict[str, Properties]
) -> None:
    """A table that the library makes for tests has the schema of the constructs' table.

    Red when an attribute of one of the two is renamed.
    """
    own: schema.TableSchema = getattr(schema, {"records": "IDEMPOTENCY"}.get(name, name.upper()))
    request, ttl = own.create_request(name), own.ttl_request(name)
    stream = request.get("StreamSpecification")
    found = {
        **{key: request[key] for key in request if key != "TableName"},
        **({"TimeToLiveSpecification": ttl["TimeToLiveSpecification"]} if ttl else {}),
        **({"StreamSpecification": {"StreamViewType": stream["StreamViewType"]}} if stream else {}),
    }
    protected = {"DeletionProtectionEnabled", "PointInTimeRecoverySpecification"}

    assert comparable(found) == {k: v for k, v in wanted[name].items() if k not in protected}
