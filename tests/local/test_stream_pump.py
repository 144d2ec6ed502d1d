"""Streams call functions as Lambda does: on the real store, with a function that the test plays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncekey_local.description import (
    Attribute,
    Function,
    Queue,
    Service,
    StreamTrigger,
    Table,
)
from oncekey_local.functions.runtime_api import OutcomeKind
from oncekey_local.store.client import Refused
from tests.support.sample_event_store import Events, play


def service(**trigger: Any) -> Service:
    """A table whose changes call a function."""
    return Service(
        name="streamed",
        functions=(
            Function(
                name="relay",
                handler="played.by.the_test",
                timeout_s=1,
                streams=(StreamTrigger(table="outbox", **trigger),),
            ),
        ),
        tables=(Table(name="outbox", partition_key=Attribute(name="pk"), stream=True),),
        queues=(Queue(name="escalated"),),
    )


def sequence_numbers(records: list[dict[str, Any]]) -> list[str]:
    """Where changes stand in their stream."""
    return [record["dynamodb"]["SequenceNumber"] for record in records]


async def change(events: Events, action: str, key: str, **request: Any) -> None:
    """One change of an item."""
    given = {"TableName": events.table, "Key": {"pk": {"S": key}}, **request}
    await events.client.dynamodb(action, given)


def test_event() -> None:
    """A change arrives as Lambda's DynamoDB event has it, with its images."""

    async def story(events: Events) -> None:
        await events.put("a", body={"S": "old"})
        await events.put("a", body={"S": "new"})
        await change(events, "DeleteItem", "a")
        await change(events, "DeleteItem", "nothing")
        records: list[dict[str, Any]] = []
        while len(records) < 3:
            call = await events.function.call()
            records += call.records
            call.answer()
        old, new = ({"pk": {"S": "a"}, "body": {"S": body}} for body in ("old", "new"))
        assert [record["eventName"] for record in records] == ["INSERT", "MODIFY", "REMOVE"]
        assert [record["dynamodb"].get("OldImage") for record in records] == [None, old, new]
        assert [record["dynamodb"].get("NewImage") for record in records] == [old, new, None]
        record = records[1]
        assert record["dynamodb"]["Keys"] == {"pk": {"S": "a"}}
        assert record["dynamodb"]["StreamViewType"] == "NEW_AND_OLD_IMAGES"
        assert record["dynamodb"]["SequenceNumber"].isdecimal()
        assert record["dynamodb"]["SizeBytes"] > 0
        assert record["dynamodb"]["ApproximateCreationDateTime"] > 1_700_000_000
        assert record["eventID"]
        assert record["eventVersion"] == "1.1"
        assert record["eventSource"] == "aws:dynamodb"
        assert record["awsRegion"] == "us-east-1"
        assert f":table/{events.table}/stream/" in record["eventSourceARN"]

    play(story, service(event_names=("INSERT", "MODIFY", "REMOVE")))


def test_filter() -> None:
    """A function sees only the kinds of change that it asks for."""

    async def story(events: Events) -> None:
        await events.put("a", "a", "b")
        await change(events, "DeleteItem", "a")
        await events.put("c")
        keys: list[str] = []
        while len(keys) < 3:
            call = await events.function.call()
            keys += call.keys
            call.answer()
        assert keys == ["a", "b", "c"]

    play(story, service())


def test_order() -> None:
    """Batches come one after the other, in order, and no larger than they may be."""

    async def story(events: Events) -> None:
        await events.put("0")
        call = await events.function.call()
        assert call.keys == ["0"]
        await events.put(*"12345")
        assert events.function.waiting == 0
        call.answer()
        for keys in ("12", "34", "5"):
            call = await events.function.call()
            assert call.keys == list(keys)
            call.answer()

    play(story, service(batch_size=2))


def test_window() -> None:
    """A batch waits for its window until it is full."""

    async def story(events: Events) -> None:
        await events.put("1")
        for _ in range(20):
            await events.faults()  # the pump has its turns meanwhile
        assert events.function.waiting == 0
        await events.put("2", "3")
        call = await events.function.call()
        assert call.keys == ["1", "2", "3"]
        call.answer()

    play(story, service(batch_size=3, window_s=300))


