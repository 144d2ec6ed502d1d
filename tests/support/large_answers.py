"""A handler that gives answers of any size, on a table and a bucket that can be looked into."""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.dynamodb import BUCKET, TABLE, items, store_on
from tests.support.events import load
from tests.support.protected import Answer, Protected

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

POST = load("apigw_http_v2_post")
KB = 1024
SIZES = [512, KB, 20 * KB, 390 * KB, 500 * KB, 5 * KB * KB]
PRINTABLE = [chr(code) for code in range(32, 127)]
MULTI_BYTE = [chr(code) for code in range(0x4E00, 0x9FFF)]


def text_of(alphabet: list[str], length: int) -> str:
    """Letters that hardly compress, the same ones each time."""
    return "".join(random.Random(length).choices(alphabet, k=length))  # noqa: S311 -- no secret


def body_of(kind: str, size: int) -> str:
    """A body of so many bytes, of text that compresses well or hardly, or of bytes in base64."""
    match kind:
        case "repetitive":
            return ("a payment was made; " * (size // 20 + 1))[:size]
        case "random":
            return text_of(PRINTABLE, size)
        case "multi-byte":
            return text_of(MULTI_BYTE, size // 3)
        case _:
            data = random.Random(size).randbytes(size * 3 // 4)  # noqa: S311 -- no secret
            return base64.b64encode(data).decode()


KINDS = ["repetitive", "random", "multi-byte", "base64"]
# No compression gets these below what an item holds.
TOO_LARGE_FOR_AN_ITEM = body_of("random", 600 * KB)
LARGE = body_of("random", 20 * KB)


@dataclass(frozen=True)
class World:
    """A table, a bucket, and a handler that answers with a given body."""

    table: DynamoDBClient
    bucket: S3Client
    service: Protected

    def answers(self, body: str, *, is_base64: bool = False) -> Answer:
        """From now on the handler answers so."""
        answer = {
            "statusCode": 201,
            "headers": {"Content-Type": "application/json", "Location": "/payments/1"},
            "cookies": ["a=1; Path=/", "b=2"],
            "body": body,
            "isBase64Encoded": is_base64,
        }
        self.service.then = lambda _event, _op: dict(answer)
        return answer

    def record(self) -> dict[str, Any]:
        """The item of the only record."""
        (item,) = [item for item in items(self.table) if "status" in item]
        return item

    def companion(self) -> dict[str, Any]:
        """The item that is kept beside it."""
        (item,) = [item for item in items(self.table) if "status" not in item]
        return item

    def forget(self) -> None:
        """Empty the table."""
        for item in items(self.table):
            self.table.delete_item(TableName=TABLE, Key={"pk": item["pk"]})

    def objects(self) -> list[str]:
        """The names of the objects in the bucket."""
        return [found["Key"] for found in self.bucket.list_objects_v2(Bucket=BUCKET)["Contents"]]


def world_on(table: DynamoDBClient, bucket: S3Client, *, has_bucket: bool = True) -> World:
    """A handler on these."""
    store = store_on(table, bucket if has_bucket else None)
    # The store thinks of the client's own long time-outs; nothing takes time here.
    store._call_timeout_ms = 0
    service = Protected(store=store, replay_headers={"Set-Cookie": True})
    return World(table=table, bucket=bucket, service=service)


def place_of(record: dict[str, Any]) -> str:
    """Where a record's answer is: in it as text, in it compressed, in an item, in an object."""
    ((kind, content),) = record["response"].items()
    return {"S": "text", "B": "compressed"}.get(kind) or str(content["place"]["S"])


def without_headers(answer: Answer) -> Answer:
    """The other fields."""
    return {name: value for name, value in answer.items() if name != "headers"}
