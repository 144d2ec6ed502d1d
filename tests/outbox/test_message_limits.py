"""What the queue cannot take, or a worker cannot read, is refused before anything is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncekey import TransactionInvalid
from oncekey.outbox.envelope import sealed
from oncekey.outbox.inbox import delivered
from oncekey.outbox.relay import OutboxRelay
from tests.support.accepted import Accepted
from tests.support.events import with_body, with_header
from tests.support.hooks import Hook, event_body, status_of
from tests.support.memory_outbox import MemoryOutbox, failed_of, stream_of, waiting
from tests.support.protected import problem_of
from tests.support.recorded import World, publish, transfer
from tests.support.steps import POST
from tests.support.strict_sqs import StrictSqs

# Python 3.11's own limit lets through some of what another version, or a deeper stack, does not.
DEPTHS = [129, 300, 900, 5_000, 100_000]
ODD = "NUL \0, tab \t, U+FFFE \ufffe, U+FFFF \uffff, U+1F600 \U0001f600, ü"


def nested(depth: int) -> Any:
    """A payload of so many lists, each in the next."""
    payload: Any = 0
    for _ in range(depth):
        payload = [payload]
    return payload


def relayed(messages: Any) -> list[Any]:
    """What a worker gets of them, through a queue that refuses what SQS refuses."""
    sqs = StrictSqs()
    relay = OutboxRelay(table=MemoryOutbox(*messages), queue=sqs.queue)
    assert failed_of(relay(stream_of(messages), None)) == []
    return [delivered(body) for body in sqs.bodies]


@pytest.mark.fault("K5.2")
@pytest.mark.parametrize("depth", DEPTHS)
def test_a_payload_that_is_too_deep_is_refused_when_it_is_published(
    world: World, depth: int
) -> None:
    """Its author is told at once, whatever version of Python this is, and nothing is written.

    Red when the bound is wherever Python's own stack ends.
    """
    with pytest.raises(TransactionInvalid, match="is nested deeper than 128"):
        world.service().sends(transfer(), publish("topic", nested(depth)))

    assert world.is_empty_of_effects()


@pytest.mark.fault("K5.2")
def test_a_payload_of_the_greatest_depth_arrives(world: World) -> None:
    """128 is the bound, and the worker reads what is within it.

    Red when the envelope counts.
    """
    service = world.service()
    service.handles(publish("topic", nested(128)))
    service.send(POST)

    (message,) = world.messages
    assert json.loads(message["payload"]) == nested(128)


@pytest.mark.fault("K5.2")
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("media_type", ["application/json", "application/merge-patch+json", ""])
def test_an_accepted_request_that_is_too_deep_is_refused(depth: int, media_type: str) -> None:
    """A client whose body no worker may be able to read is told so, and nothing is stored.

    Red when it gets a 202, and its message fails at each delivery.
    """
    service = Accepted()
    service.event = with_header(
        with_body(POST, "[" * depth + "]" * depth), "content-type", media_type
    )

    answer = service.send(service.event)

    assert problem_of(answer) == (400, "request-invalid", False)
    assert (service.store.records, service.store.messages) == ({}, [])


@pytest.mark.fault("K5.2")
@pytest.mark.parametrize("depth", [200, 100_000])
def test_an_event_that_is_too_deep_is_refused(depth: int) -> None:
    """The same holds for what a gateway, or its authorizer, has put around the body.

    Red when it raises in place of an answer.
    """
    service = Accepted()
    event = with_body(POST, "{}")
    event["requestContext"]["authorizer"] = {"jwt": {"claims": {"sub": nested(depth)}}}
    service.event = event

    assert problem_of(service.send(service.event)) == (400, "request-invalid", False)
    assert service.store.records == {}


def test_brackets_in_a_text_are_no_depth() -> None:
    """A body that merely holds many brackets is accepted."""
    service = Accepted()
    service.event = with_body(POST, json.dumps({"text": "[" * 1_000, "list": [[]] * 1_000}))

    assert service.send(service.event)["statusCode"] == 202


@pytest.mark.fault("K5.2")
@pytest.mark.parametrize("depth", [129, 900])
def test_an_event_of_a_webhook_that_is_too_deep_is_refused(depth: int) -> None:
    """Its sender gets a 400 that says so each time, and nothing is written.

    Red when it is answered 200, and its message fails at each delivery.
    """
    hook = Hook()
    body = event_body("evt_1", data=nested(depth))

    assert problem_of(hook.send(body=body))[:2] == (400, "event-invalid")
    assert problem_of(hook.send(body=body))[:2] == (400, "event-invalid")
    assert (hook.store.records, hook.store.messages) == ({}, [])


@pytest.mark.fault("K5.1")
def test_odd_characters_go_all_the_way(world: World) -> None:
    """What a handler publishes, a webhook passes on, and a client has accepted is taken by a queue
    that refuses what SQS refuses, and arrives as it was.

    Red when U+FFFE or U+FFFF reaches the queue as it is.
    """
    published = world.service()
    published.handles(publish("topic", {"text": ODD}))
    published.send(POST)
    hook = Hook()
    assert status_of(hook.send(body=event_body("evt_1", text=ODD))) == "accepted"
    accepting = Accepted()
    accepting.event = with_body(POST, json.dumps({"text": ODD}, ensure_ascii=False))
    assert accepting.send(accepting.event)["statusCode"] == 202

    (arrived,) = relayed(hook.store.messages)
    assert arrived.payload["text"] == ODD
    (job,) = relayed(accepting.store.messages)
    assert json.loads(job.payload["event"]["body"]) == {"text": ODD}
    (message,) = world.messages
    assert json.loads(message["payload"]) == {"text": ODD}
    assert "\uffff" not in message["payload"]


@pytest.mark.fault("K5.1")
@pytest.mark.parametrize("payload", ["\ud800", {"\udfff": 1}, ["a", {"b": "x\udc00y"}]])
def test_half_a_character_is_refused_when_it_is_published(world: World, payload: Any) -> None:
    """A lone surrogate is no text: the author is told, and nothing is written.

    Red when it is written, and can never be sent.
    """
    with pytest.raises(TransactionInvalid, match="a lone surrogate, which no queue takes"):
        world.service().sends(transfer(), publish("topic", payload))

    assert world.is_empty_of_effects()


@pytest.mark.fault("K5.1")
@pytest.mark.parametrize("topic", ["", "x" * 257, "half \ud800", 5, None, b"topic"])
def test_what_is_no_topic_is_refused_when_it_is_published(world: World, topic: Any) -> None:
    """A topic is text of 1 to 256 characters: with it, every message fits into the queue.

    Red when a topic can make a message larger than the queue takes.
    """
    with pytest.raises(TransactionInvalid, match="name the topic"):
        world.service().sends(transfer(), publish(topic, {}))

    assert world.is_empty_of_effects()


@pytest.mark.fault("K5.1")
def test_the_size_that_counts_is_the_size_that_is_sent(world: World) -> None:
    """Characters that are escaped count as they are sent, six bytes for three.

    Red when a payload fits before it is escaped, and its message does not afterwards.
    """
    with pytest.raises(TransactionInvalid, match="has 240002 bytes, and 200000 can be sent"):
        world.service(has_bucket=False).sends(publish("topic", "\uffff" * 40_000))
    service = world.service(has_bucket=False)
    service.handles(publish("t" * 256, "\uffff" * 33_000))
    service.send(POST)

    assert len(world.messages) == 1


def test_what_is_accepted_with_half_a_character_arrives(world: World) -> None:
    """A gateway's event is written in ASCII, so that nothing in it is refused by the queue."""
    accepting = Accepted()
    accepting.event = with_header(with_body(POST, '"\ud800"'), "x-note", "\udfff\uffff")
    assert accepting.send(accepting.event)["statusCode"] == 202

    (job,) = relayed(accepting.store.messages)
    assert job.payload["event"]["body"] == '"\ud800"'
    assert sealed(accepting.store.messages[0]).isascii()


def test_groups_go_to_a_standard_queue_too() -> None:
    """A standard queue takes a group, which makes it fair, and no id to deduplicate by.

    Red when it refuses each message, and all are set aside in the end.
    """
    messages, sqs = [waiting(1, tenant="a"), waiting(2, tenant="b")], StrictSqs()
    table = MemoryOutbox(*messages)
    relay = OutboxRelay(table=table, queue=sqs.queue, group=lambda message: message.tenant)

    relay(stream_of(messages), None)

    assert (sorted(sqs.ids), table.tries) == ([message.id for message in messages], {})
