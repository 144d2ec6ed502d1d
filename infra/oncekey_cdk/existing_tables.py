"""Checks whether an existing table has what the layer needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aws_cdk import Stack, Token
from aws_cdk import aws_dynamodb as dynamodb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_TYPES = {
    dynamodb.AttributeType.STRING: "S",
    dynamodb.AttributeType.NUMBER: "N",
    dynamodb.AttributeType.BINARY: "B",
}
Key = list[tuple[str, str]]
# The place of the Region in an ARN.
_REGION = 3
_READ = {
    "keySchema": "key_schema",
    "attributeDefinitions": "attribute_definitions",
    "timeToLiveSpecification": "time_to_live_specification",
    "globalSecondaryIndexes": "global_secondary_indexes",
    "streamSpecification": "stream_specification",
    "replicas": "replicas",
}


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What a table must have."""

    partition_key: dynamodb.Attribute
    sort_key: dynamodb.Attribute | None = None
    ttl_attribute: str | None = None
    indexes: Sequence[Mapping[str, Any]] = ()
    stream: bool = False


def existing_faults(
    table: dynamodb.ITable, needed: Schema, table_props: Mapping[str, Any], *, region: str
) -> Iterator[str]:
    """What `table` lacks for functions of this Region.

    Of a table of another app, only the Region and the stream can be checked.
    """
    if table_props:
        yield "table_props cannot change an existing table: leave them out"
    yield from region_faults(region_of(table), region, called="the existing table")
    written = _written(table)
    if written is None:
        if needed.stream and table.table_stream_arn is None:
            yield (
                "the stream of the existing table is not known: name it"
                " (Table.from_table_attributes(table_stream_arn=...))"
            )
        return
    types = {
        str(one.get("attributeName")): str(one.get("attributeType"))
        for one in _listed(written.get("attributeDefinitions"))
    }
    key = _key(_listed(written.get("keySchema")), types)
    wanted = _wanted(needed.partition_key, needed.sort_key)
    if key != wanted:
        yield f"the existing table has the key {_text(key)}, and {_text(wanted)} is needed"
    ttl = written.get("timeToLiveSpecification") or {}
    if needed.ttl_attribute and (
        ttl.get("attributeName") != needed.ttl_attribute or ttl.get("enabled") is False
    ):
        yield f"the existing table has no TTL on {needed.ttl_attribute}"
    if not needed.ttl_attribute and needed.stream and ttl.get("enabled"):
        yield "the existing table has TTL, which would delete messages that are not sent yet"
    yield from _index_faults(written, types, needed)
    view = (written.get("streamSpecification") or {}).get("streamViewType", "")
    is_streamed = "NEW" in str(view) if view else table.table_stream_arn is not None
    if needed.stream and not is_streamed:
        yield "the existing table has no stream with the new item"
    if len(_listed(written.get("replicas"))) > 1:
        yield "the existing table has replicas, but a condition sees one Region's copy only"


def region_of(table: dynamodb.ITable) -> str:
    """The Region of a table."""
    # The ARN of a table of this app has no parts before the deployment.
    parts = table.table_arn.split(":")
    return parts[_REGION] if len(parts) > _REGION else table.env.region


def region_faults(theirs: str, region: str, *, called: str) -> Iterator[str]:
    """The fault of a table in the Region `theirs` that functions of `region` would miss."""
    if theirs != region and not (Token.is_unresolved(theirs) or Token.is_unresolved(region)):
        yield (
            f"{called} is in {theirs}, but functions of this stack call DynamoDB in {region}: use a"
            " table of that Region"
        )


def _index_faults(
    written: Mapping[str, Any], types: Mapping[str, str], needed: Schema
) -> Iterator[str]:
    found = {
        one.get("indexName"): _key(_listed(one.get("keySchema")), types)
        for one in _listed(written.get("globalSecondaryIndexes"))
    }
    for index in needed.indexes:
        name, wanted = index["index_name"], _wanted(index["partition_key"], index.get("sort_key"))
        if name not in found:
            yield f"the existing table has no index {name} ({_text(wanted)})"
        elif found[name] != wanted:
            yield f"its index {name} has the key {_text(found[name])}, not {_text(wanted)}"


def _written(table: dynamodb.ITable) -> dict[str, Any] | None:
    """The properties of a table of this app; None for a table that is only referred to."""
    resource = table.node.default_child
    if not isinstance(resource, dynamodb.CfnTable | dynamodb.CfnGlobalTable):
        return None
    resolve = Stack.of(table).resolve
    return {name: resolve(_read(resource, attribute)) for name, attribute in _READ.items()}


def _read(resource: object, attribute: str) -> Any:
    try:
        return getattr(resource, attribute, None)
    except RuntimeError:
        # The CDK knows some properties of a `TableV2` only when it is synthesised.
        return None


def _listed(value: Any) -> list[dict[str, Any]]:
    found = value if isinstance(value, list) and not Token.is_unresolved(value) else []
    return [one for one in found if isinstance(one, dict)]


def _key(schema: list[dict[str, Any]], types: Mapping[str, str]) -> Key:
    names = [str(one.get("attributeName")) for one in schema]
    return [(name, types.get(name, "?")) for name in names]


def _wanted(partition: dynamodb.Attribute, sort: dynamodb.Attribute | None) -> Key:
    return [(one.name, _TYPES[one.type]) for one in (partition, sort) if one is not None]


def _text(key: Key) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in key)
