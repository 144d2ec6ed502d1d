"""Creates the description's tables in the local store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.store.dynamodb.schema import AUDIT
from oncekey_local.functions.environment import audit_table_name, table_name

if TYPE_CHECKING:
    from oncekey_local.description import Attribute, Index, Service, Table
    from oncekey_local.store.client import StoreClient


async def create_tables(client: StoreClient, service: Service) -> None:
    """Returns when every table exists, with its indexes, its stream and its TTL.

    Raises `Refused` if the store refuses one.
    """
    for table in service.tables:
        name = table_name(service, table.name)
        await client.dynamodb("CreateTable", create_table_request(name, table))
        if table.ttl_attribute:
            specification = {"AttributeName": table.ttl_attribute, "Enabled": True}
            request = {"TableName": name, "TimeToLiveSpecification": specification}
            await client.dynamodb("UpdateTimeToLive", request)


async def create_audit_table(client: StoreClient, service: Service) -> None:
    """Returns when the table of the operators' actions exists.

    Raises `Refused` if the store refuses it.
    """
    await client.dynamodb("CreateTable", AUDIT.create_request(audit_table_name(service)))


def create_table_request(name: str, table: Table) -> dict[str, Any]:
    """The `CreateTable` request of an on-demand table."""
    keyed: tuple[Table | Index, ...] = (table, *table.indexes)
    keys = [key for each in keyed for key in (each.partition_key, each.sort_key) if key]
    types = {key.name: key.type for key in keys}
    request: dict[str, Any] = {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": _key_schema(table.partition_key, table.sort_key),
        "AttributeDefinitions": [
            {"AttributeName": attribute, "AttributeType": kind} for attribute, kind in types.items()
        ],
    }
    if table.indexes:
        request["GlobalSecondaryIndexes"] = [_index(index) for index in table.indexes]
    if table.stream:
        request["StreamSpecification"] = {
            "StreamEnabled": True,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        }
    return request


def _index(index: Index) -> dict[str, Any]:
    return {
        "IndexName": index.name,
        "KeySchema": _key_schema(index.partition_key, index.sort_key),
        "Projection": {"ProjectionType": "ALL" if index.all_attributes else "KEYS_ONLY"},
    }


def _key_schema(
    partition_key: Attribute, sort_key: Attribute | None = None
) -> list[dict[str, str]]:
    schema = [{"AttributeName": partition_key.name, "KeyType": "HASH"}]
    if sort_key:
        schema.append({"AttributeName": sort_key.name, "KeyType": "RANGE"})
    return schema
