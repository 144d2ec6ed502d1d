"""What is deployed next can be deployed over what was released."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from infra.released_tables import RELEASED, tables_of, update_faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.templates import Synthesised

Tables = dict[str, Any]
TABLE = "IdempotencyTable22A5A209"
OTHER_INDEX = {
    "IndexName": "by_operation",
    "KeySchema": [{"AttributeName": "due_shard", "KeyType": "HASH"}],
    "Projection": {"ProjectionType": "KEYS_ONLY"},
}


def released() -> Tables:
    """The tables of the last release."""
    tables: Tables = json.loads(RELEASED.read_text("utf-8"))
    return tables


@pytest.mark.case(47)
@pytest.mark.case(48)
def test_the_present_tables_can_be_deployed_over_the_released_ones(production: Synthesised) -> None:
    """Between the released templates and these no key, no TTL attribute and no logical id differs,
    and no more than one index of a table.

    Red when the description renames the TTL attribute, or adds a second index to a released table.
    """
    assert update_faults(released(), tables_of(production.stateful.to_json())) == []


def without_due(table: Any) -> None:
    """Remove the only index."""
    del table["GlobalSecondaryIndexes"]


def another_index(table: Any) -> None:
    """Add a second index."""
    table["GlobalSecondaryIndexes"].append(OTHER_INDEX)


def other_index(table: Any) -> None:
    """Put another index in the place of the only one."""
    table["GlobalSecondaryIndexes"] = [OTHER_INDEX]


def other_projection(table: Any) -> None:
    """Let the index hold everything."""
    table["GlobalSecondaryIndexes"][0]["Projection"] = {"ProjectionType": "ALL"}


def other_type(table: Any) -> None:
    """Sort the index by text."""
    table["AttributeDefinitions"][2]["AttributeType"] = "S"


def other_key(table: Any) -> None:
    """Give items a sort key."""
    table["KeySchema"].append({"AttributeName": "due_shard", "KeyType": "RANGE"})


def other_ttl(table: Any) -> None:
    """Rename the TTL attribute."""
    table["TimeToLiveSpecification"]["AttributeName"] = "ttl"


def without_ttl(table: Any) -> None:
    """Say nothing of TTL any more."""
    del table["TimeToLiveSpecification"]


def ttl_off(table: Any) -> None:
    """Switch TTL off under its attribute."""
    table["TimeToLiveSpecification"]["Enabled"] = False


def named(table: Any) -> None:
    """Give the table a physical name."""
    table["TableName"] = "records"


@pytest.mark.case(47)
@pytest.mark.case(48)
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (other_index, "'due' is removed, 'by_operation' is added: DynamoDB takes one in an update"),
        (other_projection, "'due' is another one: DynamoDB changes no index in place"),
        (other_type, "'due' is another one"),
        (other_key, "keys are frozen"),
        (other_ttl, "TTL is frozen on 'expires_at': DynamoDB refuses to rename it in one update"),
        (without_ttl, "TTL is frozen on 'expires_at'"),
        (named, "a physical name cannot be changed"),
    ],
)
def test_what_dynamodb_refuses_is_told_before(
    change: Callable[[Any], None], complaint: str
) -> None:
    """Two changes of indexes, another key, TTL attribute or name are found in the templates.

    Red when any of these changes is let through to a deployment, which would stop half way.
    """
    present = copy.deepcopy(released())
    change(present[TABLE])

    (fault,) = update_faults(released(), present)

    assert fault.startswith(f"{TABLE}: ")
    assert complaint in fault


@pytest.mark.case(47)
def test_a_table_that_is_gone_is_told_before() -> None:
    """A table under another logical id is an empty table beside the retained one.

    Red when tables are compared by anything but their logical ids.
    """
    present = copy.deepcopy(released())
    present["Renamed"] = present.pop(TABLE)

    (fault,) = update_faults(released(), present)

    assert "it is gone, or has another logical id" in fault


@pytest.mark.case(47)
@pytest.mark.parametrize("change", [without_due, another_index, ttl_off])
def test_one_step_at_a_time_is_possible(change: Callable[[Any], None]) -> None:
    """One index more or less, or TTL switched off, is an update that DynamoDB takes; so is a table
    more.

    Red when the rule refuses what can be deployed.
    """
    present = copy.deepcopy(released())
    change(present[TABLE])
    present["New"] = present[TABLE]

    assert update_faults(released(), present) == []
