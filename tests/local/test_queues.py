"""The queues of a description in the local store: counted and redriven."""

from __future__ import annotations

from typing import Any

import pytest

from oncekey_local.description import Function, Queue, QueueTrigger, Service
from oncekey_local.events.pumps import PumpSettings
from oncekey_local.store.client import UNANSWERED
from tests.support.sample_event_store import FORGETFUL, Events, play

EMPTY = {"visible": 0, "in_flight": 0, "delayed": 0, "dead_letters": 0}


def service(*queues: Queue, triggers: tuple[QueueTrigger, ...] = ()) -> Service:
    """Queues, and a function that some of them trigger."""
    worker = Function(name="worker", handler="played.by.the_test", timeout_s=7, queues=triggers)
    return Service(name="counted", functions=(worker,), tables=(), queues=queues)


async def bury(events: Events, queue: str) -> None:
    """Receives what a queue has, in vain, until it is a dead letter."""
    request = {"QueueUrl": events.url(queue), "MaxNumberOfMessages": 10}
    while (await events.sources.queues())[queue] != EMPTY | {"dead_letters": 2}:
        await events.client.sqs("ReceiveMessage", request)


async def attributes(events: Events, queue: str) -> dict[str, str]:
    """What a queue says of itself."""
    request = {"QueueUrl": events.url(queue), "AttributeNames": ["All"]}
    answer: dict[str, str] = (await events.client.sqs("GetQueueAttributes", request))["Attributes"]
    return answer


def test_queues_are_as_described() -> None:
    """Queue and dead letters have the description's attributes; a derived timeout is a safe one."""

    async def story(events: Events) -> None:
        work, dead = await attributes(events, "work"), await attributes(events, "work-dead-letters")
        arn = dead["QueueArn"]
        assert arn.endswith(f":{events.service.name}-local-work-dead-letters.fifo")
        assert work["RedrivePolicy"] == f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 3}}'
        assert work["VisibilityTimeout"] == str(6 * 7)
        assert work["MessageRetentionPeriod"] == str(2 * 86_400)
        assert (work["FifoQueue"], dead["FifoQueue"]) == ("true", "true")
        assert dead["MessageRetentionPeriod"] == str(14 * 86_400)
        plain = await attributes(events, "plain")
        assert plain["VisibilityTimeout"] == "99"
        assert plain["QueueArn"].endswith("-local-plain")

    queues = (
        Queue(name="work", fifo=True, max_receives=3, retention_days=2),
        Queue(name="plain", visibility_timeout_s=99),
    )
    described = service(*queues, triggers=(QueueTrigger(queue="work"),))
    play(story, described, PumpSettings())


def test_visibility_timeout_is_overridden() -> None:
    """A visibility timeout of the command line is every queue's."""

    async def story(events: Events) -> None:
        for name in ("work", "plain"):
            assert (await attributes(events, name))["VisibilityTimeout"] == "3"

    queues = (Queue(name="work", visibility_timeout_s=99), Queue(name="plain"))
    play(story, service(*queues), PumpSettings(visibility_timeout_s=3))


def test_counts() -> None:
    """Visible, in flight, delayed and dead messages are told apart."""

    async def story(events: Events) -> None:
        assert await events.sources.queues() == {"work": EMPTY}
        await events.send("work", "a", "b", "c")
        request: dict[str, Any] = {"QueueUrl": events.url("work")}
        await events.client.sqs("ReceiveMessage", request)
        delayed = {"MessageBody": "later", "DelaySeconds": 900}
        await events.client.sqs("SendMessage", request | delayed)
        await events.send("work-dead-letters", "dead")
        counted = {"visible": 2, "in_flight": 1, "delayed": 1, "dead_letters": 1}
        assert await events.sources.queues() == {"work": counted}

    play(story, service(Queue(name="work")))


@pytest.mark.parametrize("group", [None, "g"])
def test_redrive(group: str | None) -> None:
    """Dead letters go back to their queue as new messages, in order, and are gone from theirs."""

    async def story(events: Events) -> None:
        await events.send("work", "a", "b", group=group)
        await bury(events, "work")
        assert await events.sources.redrive("work") == 2
        assert await events.sources.queues() == {"work": EMPTY | {"visible": 2}}
        messages = await events.receive("work")
        assert [message["Body"] for message in messages] == ["a", "b"]
        assert await events.sources.redrive("work") == 0

    play(story, service(Queue(name="work", fifo=group is not None, max_receives=1)), FORGETFUL)


def test_redriven_message_is_whole() -> None:
    """A redriven message has its attributes, and its receives are counted from the beginning."""

    async def story(events: Events) -> None:
        sent = {"kind": {"DataType": "String", "StringValue": "greeting"}}
        request: dict[str, Any] = {"QueueUrl": events.url("work-dead-letters")}
        body = {"MessageBody": "hello", "MessageAttributes": sent}
        await events.client.sqs("SendMessage", request | body)
        assert await events.sources.redrive("work") == 1
        asked = {"MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["All"]}
        answer = await events.client.sqs("ReceiveMessage", {"QueueUrl": events.url("work")} | asked)
        [message] = answer["Messages"]
        assert (message["Body"], message["MessageAttributes"]) == ("hello", sent)
        assert message["Attributes"]["ApproximateReceiveCount"] == "1"

    play(story, service(Queue(name="work")))


def test_redrive_more_than_one_call_takes() -> None:
    """All dead letters are redriven, more than SQS hands out at once."""

    async def story(events: Events) -> None:
        for _ in range(3):
            await events.send("work-dead-letters", *"abcdefgh")
        assert await events.sources.redrive("work") == 24
        assert await events.sources.queues() == {"work": EMPTY | {"visible": 24}}

    play(story, service(Queue(name="work")))


def test_store_fails_during_a_redrive() -> None:
    """A redrive whose store fails loses nothing: what was not deleted is still a dead letter."""

    async def story(events: Events) -> None:
        await events.send("work-dead-letters", "a")
        await events.faults(lose_answers=1)
        with pytest.raises(UNANSWERED):
            await events.sources.redrive("work")
        assert await events.sources.queues() == {"work": EMPTY | {"visible": 1, "dead_letters": 1}}

    play(story, service(Queue(name="work")))


def test_no_such_queue() -> None:
    """Only a queue of the description can be redriven, and its dead letters are none."""

    async def story(events: Events) -> None:
        for name in ("other", "work-dead-letters", ""):
            with pytest.raises(KeyError):
                await events.sources.redrive(name)

    play(story, service(Queue(name="work")))
