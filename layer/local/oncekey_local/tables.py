"""Creates the description's tables in the local store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from oncekey_local.authorization import authorization
from oncekey_local.environment import table_name
from oncekey_local.processes import StartFailed

if TYPE_CHECKING:
    import aiohttp

    from oncekey_local.description import Attribute, Index, Service, Table


async def create_tables(session: aiohttp.ClientSession, store_url: str, service: Service) -> None:
    """Returns when every table exists, with its indexes and its TTL.

    Raises `StartFailed` if the store refuses one.
    """
    for table in service.tables:
        name = table_name(service, table.name)
        await _call(session, store_url, "CreateTable", create_table_request(name, table))
        if table.ttl_attribute:
            specification = {"AttributeName": table.ttl_attribute, "Enabled": True}
            request = {"TableName": name, "TimeToLiveSpecification": specification}
            await _call(session, store_url, "UpdateTimeToLive", request)


def create_table_request(name: str, table: Table) -> dict[str, Any]:
    """The `CreateTable` request of an on-demand table."""
    keys = [table.partition_key]
    for index in table.indexes:
        keys += [key for key in (index.partition_key, index.sort_key) if key]
    types = {key.name: key.type for key in keys}
    request: dict[str, Any] = {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": _key_schema(table.partition_key),
        "AttributeDefinitions": [
            {"AttributeName": attribute, "AttributeType": kind} for attribute, kind in types.items()
        ],
    }
    if table.indexes:
        request["GlobalSecondaryIndexes"] = [_index(index) for index in table.indexes]
    return request


def _index(index: Index) -> dict[str, Any]:
    return {
        "IndexName": index.name,
        "KeySchema": _key_schema(index.partition_key, index.sort_key),
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }


def _key_schema(
    partition_key: Attribute, sort_key: Attribute | None = None
) -> list[dict[str, str]]:
    schema = [{"AttributeName": partition_key.name, "KeyType": "HASH"}]
    if sort_key:
        schema.append({"AttributeName": sort_key.name, "KeyType": "RANGE"})
    return schema


async def _call(
    session: aiohttp.ClientSession, url: str, action: str, request: dict[str, Any]
) -> None:
    headers = {
        "X-Amz-Target": f"DynamoDB_20120810.{action}",
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": authorization("dynamodb"),
    }
    async with session.post(url, data=json.dumps(request), headers=headers) as response:
        if response.status != 200:
            raise StartFailed(
                f"the store refused {action} {request['TableName']}: {await response.text()}"
            )
