"""Queues call functions as Lambda does: on the real store, with a function that the test plays."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from oncekey_local.description import Function, Queue, QueueTrigger, Service
from oncekey_local.events.pumps import PumpSettings
from oncekey_local.functions.runtime_api import OutcomeKind
from tests.support.sample_event_store import FORGETFUL, Events, play


def service(*, fifo: bool = False, max_receives: int = 5, **trigger: Any) -> Service:
    """A queue and its function."""
    given = {"batch_size": 10, **trigger}
    return Service(
        name="queued",
        functions=(
            Function(
                name="worker",
                handler="played.by.the_test",
                timeout_s=1,
                queues=(QueueTrigger(queue="work", **given),),
            ),
        ),
        tables=(),
        queues=(Queue(name="work", fifo=fifo, max_receives=max_receives),),
    )


def ids(records: list[dict[str, Any]]) -> list[str]:
    """The ids of messages."""
    return [record["messageId"] for record in records]


def test_event() -> None:
    """A message arrives as Lambda's SQS event has it, attributes and all."""

    async def story(events: Events) -> None:
        await events.client.sqs(
            "SendMessage",
            {
                "QueueUrl": events.url("work"),
                "MessageBody": "héllo",
                "MessageAttributes": {
                    "kind": {"DataType": "String", "StringValue": "greeting"},
                    "data": {"DataType": "Binary", "BinaryValue": "AP8="},
                },
            },
        )
        call = await events.function.call()
        [record] = call.records
        call.answer()
        assert record.pop("messageId")
        assert record.pop("receiptHandle")
        attributes = record.pop("attributes")
        assert record.pop("md5OfMessageAttributes")
        arn = f"arn:aws:sqs:us-east-1:123456789012:{events.service.name}-local-work"
        lists: dict[str, Any] = {"stringListValues": [], "binaryListValues": []}
        assert record == {
            "body": "héllo",
            "messageAttributes": {
                "kind": {"stringValue": "greeting", "dataType": "String", **lists},
                "data": {"binaryValue": "AP8=", "dataType": "Binary", **lists},
            },
            "md5OfBody": hashlib.md5("héllo".encode(), usedforsecurity=False).hexdigest(),
            "eventSource": "aws:sqs",
            "eventSourceARN": arn,
            "awsRegion": "us-east-1",
        }
        assert attributes["ApproximateReceiveCount"] == "1"
        assert set(attributes) == {
            "ApproximateReceiveCount",
            "ApproximateFirstReceiveTimestamp",
            "SenderId",
            "SentTimestamp",
        }
        await events.until("work", visible=0, in_flight=0)

    play(story, service())


def test_partial_answer() -> None:
    """Only what the function says has failed comes again, its receives counted."""

    async def story(events: Events) -> None:
        await events.send("work", "good", "bad", "fine")
        call = await events.function.call()
        assert call.bodies == ["good", "bad", "fine"]
        call.answer_failed(ids(call.records)[1])
        await events.until("work", visible=0, in_flight=1)
        again = await events.function.call()
        assert again.bodies == ["bad"]
        assert again.records[0]["messageId"] == call.records[1]["messageId"]
        assert again.records[0]["attributes"]["ApproximateReceiveCount"] == "2"
        again.answer({"batchItemFailures": []})
        await events.until("work", visible=0, in_flight=0, dead_letters=0)

    play(story, service(), FORGETFUL)


@pytest.mark.parametrize(
    "kind",
    [
        OutcomeKind.FUNCTION_ERROR,
        OutcomeKind.TIMED_OUT,
        OutcomeKind.DIED,
        OutcomeKind.NOT_STARTED,
    ],
)
def test_failed_batch(kind: OutcomeKind) -> None:
    """A function that ends badly has its whole batch again, until they are dead letters."""

    async def story(events: Events) -> None:
        await events.send("work", "a", "b")
        for _ in range(2):
            call = await events.function.call()
            assert call.bodies == ["a", "b"]
            call.end(kind)
        await events.until("work", visible=0, in_flight=0, dead_letters=2)
        assert events.function.waiting == 0

    # They come back a moment apart, and wait for each other.
    play(story, service(max_receives=2, batch_size=2, window_s=300), FORGETFUL)


def test_answers_that_count_for_nothing() -> None:
    """Without partial batch answers whatever the function returns is a success."""

    async def story(events: Events) -> None:
        await events.send("work", "a")
        call = await events.function.call()
        call.answer_failed(*ids(call.records))
        await events.until("work", visible=0, in_flight=0, dead_letters=0)

    play(story, service(partial_batch_answers=False))


