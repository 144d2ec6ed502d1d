"""Repairs of moto's streams, FIFO queues and transactions where they differ from AWS.

The differences were found in moto 5.2.5. Each repair replaces one method, and keeps its correct
behaviour.
"""

from __future__ import annotations

import re
from typing import Any

from moto.dynamodb.responses import DynamoHandler
from moto.dynamodbstreams.models import ShardIterator
from moto.sqs.exceptions import InvalidParameterValue, SQSException
from moto.sqs.models import SQSBackend

from oncekey_local.store.client_tokens import ClientTokens

_receive_message = SQSBackend.receive_message
_send_message_batch = SQSBackend.send_message_batch
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
_BODY = re.compile("[\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")
_NAME = re.compile(r"[!-~]{1,128}")
_TOKENS = "oncekey_client_tokens"
_transact_write_items = DynamoHandler.transact_write_items


def repair() -> None:
    """Repairs all queues, streams and tables of this process."""
    check_client_tokens()
    ShardIterator.get = _get_records  # type: ignore[method-assign, assignment]
    SQSBackend.receive_message = _receive_in_order  # type: ignore[method-assign, assignment]
    SQSBackend.send_message_batch = _send_what_sqs_takes  # type: ignore[method-assign, assignment]


def check_client_tokens(*, honours_repeats: bool = False) -> None:
    """Check the token of each transaction of this process before it is applied.

    The tokens are kept by moto's backend, which forgets them together with its tables.
    `honours_repeats` is that of `ClientTokens`.
    """

    def transact(handler: DynamoHandler) -> Any:
        kept = vars(handler.dynamodb_backend)
        if _TOKENS not in kept:
            kept[_TOKENS] = ClientTokens(honours_repeats=honours_repeats)
        tokens: ClientTokens = kept[_TOKENS]
        return tokens.apply(handler.body, lambda: _transact_write_items(handler))

    DynamoHandler.transact_write_items = transact  # type: ignore[method-assign, assignment]


def _get_records(iterator: ShardIterator, limit: int = 1000) -> dict[str, Any]:
    """The records in the table's current stream.

    A failed transaction in moto replaces the table and its stream by an earlier copy. moto's
    iterator continues with the replaced stream: it returns changes that were never applied, and
    none of the later ones.
    """
    backend = iterator.streams_backend
    shard: Any = backend.dynamodb.get_table(iterator.stream_shard.table.name).stream_shard
    records: list[dict[str, Any]] = shard.get(iterator.sequence_number, limit)
    if not records:
        return {"NextShardIterator": iterator.arn, "Records": []}
    last = int(records[-1]["dynamodb"]["SequenceNumber"])
    following = ShardIterator(backend, shard, "AFTER_SEQUENCE_NUMBER", last)
    backend.shard_iterators[following.arn] = following
    return {"NextShardIterator": following.arn, "Records": records}


def _send_what_sqs_takes(
    backend: SQSBackend, queue_name: str, entries: dict[str, dict[str, Any]]
) -> Any:
    """A batch with characters or names that SQS does not accept is refused as a whole.

    moto accepts all of them.
    """
    for entry in entries.values():
        if not _BODY.fullmatch(entry["MessageBody"]):
            raise SQSException("InvalidMessageContents", "SQS does not take these characters.")
        names = (entry.get("MessageDeduplicationId"), entry.get("MessageGroupId"))
        if not all(_NAME.fullmatch(name) for name in names if name):
            raise InvalidParameterValue("A group's name has 1 to 128 visible ASCII characters.")
    return _send_message_batch(backend, queue_name, entries)


def _receive_in_order(backend: SQSBackend, queue_name: str, *arguments: Any, **options: Any) -> Any:
    """Messages of a group in their order, also after they become visible again.

    moto notices only when it reaches a message that it is visible again. Until then the message
    blocks its group, including earlier messages, and is then delivered before them.
    """
    queue = backend.get_queue(queue_name)
    queue.pending_messages.difference_update(
        [message for message in queue.pending_messages if message.visible]
    )
    return _receive_message(backend, queue_name, *arguments, **options)
