"""The outbox: the relay and the sweep that send messages, and the worker that receives them.

    from oncekey.outbox import OutboxRelay

    handler = OutboxRelay()

ONCEKEY_OUTBOX_TABLE names the table, and ONCEKEY_QUEUE_URL the queue.
"""

from typing import TYPE_CHECKING

from oncekey import lazy

if TYPE_CHECKING:
    from oncekey.errors import (
        EnvelopeUnreadable,
        TopicUnknown,
    )
    from oncekey.outbox.inbox import (
        Delivered,
        delivered,
        postpone,
    )
    from oncekey.outbox.relay import (
        OutboxRelay,
    )
    from oncekey.outbox.sweep import (
        OutboxSweep,
    )
    from oncekey.outbox.topics import (
        JobRunner,
        Topics,
    )
    from oncekey.outbox.worker import (
        Worker,
    )
    from oncekey.record.message import (
        Message,
    )
    from oncekey.store.dynamodb.outbox import (
        OutboxTable,
    )
    from oncekey.store.sqs import (
        SqsQueue,
    )

__all__ = [
    "Delivered",
    "EnvelopeUnreadable",
    "JobRunner",
    "Message",
    "OutboxRelay",
    "OutboxSweep",
    "OutboxTable",
    "SqsQueue",
    "TopicUnknown",
    "Topics",
    "Worker",
    "delivered",
    "postpone",
]

__getattr__, __dir__ = lazy.names(
    __name__,
    {
        "oncekey.errors": (
            "EnvelopeUnreadable",
            "TopicUnknown",
        ),
        "oncekey.outbox.inbox": (
            "Delivered",
            "delivered",
            "postpone",
        ),
        "oncekey.outbox.relay": ("OutboxRelay",),
        "oncekey.outbox.sweep": ("OutboxSweep",),
        "oncekey.outbox.topics": ("JobRunner", "Topics"),
        "oncekey.outbox.worker": ("Worker",),
        "oncekey.record.message": ("Message",),
        "oncekey.store.dynamodb.outbox": ("OutboxTable",),
        "oncekey.store.sqs": ("SqsQueue",),
    },
)
