"""What the functions of a service may ask of the local store."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from aiohttp.test_utils import make_mocked_request
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import ClientError

from oncekey_local.description import (
    Allow,
    Attribute,
    Bucket,
    BucketName,
    Function,
    Index,
    Queue,
    QueueTrigger,
    Service,
    Table,
    TableName,
    outbox_table,
    records_table,
)
from oncekey_local.functions.environment import queue_url
from oncekey_local.store.permissions import Permissions, permissions_of

URL = "http://127.0.0.1:1"
SERVICE = Service(
    name="shop",
    functions=(
        Function(name="nothing", handler="shop.nothing", timeout_s=1),
        Function(
            name="place",
            handler="shop.place",
            timeout_s=1,
            environment={
                "ONCEKEY_TABLE": TableName("records"),
                "ONCEKEY_RESPONSE_BUCKET": BucketName("answers"),
            },
            reserves_in="records",
            writes=("orders", "outbox"),
            keeps_answers_in="answers",
            sends_to=("work",),
        ),
        Function(
            name="worker",
            handler="shop.worker",
            timeout_s=1,
            queues=(QueueTrigger(queue="work"),),
            queries=("orders",),
            checks=("orders",),
            allows=(
                Allow(actions=("dynamodb:BatchGetItem",), on=TableName("orders")),
                Allow(actions=("s3:PutObject",), on=BucketName("files"), objects="reports/"),
            ),
        ),
        Function(name="relay", handler="shop.relay", timeout_s=1, relays_from="outbox"),
        Function(name="visits", handler="shop.visits", timeout_s=1, reconciles="records"),
    ),
    tables=(
        records_table("records"),
        outbox_table("outbox"),
        Table(
            name="orders",
            partition_key=Attribute(name="pk"),
            indexes=(Index(name="by-day", partition_key=Attribute(name="day")),),
        ),
    ),
    buckets=(Bucket(name="answers"), Bucket(name="files")),
    queues=(Queue(name="work"),),
)
ORDERS, RECORDS, OUTBOX = (f"shop-local-{name}" for name in ("orders", "records", "outbox"))
ANSWERS, FILES = "shop-local-answers", "shop-local-files"
WORK = queue_url(SERVICE, "work", URL)
KEY = {"pk": {"S": "1"}}
PUT = {"Put": {"TableName": ORDERS, "Item": KEY}}
CHECK = {"ConditionCheck": {"TableName": ORDERS, "Key": KEY, "ConditionExpression": "a = b"}}
SENT = {"QueueUrl": WORK, "MessageBody": "hello"}


def ask(access_key: str, service: str, call: str, **parameters: Any) -> tuple[str, str] | None:
    """The code and the message that a call of boto3 is refused with, if it is."""
    permissions = Permissions()
    permissions.tell(permissions_of(SERVICE))
    client = boto3.client(
        service,  # type: ignore[call-overload]
        endpoint_url=URL,
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key="local",
        config=Config(parameter_validation=False),
    )
    refused: list[str] = []

    def answer(request: Any, **_: Any) -> AWSResponse:
        address = urlsplit(request.url)
        headers = {
            name: value.decode() if isinstance(value, bytes) else str(value)
            for name, value in request.headers.items()
        }
        sent = make_mocked_request(
            request.method, address._replace(scheme="", netloc="").geturl(), headers
        )
        body = request.body if isinstance(request.body, bytes) else b""
        refusal = permissions.refusal(sent, body)
        if refusal is None:
            return _response(request.url, 200, {}, b"{}" if "X-Amz-Target" in headers else b"")
        response, line = refusal
        refused.append(line)
        assert isinstance(response.body, bytes)
        return _response(request.url, response.status, dict(response.headers), response.body)

    client.meta.events.register("before-send", answer)
    with contextlib.suppress(KeyError):  # of an empty answer of S3
        try:
            getattr(client, call)(**parameters)
        except ClientError as error:
            (line,) = refused
            assert line.startswith("AccessDenied: ")
            return error.response["Error"]["Code"], error.response["Error"]["Message"]
    assert not refused
    return None


def _response(url: str, status: int, headers: dict[str, str], body: bytes) -> AWSResponse:
    class Raw:
        def stream(self) -> Any:
            return iter([body])

    return AWSResponse(url, status, HTTPHeaders.from_dict(headers), Raw())


ALLOWED: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "an item that a function writes": ("place", "dynamodb", "put_item", PUT["Put"]),
    "a record that it reserves": (
        "place", "dynamodb", "update_item", {"TableName": RECORDS, "Key": KEY},
    ),
    "a transaction": ("place", "dynamodb", "transact_write_items", {"TransactItems": [PUT]}),
    "a condition in a transaction": (
        "worker", "dynamodb", "transact_write_items", {"TransactItems": [CHECK]},
    ),
    "a query of a table": ("worker", "dynamodb", "query", {"TableName": ORDERS}),
    "a query of an index": (
        "worker", "dynamodb", "query", {"TableName": ORDERS, "IndexName": "by-day"},
    ),
    "what is due": ("visits", "dynamodb", "query", {"TableName": RECORDS, "IndexName": "due"}),
    "an action that no field has": (
        "worker", "dynamodb", "batch_get_item", {"RequestItems": {ORDERS: {"Keys": [KEY]}}},
    ),
    "the relay's deletes": (
        "relay", "dynamodb", "batch_write_item",
        {"RequestItems": {OUTBOX: [{"DeleteRequest": {"Key": {"id": {"S": "1"}}}}]}},
    ),
    "messages": ("place", "sqs", "send_message_batch", {"QueueUrl": WORK, "Entries": []}),
    "a delay": (
        "worker", "sqs", "change_message_visibility",
        {"QueueUrl": WORK, "ReceiptHandle": "r", "VisibilityTimeout": 1},
    ),
    "an answer": ("place", "s3", "put_object", {"Bucket": ANSWERS, "Key": "answers/1"}),
    "a list of a bucket": ("place", "s3", "list_objects_v2", {"Bucket": ANSWERS}),
    "an object of a folder": (
        "worker", "s3", "put_object", {"Bucket": FILES, "Key": "reports/1 a.csv"},
    ),
    "all that others do": ("", "dynamodb", "delete_table", {"TableName": ORDERS}),
}  # fmt: skip
REFUSED: dict[str, tuple[str, str, str, dict[str, Any], str]] = {
    "an item that it may not read": (
        "place", "dynamodb", "get_item", {"TableName": ORDERS, "Key": KEY}, 'reads=("orders",)',
    ),
    "an item of a transaction": (
        "worker", "dynamodb", "transact_write_items", {"TransactItems": [CHECK, PUT]},
        'writes=("orders",)',
    ),
    "an update": (
        "nothing", "dynamodb", "update_item", {"TableName": ORDERS, "Key": KEY},
        'updates=("orders",)',
    ),
    "a delete": (
        "nothing", "dynamodb", "delete_item", {"TableName": ORDERS, "Key": KEY},
        'deletes=("orders",)',
    ),
    "a scan": ("worker", "dynamodb", "scan", {"TableName": ORDERS}, 'scans=("orders",)'),
    "a query": (
        "place", "dynamodb", "query", {"TableName": ORDERS, "IndexName": "by-day"},
        'queries=("orders",)',
    ),
    "a condition in a transaction": (
        "place", "dynamodb", "transact_write_items", {"TransactItems": [CHECK]},
        'checks=("orders",)',
    ),
    "a reserve": (
        "worker", "dynamodb", "put_item", {"TableName": RECORDS, "Item": KEY},
        'reserves_in="records"',
    ),
    "what is due": (
        "place", "dynamodb", "query", {"TableName": RECORDS, "IndexName": "due"},
        'reconciles="records"',
    ),
    "a message that it may not publish": (
        "relay", "dynamodb", "put_item", {"TableName": OUTBOX, "Item": KEY}, 'writes=("outbox",)',
    ),
    "the relay's deletes": (
        "place", "dynamodb", "batch_write_item", {"RequestItems": {OUTBOX: []}},
        'relays_from="outbox"',
    ),
    "a batch": (
        "place", "dynamodb", "batch_get_item", {"RequestItems": {ORDERS: {"Keys": [KEY]}}},
        'allows=(Allow(actions=("dynamodb:BatchGetItem",), on=TableName("orders")),)',
    ),
    "a message that it may not send": ("worker", "sqs", "send_message", SENT, 'sends_to=("work",)'),
    "a message that it may not receive": (
        "place", "sqs", "receive_message", {"QueueUrl": WORK},
        'queues=(QueueTrigger(queue="work"),)',
    ),
    "an answer": (
        "worker", "s3", "get_object", {"Bucket": ANSWERS, "Key": "answers/1"},
        'keeps_answers_in="answers"',
    ),
    "an object of another folder": (
        "worker", "s3", "put_object", {"Bucket": FILES, "Key": "private/1"},
        'allows=(Allow(actions=("s3:PutObject",), on=BucketName("files"), objects=""),)',
    ),
    "a table that is not described": (
        "place", "dynamodb", "get_item", {"TableName": "shop-local-oders", "Key": KEY},
        "The description has no such table, index, bucket or queue.",
    ),
}  # fmt: skip


def key_of(function: str) -> str:
    """What the function signs with; without a name, that of everybody else."""
    return f"local-{function}" if function else "local"


@pytest.mark.parametrize("what", ALLOWED)
def test_what_the_description_grants_is_allowed(what: str) -> None:
    """A function may do what its description grants, and all others may do everything."""
    function, service, call, parameters = ALLOWED[what]

    assert ask(key_of(function), service, call, **parameters) is None


@pytest.mark.parametrize("what", REFUSED)
def test_a_call_without_a_grant_is_refused_as_on_aws(what: str) -> None:
    """A function that calls what its description does not grant gets AWS's error, and the message
    names the function and the field to add.
    """
    function, service, call, parameters, remedy = REFUSED[what]

    refusal = ask(key_of(function), service, call, **parameters)

    assert refusal is not None
    code, message = refusal
    assert code == ("AccessDeniedException" if service == "dynamodb" else "AccessDenied")
    assert f"User: arn:aws:sts::123456789012:assumed-role/shop-local-{function}" in message
    assert "because no identity-based policy allows the " in message
    assert remedy in message
    if not remedy.startswith("The "):
        assert f'give Function(name="{function}") ' in message


def test_a_refusal_of_a_queue_names_its_resource() -> None:
    """The message names the action and the ARN, as AWS does."""
    refusal = ask("local-worker", "sqs", "send_message", **SENT)

    assert refusal is not None
    arn = "arn:aws:sqs:us-east-1:123456789012:shop-local-work"
    assert f"not authorized to perform: sqs:SendMessage on resource: {arn}" in refusal[1]
