"""The tables of the stateful stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aws_cdk.assertions import Match

from infra.service import SERVICE

if TYPE_CHECKING:
    from oncekey_local.description import Table
    from tests.support.templates import Synthesised

KIND = "AWS::DynamoDB::Table"


@pytest.mark.case(48)
def test_the_ttl_attribute_is_frozen(app: Synthesised) -> None:
    """The idempotency table expires on `expires_at`, for ever: it cannot be renamed in place.

    Red when the description gives the attribute another name or none, or the stack drops it.
    """
    app.stateful.has_resource_properties(
        KIND, {"TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True}}
    )
    assert "TimeToLiveSpecification" not in app.table("payments")["Properties"]


def test_the_due_index_is_there_from_the_first_release(app: Synthesised) -> None:
    """The index `due` is keyed by shard and time and holds the keys only."""
    properties = app.table("idempotency")["Properties"]

    assert properties["GlobalSecondaryIndexes"] == [
        {
            "IndexName": "due",
            "KeySchema": [
                {"AttributeName": "due_shard", "KeyType": "HASH"},
                {"AttributeName": "due_at", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
    ]
    assert {"AttributeName": "due_shard", "AttributeType": "S"} in properties[
        "AttributeDefinitions"
    ]
    assert {"AttributeName": "due_at", "AttributeType": "N"} in properties["AttributeDefinitions"]


@pytest.mark.parametrize("table", SERVICE.tables, ids=lambda table: table.name)
def test_every_table_is_on_demand_and_recoverable(app: Synthesised, table: Table) -> None:
    """A table pays per request, can be restored to any second, and is keyed as described."""
    properties = app.table(table.name)["Properties"]

    assert properties["BillingMode"] == "PAY_PER_REQUEST"
    assert properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
    assert properties["KeySchema"] == [
        {"AttributeName": table.partition_key.name, "KeyType": "HASH"}
    ]


def test_the_tables_are_those_of_the_description(app: Synthesised) -> None:
    """One plain table stands for each described one, beside the audit table; no global table."""
    app.stateful.resource_count_is(KIND, len(SERVICE.tables) + 1)
    app.stateful.resource_count_is("AWS::DynamoDB::GlobalTable", 0)
    app.service.resource_count_is(KIND, 0)


def test_nothing_has_a_fixed_physical_name(app: Synthesised) -> None:
    """No table, function, role or log group has a name that would block a second deployment."""
    named = {
        KIND: "TableName",
        "AWS::Lambda::Function": "FunctionName",
        "AWS::Lambda::LayerVersion": "LayerName",
        "AWS::IAM::Role": "RoleName",
        "AWS::Logs::LogGroup": "LogGroupName",
    }
    for kind, name in named.items():
        assert app.resources(kind), f"no {kind} was synthesised"
        assert [one for one in app.properties(kind) if name in one] == []


def test_production_keeps_its_data(production: Synthesised) -> None:
    """In production a table outlives its stack and refuses its own deletion."""
    production.stateful.all_resources(
        KIND, {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}
    )
    production.stateful.all_resources_properties(KIND, {"DeletionProtectionEnabled": True})


def test_other_stages_leave_nothing_behind(dev: Synthesised) -> None:
    """Outside production a deleted stack takes its tables along."""
    dev.stateful.all_resources(KIND, {"DeletionPolicy": "Delete", "UpdateReplacePolicy": "Delete"})
    dev.stateful.all_resources_properties(
        KIND, {"DeletionProtectionEnabled": Match.not_(Match.exact(True))}
    )


def test_the_table_names_are_outputs(app: Synthesised) -> None:
    """Whoever deployed finds each table's name in the outputs."""
    outputs = app.stateful.find_outputs("*")

    assert {"IdempotencyTableName", "PaymentsTableName"} <= set(outputs)
