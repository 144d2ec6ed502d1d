"""The IAM actions that a request to the local store needs, and the resources."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from oncekey_local.functions.environment import dynamodb_arn, s3_arn, sqs_arn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp import web

Needed = tuple[str, str]
_ITEM_ACTIONS = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}
_OBJECT_ACTIONS = {
    "GET": "GetObject",
    "HEAD": "GetObject",
    "PUT": "PutObject",
    "POST": "PutObject",
    "DELETE": "DeleteObject",
}


def needed(request: web.BaseRequest, body: bytes) -> list[Needed]:
    """Each action and its ARN. Empty for a request that the store cannot read anyway.

    Nothing is asked of calls of a stream's records: on AWS, Lambda makes them.
    """
    service, _, operation = request.headers.get("X-Amz-Target", "").partition(".")
    if service == "":
        return [*_of_s3(request)]
    try:
        parameters = json.loads(body)
    except ValueError:
        return []
    if not isinstance(parameters, dict):
        return []
    if service == "AmazonSQS":
        return [*_of_sqs(operation, parameters)]
    return [*_of_dynamodb(operation, parameters)] if service == "DynamoDB_20120810" else []


def _of_dynamodb(operation: str, parameters: dict[str, Any]) -> Iterator[Needed]:
    """Transactions have no action of their own, and a batch needs its own for each table.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html
    """
    match operation, parameters:
        case "TransactWriteItems" | "TransactGetItems", {"TransactItems": [*several]}:
            for kind, item in (pair for one in several for pair in one.items()):
                yield _of_table(_ITEM_ACTIONS.get(kind, kind), item.get("TableName"))
        case "BatchGetItem" | "BatchWriteItem", {"RequestItems": dict(tables)}:
            for table in tables:
                yield _of_table(operation, table)
        case _, {"TableName": str(table), "IndexName": str(index)}:
            action, arn = _of_table(operation, table)
            yield action, f"{arn}/index/{index}"
        case _:
            yield _of_table(operation, parameters.get("TableName", "*"))


def _of_table(operation: str, table: object) -> Needed:
    name = str(table)
    return f"dynamodb:{operation}", name if name.startswith("arn:") else dynamodb_arn(name)


def _of_sqs(operation: str, parameters: dict[str, Any]) -> Iterator[Needed]:
    queue = parameters.get("QueueName") or str(parameters.get("QueueUrl", "*")).rpartition("/")[2]
    yield f"sqs:{operation.removesuffix('Batch')}", sqs_arn(queue)


def _of_s3(request: web.BaseRequest) -> Iterator[Needed]:
    bucket, _, key = unquote(request.path.removeprefix("/")).partition("/")
    query = request.rel_url.query
    if key:
        yield f"s3:{_OBJECT_ACTIONS.get(request.method, request.method)}", s3_arn(bucket, key)
        if source := request.headers.get("x-amz-copy-source"):
            yield "s3:GetObject", s3_arn(*unquote(source).removeprefix("/").split("/", 1))
    elif request.method == "POST" and "delete" in query:
        yield "s3:DeleteObject", s3_arn(bucket, "*")
    elif request.method in {"GET", "HEAD"}:
        yield "s3:ListBucket", s3_arn(bucket)
    else:
        yield f"s3:{request.method.title()}Bucket", s3_arn(bucket)
