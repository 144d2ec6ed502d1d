"""The engines behind the local store, and the choice of the engine for a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.types import WSGIApplication

    from aiohttp import web

# Every request of a JSON protocol has this header, and no request of S3.
_TARGET = "X-Amz-Target"
# A receive also changes a queue, but it is not in this list. A lost answer to a receive does no
# harm, because the message is delivered again. And queues are polled all the time, so that nearly
# every lost answer would be one of a receive.
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
    # Whether the queue of this name has messages, also hidden ones.
    has_messages: Callable[[str], bool]

    def of(self, request: web.BaseRequest) -> WSGIApplication:
        """The engine for this request."""
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
    """The engines of moto, with the repairs of `moto_repairs`, and quicker."""
    from moto.moto_server.werkzeug_app import create_backend_app  # noqa: PLC0415 - takes most of a second

    from oncekey_local.store import moto_repairs, quick_moto  # noqa: PLC0415 - import moto as well

    moto_repairs.repair()
    quick_moto.quicken()
    return Engines(
        dynamodb=create_backend_app("dynamodb"),
        streams=create_backend_app("dynamodbstreams"),
        sqs=create_backend_app("sqs"),
        s3=create_backend_app("s3"),
        has_messages=_has_messages,
    )


def _has_messages(queue: str) -> bool:
    from moto.sqs.models import sqs_backends  # noqa: PLC0415 - takes most of a second

    return any(
        backend.queues[queue]._messages  # noqa: SLF001 - `messages` has the visible ones
        for account in sqs_backends.values()
        for backend in account.values()
        if queue in backend.queues
    )


def is_write(request: web.BaseRequest) -> bool:
    """Whether the request changes the store, so that a lost answer leaves its outcome unknown."""
    target = _target(request)
    if not target:
        return request.method in _S3_WRITES
    return target.rpartition(".")[2] in _WRITES


def is_of_a_queue(request: web.BaseRequest) -> bool:
    """Whether the request is one of SQS."""
    return _target(request).startswith("AmazonSQS.")


def is_receive(request: web.BaseRequest) -> bool:
    """Whether the request receives messages, and may wait for them."""
    return _target(request) == "AmazonSQS.ReceiveMessage"


def _target(request: web.BaseRequest) -> str:
    return request.headers.get(_TARGET, "")