def test_batch_is_full() -> None:
    """A batch that has a window waits until it is full, and is not larger than it may be."""

    async def story(events: Events) -> None:
        await events.send("work", *"abcdefgh")
        await events.send("work", *"ijklmnop")
        call = await events.function.call()
        assert call.bodies == list("abcdefghijkl")
        await events.send("work", *"qrstuvwx")
        second = await events.function.call()
        assert second.bodies == list("mnopqrstuvwx")
        call.answer()
        second.answer()

    play(story, service(batch_size=12, window_s=300))


def test_window_is_over() -> None:
    """A batch that does not become full comes when its window is over, with what there is."""

    async def story(events: Events) -> None:
        await events.send("work", "a", "b")
        call = await events.function.call()
        assert call.bodies == ["a", "b"]
        call.answer()

    play(story, service(window_s=1))


def test_window_is_overridden() -> None:
    """A window of the command line wins over the description's."""

    async def story(events: Events) -> None:
        await events.send("work", "a")
        (await events.function.call()).answer()
        await events.until("work", visible=0, in_flight=0)

    settings = PumpSettings(window_s=0, visibility_timeout_s=60)
    play(story, service(window_s=300), settings)


@pytest.mark.parametrize(("most", "sandboxes"), [(2, 8), (None, 2), (8, 2)])
def test_bounded_concurrency(most: int | None, sandboxes: int) -> None:
    """So many batches run at once as trigger and sandboxes allow; the rest stays visible."""

    async def story(events: Events) -> None:
        await events.send("work", "a", "b", "c")
        first, second = await events.function.call(), await events.function.call()
        await events.until("work", visible=1, in_flight=2)
        assert events.function.waiting == 0
        first.answer()
        third = await events.function.call()
        second.answer()
        third.answer()
        await events.until("work", visible=0, in_flight=0)

    play(story, service(batch_size=1, max_concurrency=most), sandboxes=sandboxes)


def test_order_of_groups() -> None:
    """Messages of a FIFO group come one batch after the other, in their order, also once more.

    What comes back comes back before what was sent after it; other groups do not wait.
    """

    async def story(events: Events) -> None:
        await events.send("work", "1", "2", "3", group="g")
        call = await events.function.call()
        assert call.bodies == ["1", "2", "3"]
        await events.send("work", "4", group="g")
        await events.send("work", "other", group="h")
        (other := await events.function.call()).answer()
        assert other.bodies == ["other"]
        call.answer_failed(*ids(call.records)[1:])
        for _ in range(3):
            again = await events.function.call()
            assert again.bodies == ["2", "3", "4"]
            again.answer_failed(*ids(again.records))
        again = await events.function.call()
        assert again.bodies == ["2", "3", "4"]
        again.answer()
        await events.until("work", visible=0, in_flight=0)

    play(story, service(fifo=True, max_receives=9), FORGETFUL)


def test_store_is_down(capsys: pytest.CaptureFixture[str]) -> None:
    """An outage of the store costs a queue nothing: its pump asks again."""

    async def story(events: Events) -> None:
        await events.send("work", "before")
        call = await events.function.call()
        await events.faults(down=True)
        call.answer()
        await events.until_said(capsys, "[queue work -> worker] waits for the store: ")
        await events.faults(down=False)
        await events.until("work", visible=0, in_flight=0, dead_letters=0)
        await events.send("work", "after")
        call = await events.function.call()
        assert call.bodies == ["after"]
        call.answer()

    play(story, service())


def test_answer_to_the_deletion_is_lost() -> None:
    """A deletion whose answer is lost has deleted: the message does not come again."""

    async def story(events: Events) -> None:
        await events.send("work", "a")
        call = await events.function.call()
        await events.faults(lose_answers=1)
        call.answer()
        await events.until("work", visible=0, in_flight=0)
        await events.send("work", "b")
        assert (await events.function.call()).bodies == ["b"]

    play(story, service())


def test_deletion_comes_too_late(capsys: pytest.CaptureFixture[str]) -> None:
    """What could not be deleted before its visibility timeout is handed out again."""

    async def story(events: Events) -> None:
        await events.send("work", "a")
        call = await events.function.call()
        await events.faults(down=True)
        call.answer()
        await events.until_said(capsys, "could not delete")
        await events.faults(down=False)
        again = await events.function.call()
        assert again.bodies == ["a"]
        again.answer()
        await events.until("work", visible=0, in_flight=0)

    play(story, service(), FORGETFUL)