def test_a_stream_is_asked_once_until_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read waits for the next change, so a service at rest costs nothing; and it ends with it.

    Red when an empty stream is answered at once, and so is asked again and again.
    """

    async def story(events: Events) -> None:
        reads: list[object] = []
        streams = events.client.streams

        async def counted(action: str, request: Any, **options: Any) -> dict[str, Any]:
            reads.append(options.get("wait_s"))
            return await streams(action, request, **options)

        await events.put("1")
        call = await events.function.call()
        monkeypatch.setattr(events.client, "streams", counted)
        call.answer()
        for _ in range(20):
            await events.faults()  # the pump has its turns meanwhile
        assert len(reads) == 1
        await events.put("2")
        assert (await events.function.call()).keys == ["2"]

    play(story, service())


@pytest.mark.parametrize(
    "kind", [OutcomeKind.FUNCTION_ERROR, OutcomeKind.TIMED_OUT, OutcomeKind.DIED]
)
def test_failed_batch(kind: OutcomeKind) -> None:
    """A batch that fails is tried again before anything that was written after it."""

    async def story(events: Events) -> None:
        await events.put("1")
        call = await events.function.call()
        await events.put("2")
        call.end(kind)
        again = await events.function.call()
        assert again.event == call.event
        again.answer({"batchItemFailures": [{"itemIdentifier": ""}]})
        last = await events.function.call()
        assert last.event == call.event
        last.answer()
        assert (await events.function.call()).keys == ["2"]

    play(story, service())


def test_partial_answer() -> None:
    """A batch is tried again from the first record on that the function says has failed."""

    async def story(events: Events) -> None:
        await events.put(*"12345678")
        call = await events.function.call()
        assert call.keys == list("1234")
        call.answer_failed(sequence_numbers(call.records)[3])
        call = await events.function.call()
        assert call.keys == ["4"]
        call.answer()
        assert (await events.function.call()).keys == list("5678")

    play(story, service(batch_size=4, window_s=300))


def test_several_failures() -> None:
    """Of several failures the first in the stream counts, in whatever order they are named."""

    async def story(events: Events) -> None:
        await events.put("1", "2", "3", "4")
        call = await events.function.call()
        numbers = sequence_numbers(call.records)
        call.answer_failed(numbers[3], numbers[1])
        call = await events.function.call()
        assert call.keys == ["2", "3", "4"]
        call.answer()

    play(story, service(batch_size=4, window_s=300))


def test_answers_that_count_for_nothing() -> None:
    """Without partial batch answers whatever the function returns is a success."""

    async def story(events: Events) -> None:
        await events.put("1")
        call = await events.function.call()
        call.answer_failed(*sequence_numbers(call.records))
        await events.put("2")
        assert (await events.function.call()).keys == ["2"]

    play(story, service(partial_batch_answers=False))


def test_batch_is_given_up() -> None:
    """After its attempts the on-failure queue is told of a batch's rest, and the next comes."""

    async def story(events: Events) -> None:
        await events.put("1", "2", "3")
        call = await events.function.call()
        call.answer_failed(sequence_numbers(call.records)[1])
        call = await events.function.call()
        assert call.keys == ["2", "3"]
        await events.put("4", "5", "6")
        call.end(OutcomeKind.FUNCTION_ERROR)
        assert (await events.function.call()).keys == ["4", "5", "6"]
        [message] = await events.receive("escalated")
        told = json.loads(message["Body"])
        first, last = sequence_numbers(call.records)
        batch = told["DDBStreamBatchInfo"]
        assert batch.pop("approximateArrivalOfFirstRecord").endswith("Z")
        assert batch.pop("approximateArrivalOfLastRecord").endswith("Z")
        assert batch.pop("shardId")
        assert batch == {
            "startSequenceNumber": first,
            "endSequenceNumber": last,
            "batchSize": 2,
            "streamArn": call.records[0]["eventSourceARN"],
        }
        name = f"{events.service.name}-local-relay"
        request = told["requestContext"]
        assert request.pop("requestId")
        assert request == {
            "functionArn": f"arn:aws:lambda:us-east-1:123456789012:function:{name}",
            "condition": "RetryAttemptsExhausted",
            "approximateInvokeCount": 2,
        }
        assert told["version"] == "1.0"
        assert told["timestamp"].endswith("Z")

    play(story, service(batch_size=3, window_s=300, max_attempts=2, on_failure="escalated"))


def test_batch_is_given_up_for_good() -> None:
    """Without an on-failure queue a batch that is given up is gone, and the next comes."""

    async def story(events: Events) -> None:
        await events.put("1")
        (await events.function.call()).end(OutcomeKind.DIED)
        await events.put("2")
        assert (await events.function.call()).keys == ["2"]
        await events.until("escalated", visible=0, in_flight=0)

    play(story, service(max_attempts=1))


def test_failed_transaction() -> None:
    """A transaction that fails leaves nothing in the stream, and hides nothing that follows."""

    async def story(events: Events) -> None:
        await events.put("1")
        call = await events.function.call()
        for key in ("never", "never again"):
            absent = {"ConditionExpression": "attribute_not_exists(pk)"}
            puts = [{"pk": {"S": key}}, {"pk": {"S": "1"}}]
            items = [{"Put": {"TableName": events.table, "Item": put, **absent}} for put in puts]
            with pytest.raises(Refused, match="TransactionCanceled"):
                await events.client.dynamodb("TransactWriteItems", {"TransactItems": items})
            await events.put(f"not {key}")
        call.answer()
        keys: list[str] = []
        while len(keys) < 2:
            call = await events.function.call()
            keys += call.keys
            call.answer()
        assert keys == ["not never", "not never again"]

    play(story, service())


def test_store_is_down(capsys: pytest.CaptureFixture[str]) -> None:
    """An outage of the store neither repeats nor skips a change, and its log is one line long."""

    async def story(events: Events) -> None:
        await events.put("1", "2", "3")
        call = await events.function.call()
        await events.faults(down=True)
        call.answer()
        await events.until_said(capsys, "[stream outbox -> relay] waits for the store: ")
        await events.faults(down=False)
        call = await events.function.call()
        assert call.keys == ["2"]
        assert "waits for the store" not in capsys.readouterr().err
        await events.faults(down=True)
        call.end(OutcomeKind.DIED)
        await events.until_said(capsys, "[stream outbox -> relay] waits for the store: ")
        await events.faults(down=False)
        assert (await events.function.call()).keys == ["3"]
        [message] = await events.receive("escalated")
        assert json.loads(message["Body"])["DDBStreamBatchInfo"]["batchSize"] == 1

    play(story, service(batch_size=1, max_attempts=1, on_failure="escalated"))
