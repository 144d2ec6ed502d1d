"""Finds changes of tables that DynamoDB refuses in one update, or that give an empty table.

Before a release, `python -m infra.released_tables` writes its tables to a file. A test compares
later changes with that file.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.environments import (
    EXAMPLE_ACCOUNT,
    EXAMPLE_AUDIENCE,
    EXAMPLE_ISSUER,
    EXAMPLE_REGION,
    Stage,
)
from infra.node import use_packaged_node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RELEASED = Path(__file__).resolve().parent.parent / "tests" / "infra" / "released" / "tables.json"
_TABLE = "AWS::DynamoDB::Table"
# The properties that decide whether an update is possible.
_KEPT = (
    "KeySchema",
    "AttributeDefinitions",
    "GlobalSecondaryIndexes",
    "LocalSecondaryIndexes",
    "TimeToLiveSpecification",
    "StreamSpecification",
    "TableName",
)
_REPLACING = {"TableName": "a physical name", "LocalSecondaryIndexes": "local indexes"}
_PRODUCTION = {
    "stage": Stage.PRODUCTION.value,
    "jwt_issuer": EXAMPLE_ISSUER,
    "jwt_audience": EXAMPLE_AUDIENCE,
    "account": EXAMPLE_ACCOUNT,
    "region": EXAMPLE_REGION,
}

Template = dict[str, Any]
Tables = dict[str, Template]


def tables_of(template: Mapping[str, Any]) -> Tables:
    """The tables of a template by their logical ids, with the properties that updates depend on."""
    return {
        logical_id: {
            name: resource["Properties"][name] for name in _KEPT if name in resource["Properties"]
        }
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == _TABLE
    }


def update_faults(released: Tables, present: Tables) -> list[str]:
    """Why a deployment of `present` over `released` would fail in the middle or lose data.

    The list is empty if it would not. New tables are no fault.
    """
    return [
        f"{logical_id}: {fault}"
        for logical_id, table in released.items()
        for fault in _faults(table, present.get(logical_id))
    ]


def _faults(old: Template, new: Template | None) -> Iterator[str]:
    if new is None:
        yield (
            "it is gone, or has another logical id: a retained table is left behind and an empty"
            " one takes its place; move its data first, or keep the id"
        )
        return
    if _keys(old, old) != _keys(new, new):
        yield "another key replaces the table by an empty one; keys are frozen"
    for name, what in _REPLACING.items():
        if old.get(name) != new.get(name):
            yield f"{what} cannot be changed: the table would be replaced by an empty one"
    yield from _ttl_faults(old.get("TimeToLiveSpecification"), new.get("TimeToLiveSpecification"))
    yield from _index_faults(_indexes(old), _indexes(new))


def _ttl_faults(old: Template | None, new: Template | None) -> Iterator[str]:
    if old is None or not old.get("Enabled"):
        return
    if new is None or new.get("AttributeName") != old["AttributeName"]:
        yield (
            f"TTL is frozen on {old['AttributeName']!r}: DynamoDB refuses to rename it in one"
            " update, and takes one change an hour. In two releases: first switch it off (Enabled:"
            " false, the same attribute), then on with the other one, which records must carry"
        )


def _index_faults(old: Mapping[str, Template], new: Mapping[str, Template]) -> Iterator[str]:
    # An index with another key or projection under its old name is deleted and created.
    changes = [
        *(f"{name!r} is removed" for name in old if name not in new),
        *(f"{name!r} is added" for name in new if name not in old),
        *(f"{name!r} is another one" for name in old if name in new and old[name] != new[name]),
    ]
    if any(change.endswith("another one") for change in changes):
        yield (
            f"index {', '.join(changes)}: DynamoDB changes no index in place; add one under a new"
            " name, and remove this one in a later release"
        )
    elif len(changes) > 1:
        yield f"index {', '.join(changes)}: DynamoDB takes one in an update; one for each release"


def _indexes(table: Template) -> dict[str, Template]:
    return {
        index["IndexName"]: {"keys": _keys(table, index), "projection": index["Projection"]}
        for index in table.get("GlobalSecondaryIndexes", [])
    }


def _keys(table: Template, of: Template) -> list[tuple[str, str, str]]:
    """The keys of `table` itself or of one of its indexes, with their types."""
    types = {one["AttributeName"]: one["AttributeType"] for one in table["AttributeDefinitions"]}
    return [
        (key["AttributeName"], key["KeyType"], types[key["AttributeName"]])
        for key in of["KeySchema"]
    ]


def main() -> None:
    """Write the tables of this release to the file, unless they cannot follow the last release."""
    use_packaged_node()
    from infra.composition import compose  # noqa: PLC0415 -- the CDK starts node

    with tempfile.TemporaryDirectory() as folder:
        assembly = compose(context=_PRODUCTION, outdir=folder).synth()
        (stateful,) = [one for one in assembly.stacks if one.stack_name.endswith("-stateful")]
        present = tables_of(stateful.template)
    if RELEASED.exists():
        faults = update_faults(json.loads(RELEASED.read_text("utf-8")), present)
        if faults:
            sys.exit("infra.released_tables: " + "; ".join(faults))
    RELEASED.parent.mkdir(parents=True, exist_ok=True)
    RELEASED.write_text(json.dumps(present, indent=2, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
