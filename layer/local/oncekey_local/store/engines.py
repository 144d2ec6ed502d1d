"""The engines behind the local store, and which of them a request is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from aiohttp import web

# Every request of a JSON protocol has it, and none of S3.
_TARGET = "X-Amz-Target"
# A receive changes a queue, too. But whoever loses the answer of one has lost nothing: the message
# comes again. And queues are polled all the time: of so many lost answers, no other would be one.
_WRITES = frozenset(
    {
        "PutItem",
        "UpdateItem",
        "DeleteItem",
        "TransactWriteItems",
        "BatchWriteItem",
        "SendMessage",
        "SendMessageBatch",
        "DeleteMessage",
        "DeleteMessageBatch",
        "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch",
        "PurgeQueue",
    }
)
_S3_WRITES = frozenset({"PUT", "POST", "DELETE"})


@dataclass(frozen=True, kw_only=True)
class Engines:
    """One application for each service."""

    dynamodb: WSGIApplication
    streams: WSGIApplication
    sqs: WSGIApplication
    s3: WSGIApplication

    def of(self, request: web.BaseRequest) -> WSGIApplication:
        """The one that this request is for."""
        match _target(request).partition(".")[0]:
            case "":
                return self.s3
            case "AmazonSQS":
                return self.sqs
            case "DynamoDBStreams_20120810":
                return self.streams
            case _:
                return self.dynamodb


def moto_engines() -> Engines:
    """The engines of moto, with what is wrong with them repaired."""
    from moto.moto_server.werkzeug_app import create_backend_app  # noqa: PLC0415 - takes most of a second

    from oncekey_local.store import moto_repairs  # noqa: PLC0415 - imports moto as well

    moto_repairs.repair()
    return Engines(
        dynamodb=create_backend_app("dynamodb"),
        streams=create_backend_app("dynamodbstreams"),
        sqs=create_backend_app("sqs"),
        s3=create_backend_app("s3"),
    )


def is_write(request: web.BaseRequest) -> bool:
    """Whether whoever loses this request's answer cannot know what the store holds."""
    target = _target(request)
    if not target:
        return request.method in _S3_WRITES
    return target.rpartition(".")[2] in _WRITES


def is_of_a_queue(request: web.BaseRequest) -> bool:
    """Whether the request may have made a message visible."""
    return _target(request).startswith("AmazonSQS.")


def is_receive(request: web.BaseRequest) -> bool:
    """Whether the request asks for messages, and may want to wait for them."""
    return _target(request) == "AmazonSQS.ReceiveMessage"


def _target(request: web.BaseRequest) -> str:
    return request.headers.get(_TARGET, "")
