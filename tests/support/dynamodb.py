"""The idempotency table of the description and a response bucket, on moto in this process.

And what is sent to them.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3

from infra.service_resources import IDEMPOTENCY
from oncekey import DynamoDBStore
from oncekey.store.s3 import ResponseBucket
from oncekey_local.store.tables import create_table_request
from tests.support.aws_engine import mocked_aws
from tests.support.shared_clients import shared_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

TABLE = "idempotency-under-test"
BUCKET = "responses-under-test"


@contextlib.contextmanager
def dynamodb_table() -> Iterator[DynamoDBClient]:
    """A client of an empty idempotency table, for one thread (moto is not atomic between threads).

    The client validates every parameter, which the library's own one leaves out to save time.
    """
    with mocked_aws(), shared_client("dynamodb") as client:
        client.create_table(**create_table_request(TABLE, IDEMPOTENCY))
        yield client


def make_table(client: DynamoDBClient, name: str) -> None:
    """An empty table whose items have the key `id`, as Powertools' idempotency utility has one."""
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


def make_response_bucket() -> S3Client:
    """A client of an empty response bucket, which lives as long as the table beside it."""
    client: S3Client = boto3.client("s3", region_name="eu-central-1")
    client.create_bucket(
        Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    return client


def store_on(client: DynamoDBClient, bucket: S3Client | None = None) -> DynamoDBStore:
    """A store on the table, through `client`, and on the response bucket if `bucket` is given."""
    responses = None if bucket is None else ResponseBucket(BUCKET, client=bucket)
    return DynamoDBStore(TABLE, client=client, bucket=responses)


def items(client: DynamoDBClient) -> list[dict[str, Any]]:
    """Everything in the table."""
    return list(client.scan(TableName=TABLE)["Items"])


def item_size_bytes(item: dict[str, Any]) -> int:
    """How large DynamoDB counts an item, names included.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
    """
    return sum(len(name.encode()) + _value_size_bytes(value) for name, value in item.items())


def write_units(item: dict[str, Any]) -> int:
    """What a failed condition on this item costs: one unit for each KB that was begun."""
    return -(-item_size_bytes(item) // 1024)


def _value_size_bytes(value: dict[str, Any]) -> int:
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return len(content.encode())
        case "B":
            return len(bytes(content))
        case "N":
            # One byte for two digits, and one more.
            return -(-len(content) // 2) + 1
        case "M":
            return 3 + len(content) + item_size_bytes(content)
        case _:
            raise AssertionError(f"no attribute of ours has the type {kind}")


class Recorder:
    """The operations that clients send, in order, with their parameters."""

    def __init__(self, *clients: DynamoDBClient | S3Client | SQSClient) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        for client in clients:
            _on(client, "provide-client-params", "*", self._record)

    def _record(self, params: dict[str, Any], model: Any, **_: object) -> None:
        # What botocore adds to it afterwards is not the caller's.
        self.calls.append((model.name, dict(params)))

    @property
    def operations(self) -> list[str]:
        """Their names."""
        return [name for name, _ in self.calls]


class AnswerLost(Exception):
    """The connection broke after the request was applied."""


class LossyTransport:
    """Applies requests and then drops the answers, or refuses requests before they are applied.

    `lose` and `refuse` name how many of the next calls of an operation that befalls.
    """

    def __init__(self, *clients: DynamoDBClient | S3Client) -> None:
        self._lose: dict[str, int] = {}
        self._refuse: dict[str, int] = {}
        for client in clients:
            _on(client, "before-call", "*", self._before)
            _on(client, "after-call", "*", self._after)

    def lose(self, operation: str, count: int = 1) -> None:
        """Apply the next `count` calls of `operation` and drop their answers."""
        self._lose[operation] = count

    def refuse(self, operation: str, count: int = 1) -> None:
        """Drop the next `count` calls of `operation` before they are applied."""
        self._refuse[operation] = count

    def _before(self, model: Any, **_: object) -> None:
        if self._take(self._refuse, model.name):
            raise ConnectionError("no route to the store")

    def _after(self, model: Any, **_: object) -> None:
        if self._take(self._lose, model.name):
            raise AnswerLost

    @staticmethod
    def _take(counts: dict[str, int], operation: str) -> bool:
        left = counts.get(operation, 0)
        counts[operation] = max(0, left - 1)
        return left > 0


def deny(client: DynamoDBClient | S3Client, operation: str) -> None:
    """From now on, every call of `operation` is refused for want of a permission."""
    error = {
        "Error": {"Code": "AccessDenied", "Message": "not authorized"},
        "ResponseMetadata": {"HTTPStatusCode": 403},
    }
    answer = (SimpleNamespace(status_code=403), error)
    _on(client, "before-call", operation, lambda **_: answer)


def _on(
    client: DynamoDBClient | S3Client | SQSClient, moment: str, operation: str, call: Any
) -> None:
    service = client.meta.service_model.service_id.hyphenize()
    client.meta.events.register(f"{moment}.{service}.{operation}", call)
