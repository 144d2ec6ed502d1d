"""The description's queues in the local store: creating, counting and redriving."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from oncekey_local.description.event_faults import DEAD_LETTER_RETENTION_DAYS
from oncekey_local.functions.environment import queue_arn, queue_name, queue_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey_local.description import Queue, Service
    from oncekey_local.store.client import StoreClient

_DAY_S = 86_400
_COUNTS = {
    "visible": "ApproximateNumberOfMessages",
    "in_flight": "ApproximateNumberOfMessagesNotVisible",
    "delayed": "ApproximateNumberOfMessagesDelayed",
}
# The longest time for moving one batch.
_REDRIVE_VISIBILITY_TIMEOUT_S = 10


async def create_queues(
    client: StoreClient, service: Service, visibility_timeout_s: int | None
) -> None:
    """Returns when every queue and its dead-letter queue exist.

    A visibility timeout of None means each queue's own. Raises `Refused` if the store refuses one.
    """
    for queue in service.queues:
        fifo = {"FifoQueue": "true"} if queue.fifo else {}
        await client.sqs(
            "CreateQueue",
            {
                "QueueName": queue_name(service, queue.dead_letters),
                "Attributes": fifo
                | {"MessageRetentionPeriod": str(DEAD_LETTER_RETENTION_DAYS * _DAY_S)},
            },
        )
        redrive_policy = {
            "deadLetterTargetArn": queue_arn(service, queue.dead_letters),
            "maxReceiveCount": queue.max_receives,
        }
        timeout_s = visibility_timeout_s or service.visibility_timeout_s(queue)
        await client.sqs(
            "CreateQueue",
            {
                "QueueName": queue_name(service, queue.name),
                "Attributes": fifo
                | {
                    "MessageRetentionPeriod": str(service.retention_days(queue) * _DAY_S),
                    "VisibilityTimeout": str(timeout_s),
                    "RedrivePolicy": json.dumps(redrive_policy),
                },
            },
        )


async def count_messages(client: StoreClient, service: Service) -> dict[str, dict[str, int]]:
    """How many messages each queue has: visible, in flight, delayed, and dead letters."""
    counts: dict[str, dict[str, int]] = {}
    for queue in service.queues:
        own = await _counts(client, service, queue.name)
        dead = await _counts(client, service, queue.dead_letters)
        counts[queue.name] = own | {"dead_letters": sum(dead.values())}
    return counts


async def redrive(client: StoreClient, service: Service, queue: Queue) -> int:
    """Sends the present dead letters to their queue again, and returns their number.

    Each becomes a new message with a new count of receives, as in SQS's own redrive. If the store
    fails meanwhile, a message may be in both queues.
    """
    source = queue_url(service, queue.dead_letters, client.url)
    target = queue_url(service, queue.name, client.url)
    left = (await _counts(client, service, queue.dead_letters))["visible"]
    moved = 0
    while moved < left:
        received = await client.sqs(
            "ReceiveMessage",
            {
                "QueueUrl": source,
                "MaxNumberOfMessages": min(10, left - moved),
                "VisibilityTimeout": _REDRIVE_VISIBILITY_TIMEOUT_S,
                "MessageSystemAttributeNames": ["All"],
                "MessageAttributeNames": ["All"],
            },
        )
        if not (messages := received.get("Messages")):
            break
        for message in messages:
            await client.sqs("SendMessage", {"QueueUrl": target, **_content(message)})
            handle = {"QueueUrl": source, "ReceiptHandle": message["ReceiptHandle"]}
            await client.sqs("DeleteMessage", handle)
            moved += 1
    return moved


def _content(message: Mapping[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"MessageBody": message["Body"]}
    if "MessageAttributes" in message:
        content["MessageAttributes"] = message["MessageAttributes"]
    for name in ("MessageGroupId", "MessageDeduplicationId"):
        if name in message["Attributes"]:
            content[name] = message["Attributes"][name]
    return content


async def _counts(client: StoreClient, service: Service, name: str) -> dict[str, int]:
    request = {
        "QueueUrl": queue_url(service, name, client.url),
        "AttributeNames": list(_COUNTS.values()),
    }
    attributes = (await client.sqs("GetQueueAttributes", request))["Attributes"]
    return {count: int(attributes[attribute]) for count, attribute in _COUNTS.items()}
