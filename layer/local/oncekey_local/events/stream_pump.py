"""Calls a function with the changes of a table, as Lambda's event source mapping does."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey_local.events.batch_answer import judge
from oncekey_local.events.batch_event import (
    Record,
    change_record,
    discarded,
    event_bytes,
    in_batches,
    sequence_number,
)
from oncekey_local.events.outages import until_answered
from oncekey_local.identifiers import new_id, now_ms
from oncekey_local.log import log

if TYPE_CHECKING:
    from oncekey_local.description import StreamTrigger
    from oncekey_local.events.pumps import Target
    from oncekey_local.store.client import StoreClient

# The stream's limit for one call.
_AT_ONCE = 1000
_LONG_POLL_S = 20


@dataclass(frozen=True, kw_only=True)
class StreamSource:
    """The table whose changes a pump hands on, and how it goes about it.

    `on_failure_url` is the queue that is told of batches that were given up.
    """

    table_name: str
    trigger: StreamTrigger
    window_s: float
    retry_s: float
    on_failure_url: str | None


class StreamPump:
    """Reads in order from the beginning, and reads on when a batch has succeeded or was given up.

    A batch counts its attempts in all, with what is left of it after a partial answer: nothing says
    whether Lambda counts such a rest afresh, and this way nobody relies on it.
    """

    def __init__(self, client: StoreClient, source: StreamSource, target: Target) -> None:
        self._client = client
        self._source = source
        self._target = target
        self._label = f"stream {source.trigger.table} -> {target.name}"

    async def run(self) -> None:
        """Goes on until it is cancelled."""
        arn, shard_ids = await self._until_answered(self._describe)
        async with asyncio.TaskGroup() as pumping:
            for shard_id in shard_ids:
                pumping.create_task(self._pump(_Shard(self._client, arn, shard_id)))

    async def _pump(self, shard: _Shard) -> None:
        while True:
            records = await self._collect(shard)
            for batch in in_batches(records, self._source.trigger.batch_size):
                await self._work(shard, batch)

    async def _collect(self, shard: _Shard) -> list[Record]:
        """At least one record; as many as there are when the batch is full or its window over."""
        loop = asyncio.get_running_loop()
        batch_size = self._source.trigger.batch_size
        records: list[Record] = []
        while not records:
            records = await self._read(shard, batch_size, wait_s=_LONG_POLL_S)
        end = loop.time() + self._source.window_s
        while len(records) < batch_size and (left_s := end - loop.time()) > 0:
            wait_s = min(left_s, _LONG_POLL_S)
            records += await self._read(shard, batch_size - len(records), wait_s=wait_s)
        return records

    async def _read(self, shard: _Shard, most: int, *, wait_s: float) -> list[Record]:
        records = await self._until_answered(lambda: shard.read(min(most, _AT_ONCE), wait_s=wait_s))
        return [
            record for record in records if record["eventName"] in self._source.trigger.event_names
        ]

    async def _work(self, shard: _Shard, batch: list[Record]) -> None:
        trigger = self._source.trigger
        for attempt in range(1, trigger.max_attempts + 1):
            if attempt > 1:
                await asyncio.sleep(self._source.retry_s)
            ids = [sequence_number(record) for record in batch]
            outcome = await self._target.invoke(event_bytes(batch))
            verdict = judge(outcome, ids, partial_answers=trigger.partial_batch_answers)
            if not verdict.failed:
                log(f"[{self._label}] {len(batch)} records")
                return
            # In order, so those after the first failure are done again, whatever became of them.
            batch = batch[ids.index(verdict.failed[0]) :]
            why = f": {verdict.reason}" if verdict.reason else ""
            log(f"[{self._label}] attempt {attempt} of {trigger.max_attempts} failed{why}")
        await self._discard(shard, batch)

    async def _discard(self, shard: _Shard, batch: list[Record]) -> None:
        log(f"[{self._label}] gives up {len(batch)} records")
        if self._source.on_failure_url is None:
            return
        told = discarded(
            batch,
            shard_id=shard.id,
            function_arn=self._target.arn,
            attempts=self._source.trigger.max_attempts,
            request_id=new_id(),
            time_ms=now_ms(),
        )
        request = {"QueueUrl": self._source.on_failure_url, "MessageBody": json.dumps(told)}
        await self._until_answered(lambda: self._client.sqs("SendMessage", request))

    async def _describe(self) -> tuple[str, list[str]]:
        table = await self._client.dynamodb("DescribeTable", {"TableName": self._source.table_name})
        arn: str = table["Table"]["LatestStreamArn"]
        stream = await self._client.streams("DescribeStream", {"StreamArn": arn})
        return arn, [shard["ShardId"] for shard in stream["StreamDescription"]["Shards"]]

    async def _until_answered(self, call: Any) -> Any:
        return await until_answered(call, label=self._label, retry_s=self._source.retry_s)


class _Shard:
    """A part of a stream, and how far it was read."""

    def __init__(self, client: StoreClient, stream_arn: str, shard_id: str) -> None:
        self.id = shard_id
        self._client = client
        self._stream_arn = stream_arn
        self._read_to: str | None = None
        self._iterator: str | None = None

    async def read(self, most: int, *, wait_s: float) -> list[Record]:
        """At most `most` of the next records; none if none come within `wait_s`."""
        iterator = self._iterator or await self._new_iterator()
        self._iterator = None  # used up, unless there is an answer
        answer = await self._client.streams(
            "GetRecords", {"ShardIterator": iterator, "Limit": most}, wait_s=wait_s
        )
        self._iterator = answer["NextShardIterator"]
        records = [change_record(change, self._stream_arn) for change in answer["Records"]]
        if records:
            self._read_to = sequence_number(records[-1])
        return records

    async def _new_iterator(self) -> str:
        place = (
            {"ShardIteratorType": "TRIM_HORIZON"}
            if self._read_to is None
            else {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": self._read_to}
        )
        answer = await self._client.streams(
            "GetShardIterator",
            {"StreamArn": self._stream_arn, "ShardId": self.id, **place},
        )
        iterator: str = answer["ShardIterator"]
        return iterator
