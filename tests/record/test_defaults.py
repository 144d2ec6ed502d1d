"""What the fields that an item leaves out mean."""

from __future__ import annotations

from oncekey.record.message import Message
from oncekey.record.policy import Encoding, Policy
from oncekey.record.steps import FinishedStep
from oncekey.store.dynamodb.codec import attribute_values, finished_value, policy_value
from oncekey.store.dynamodb.codec import record_from_item as read
from oncekey.store.dynamodb.outbox import message_from_item
from tests.support.records import record


def test_a_policy_stores_only_what_differs_from_the_default() -> None:
    """An item of two fields is the default policy, and the default policy is an item of two."""
    policy = Policy(encoding=Encoding.HTTP, retention_s=60)
    stored = {"M": {"answer": {"S": "http"}, "retention_s": {"N": "60"}}}

    assert policy_value(policy) == stored
    assert policy.kept_s == 60
    assert read({**attribute_values(record()), "policy": stored}).policy == policy


def test_a_step_is_no_final_answer_unless_it_says_so() -> None:
    """A step without that mark returned its result, and the run goes on after it."""
    step = FinishedStep(name="charge", position=0, at_ms=1, result="1")

    assert not step.is_final
    assert not step.is_commit
    assert set(finished_value(step)["M"]) == {"position", "at", "result"}


def test_a_message_without_a_place_is_its_operations_first() -> None:
    """An item stores the place only of the messages after it."""
    message = Message(
        id="a message",
        topic="sent",
        payload="{}",
        operation_id="o-1",
        operation="charge",
        tenant="t",
        created_at_ms=7,
    )
    texts = ("id", "topic", "payload", "operation_id", "operation", "tenant")
    item = {name: {"S": getattr(message, name)} for name in texts} | {"created_at": {"N": "7"}}

    assert message_from_item(item) == message
    assert message.order == (7, 0)
