"""The events of queues, streams and buses are those that AWS sends."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pytest

from oncekey.outbox.envelope import unsealed
from oncekey.store.dynamodb.outbox import message_from_item
from oncekey.testing import dynamodb_stream_event, eventbridge_event, kinesis_event, sqs_event
from tests.support.events import load

MESSAGE = message_from_item(load("dynamodb_stream_outbox")["Records"][0]["dynamodb"]["NewImage"])


def shape(value: Any) -> Any:
    """`value` with the type of each member in place of its value."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return type(value)


def test_a_message_arrives_as_the_relay_sends_it() -> None:
    """The event of a store's message has the sample's shape and its body."""
    sample = load("sqs_payment_requested")

    event = sqs_event([MESSAGE])

    assert shape(event) == shape(sample)
    assert event["Records"][0]["body"] == sample["Records"][0]["body"]
    assert event["Records"][0]["md5OfBody"] == sample["Records"][0]["md5OfBody"]
    assert unsealed(event["Records"][0]["body"]) == MESSAGE


def test_messages_of_your_own_arrive_as_text_or_json() -> None:
    """A text is sent as it is, and a mapping as JSON."""
    first, second = sqs_event(["text", {"a": 1}], receives=3)["Records"]

    assert (first["body"], json.loads(second["body"])) == ("text", {"a": 1})
    assert second["attributes"]["ApproximateReceiveCount"] == "3"
    assert first["messageId"] != second["messageId"]


def test_an_event_made_again_is_the_same_event_delivered_again() -> None:
    """The ids of equal events are equal, and only a message's receipt differs by the receive."""
    again = [sqs_event(["text"], receives=number)["Records"][0] for number in (1, 2)]
    events = [eventbridge_event("Paid", {"id": number}, source="shop") for number in (1, 1, 2)]

    assert again[0]["messageId"] == again[1]["messageId"]
    assert again[0]["receiptHandle"] != again[1]["receiptHandle"]
    assert events[0]["id"] == events[1]["id"] != events[2]["id"]


def test_a_fifo_queue_names_the_group() -> None:
    """Messages of a group come from a FIFO queue, in the order of their sequence numbers."""
    first, second = sqs_event(["one", "two"], group="g-1")["Records"]

    assert first["eventSourceARN"].endswith(":queue-under-test.fifo")
    assert first["attributes"]["MessageGroupId"] == "g-1"
    assert first["attributes"]["SequenceNumber"] < second["attributes"]["SequenceNumber"]


def test_a_message_in_the_stream_equals_the_sample() -> None:
    """The INSERT of a store's message has the sample's shape and its image."""
    sample = load("dynamodb_stream_outbox")
    event = dynamodb_stream_event([MESSAGE])

    assert shape(event) == shape(sample)
    for member in ("Keys", "NewImage"):
        assert event["Records"][0]["dynamodb"][member] == sample["Records"][0]["dynamodb"][member]


def test_plain_items_are_typed_as_dynamodb_does() -> None:
    """A plain item is told in DynamoDB's JSON; a MODIFY has both images, a REMOVE the old one."""
    item = {"pk": "a", "n": Decimal("1.5"), "raw": b"x", "all": [{"flag": True}, None]}
    changed = dynamodb_stream_event([item], keys=["pk"], change="MODIFY", old=[{"pk": "a", "n": 1}])
    removed = dynamodb_stream_event([item], keys=["pk"], change="REMOVE")
    (change,), (removal,) = changed["Records"], removed["Records"]

    assert change["dynamodb"]["Keys"] == {"pk": {"S": "a"}}
    assert change["dynamodb"]["NewImage"] == {
        "pk": {"S": "a"},
        "n": {"N": "1.5"},
        "raw": {"B": "eA=="},
        "all": {"L": [{"M": {"flag": {"BOOL": True}}}, {"NULL": True}]},
    }
    assert change["dynamodb"]["OldImage"] == {"pk": {"S": "a"}, "n": {"N": "1"}}
    assert {*removal["dynamodb"]} & {"NewImage", "OldImage"} == {"OldImage"}
    json.dumps([changed, removed])


def test_a_kinesis_record_has_its_data_in_base64() -> None:
    """Bytes and texts are sent as they are, mappings as JSON, in order."""
    records = kinesis_event([b"\x00", "text", {"a": 1}])["Records"]
    data = [base64.b64decode(each["kinesis"]["data"]) for each in records]
    numbers = [each["kinesis"]["sequenceNumber"] for each in records]

    assert data == [b"\x00", b"text", b'{"a":1}']
    assert numbers == sorted({*numbers})


def test_the_default_event_of_a_bus_is_a_schedules() -> None:
    """Without a detail it is the event of a schedule, as in the sample."""
    event, sample = eventbridge_event(), load("eventbridge_schedule")

    assert shape(event) == shape(sample)
    for member in ("version", "detail-type", "source", "detail"):
        assert event[member] == sample[member]


def test_an_event_of_your_own_has_its_content() -> None:
    """Type, source, detail, id and resources are yours."""
    event = eventbridge_event("Paid", {"a": 1}, source="shop", event_id="e-1", resources=["r"])

    assert (event["detail-type"], event["source"], event["id"]) == ("Paid", "shop", "e-1")
    assert (event["detail"], event["resources"]) == ({"a": 1}, ["r"])


@pytest.mark.parametrize("make", [sqs_event, dynamodb_stream_event, kinesis_event])
def test_an_empty_batch_has_no_records(make: Any) -> None:
    """An empty batch is an event too."""
    assert make([]) == {"Records": []}


@pytest.mark.parametrize("one", ["text", b"data", {"id": "7"}])
@pytest.mark.parametrize("make", [sqs_event, dynamodb_stream_event, kinesis_event])
def test_one_thing_is_no_list_of_things(make: Any, one: Any) -> None:
    """A text would arrive letter by letter, and a mapping as the names in it."""
    with pytest.raises(TypeError, match=f"is a list, not {type(one).__name__}"):
        make(one)


def test_a_change_that_no_stream_has_is_refused() -> None:
    """A handler that skips what it does not know would seem to work."""
    with pytest.raises(ValueError, match="change is one of INSERT, MODIFY, REMOVE, not 'UPDATE'"):
        dynamodb_stream_event([{"id": "7"}], change="UPDATE")  # type: ignore[arg-type]  # as its author may write
