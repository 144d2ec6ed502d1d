"""Calls a function with the messages of a queue, as Lambda's event source mapping does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey_local.events.batch_answer import judge
from oncekey_local.events.batch_event import Record, event_bytes, in_batches, message_record
from oncekey_local.events.outages import until_answered
from oncekey_local.log import log

if TYPE_CHECKING:
    from oncekey_local.description import QueueTrigger
    from oncekey_local.events.pumps import Target
    from oncekey_local.store.client import StoreClient

# SQS's limits for one call.
_AT_ONCE = 10
_LONG_POLL_S = 20
# How often a batch that waits for its window looks for more.
_LOOK_AGAIN_S = 0.05


@dataclass(frozen=True, kw_only=True)
class QueueSource:
    """The queue that a pump reads, and its settings.

    At most `concurrency` batches run at once.
    """

    url: str
    arn: str
    fifo: bool
    trigger: QueueTrigger
    window_s: float
    visibility_timeout_s: int
    concurrency: int
    retry_s: float


class QueuePump:
    """Receives messages, calls the function, and deletes the messages that succeeded.

    A failed message stays in the queue. It is visible again after its timeout, and becomes a dead
    letter after too many receives. If the function or the store dies, a message may be handled
    twice, but none is lost.
    """

    def __init__(self, client: StoreClient, source: QueueSource, target: Target) -> None:
        self._client = client
        self._source = source
        self._target = target
        self._slots = asyncio.Semaphore(source.concurrency)
        self._label = f"queue {source.trigger.queue} -> {target.name}"

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as working:
            while True:
                # Receive only if a slot is free: a waiting message would use up its timeout.
                async with self._slots:
                    messages = await self._collect()
                await self._slots.acquire()  # does not wait: only this loop acquires slots
                task = working.create_task(self._work_through(messages))
                task.add_done_callback(lambda _: self._slots.release())

    async def _collect(self) -> list[dict[str, Any]]:
        """At least one message: those received until the batch is full or its window is over."""
        loop = asyncio.get_running_loop()
        batch_size = self._source.trigger.batch_size
        messages: list[dict[str, Any]] = []
        while not messages:
            messages = await self._receive(batch_size, wait_s=_LONG_POLL_S)
        end = loop.time() + self._source.window_s
        while len(messages) < batch_size and (left_s := end - loop.time()) > 0:
            more = await self._receive(batch_size - len(messages), wait_s=0)
            messages += more
            if not more:
                await asyncio.sleep(min(left_s, _LOOK_AGAIN_S))
        return messages

    async def _receive(self, most: int, *, wait_s: int) -> list[dict[str, Any]]:
        request = {
            "QueueUrl": self._source.url,
            "MaxNumberOfMessages": min(_AT_ONCE, most),
            "WaitTimeSeconds": wait_s,
            "MessageSystemAttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
        }
        answer = await until_answered(
            lambda: self._client.sqs("ReceiveMessage", request),
            label=self._label,
            retry_s=self._source.retry_s,
        )
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages

    async def _work_through(self, messages: list[dict[str, Any]]) -> None:
        records = [message_record(message, self._source.arn) for message in messages]
        # One after the other, because messages of one group may be in several batches.
        for batch in in_batches(records, self._source.trigger.batch_size):
            if await self._work(batch) and self._source.fifo:
                return

    async def _work(self, batch: list[Record]) -> bool:
        """Whether any message has failed."""
        ids = [record["messageId"] for record in batch]
        outcome = await self._target.invoke(event_bytes(batch))
        verdict = judge(outcome, ids, partial_answers=self._source.trigger.partial_batch_answers)
        failed = f", {len(verdict.failed)} failed" if verdict.failed else ""
        why = f": {verdict.reason}" if verdict.reason else ""
        log(f"[{self._label}] {len(batch)} messages{failed}{why}")
        await self._delete(
            [record for record in batch if record["messageId"] not in verdict.failed]
        )
        return bool(verdict.failed)

    async def _delete(self, records: list[Record]) -> None:
        try:
            # Later, the messages are visible again, and deleting them would have no effect.
            async with asyncio.timeout(self._source.visibility_timeout_s):
                for start in range(0, len(records), _AT_ONCE):
                    await self._delete_some(records[start : start + _AT_ONCE])
        except TimeoutError:
            log(f"[{self._label}] could not delete messages in time; they will come again")

    async def _delete_some(self, records: list[Record]) -> None:
        request = {
            "QueueUrl": self._source.url,
            "Entries": [
                {"Id": str(number), "ReceiptHandle": record["receiptHandle"]}
                for number, record in enumerate(records)
            ],
        }
        await until_answered(
            lambda: self._client.sqs("DeleteMessageBatch", request),
            label=self._label,
            retry_s=self._source.retry_s,
        )
