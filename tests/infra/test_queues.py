"""The queues of the stateful stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infra.oncekey_cdk.described.names import pascal
from tests.support.sample_templates import EVENTS, PACES, named

if TYPE_CHECKING:
    from tests.support.templates import Synthesised

KIND = "AWS::SQS::Queue"
DAY_S = 86_400


def queue(app: Synthesised, name: str) -> dict[str, Any]:
    """The properties of the queue that the description calls `name`."""
    return named(app.stateful, KIND, f"{pascal(name)}Queue")


@pytest.mark.parametrize("described", EVENTS.queues, ids=lambda queue: queue.name)
def test_every_queue_has_dead_letters_of_its_own(events: Synthesised, described: Any) -> None:
    """A queue gives up after its receives, to a queue of the same kind that keeps for 14 days."""
    own, dead = queue(events, described.name), queue(events, described.dead_letters)

    policy = own["RedrivePolicy"]
    target = policy["deadLetterTargetArn"]["Fn::GetAtt"]
    assert policy["maxReceiveCount"] == described.max_receives
    assert target[0].startswith(f"{pascal(described.dead_letters)}Queue")
    assert own["MessageRetentionPeriod"] == EVENTS.retention_days(described) * DAY_S
    assert dead["MessageRetentionPeriod"] == 14 * DAY_S
    assert "RedrivePolicy" not in dead
    fifo = True if described.fifo else None
    assert (own.get("FifoQueue"), dead.get("FifoQueue")) == (fifo, fifo)


@pytest.mark.fault("K5.8")
def test_only_what_a_function_works_on_is_kept_for_less_than_14_days(app: Synthesised) -> None:
    """Of the reference service's queues one triggers a function and keeps its messages for 4 days;
    every other queue waits for people, and keeps them for 14.

    Red when `escalated` keeps its messages as long as a queue that a function works on.
    """
    kept = {
        name: resource["Properties"]["MessageRetentionPeriod"] // DAY_S
        for name, resource in app.stateful.find_resources(KIND).items()
    }

    assert sorted(kept.values()) == [4, 14, 14, 14]
    ((work, _),) = [each for each in kept.items() if each[1] == 4]
    assert work.startswith("PaymentsQueue")


def test_the_queues_are_those_of_the_description(events: Synthesised) -> None:
    """Two queues stand for each described one, encrypted, none with a fixed physical name."""
    events.stateful.resource_count_is(KIND, 2 * len(EVENTS.queues))
    events.service.resource_count_is(KIND, 0)
    for properties in events.properties(KIND):
        assert properties["SqsManagedSseEnabled"] is True
        assert "QueueName" not in properties


def test_no_queue_is_reached_without_tls(events: Synthesised) -> None:
    """Every queue has a policy, which says no to a request without TLS."""
    policies = events.properties("AWS::SQS::QueuePolicy")

    reached = {one["Ref"] for policy in policies for one in policy["Queues"]}
    assert reached == set(events.stateful.find_resources(KIND))
    for policy in policies:
        statement = policy["PolicyDocument"]["Statement"][0]
        assert (statement["Effect"], statement["Action"]) == ("Deny", "sqs:*")
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_a_queue_is_kept_in_production_only(events: Synthesised) -> None:
    """Deleting a stack keeps its messages in production, and in no other stage."""
    stage = {tag["Value"] for tag in events.properties(KIND)[0]["Tags"]}
    policy = "Retain" if "production" in stage else "Delete"

    events.stateful.all_resources(KIND, {"DeletionPolicy": policy, "UpdateReplacePolicy": policy})


def test_the_urls_are_outputs(events: Synthesised) -> None:
    """Whoever deployed finds each queue's URL, and that of its dead letters, in the outputs."""
    outputs = set(events.stateful.find_outputs("*"))

    for described in EVENTS.queues:
        for name in (described.name, described.dead_letters):
            assert f"{pascal(name)}QueueUrl" in outputs


@pytest.mark.case(39)
@pytest.mark.parametrize(("timeout_s", "window_s"), PACES)
def test_no_message_is_handed_out_while_it_is_worked_on(
    events: Synthesised, timeout_s: int, window_s: int
) -> None:
    """A queue's visibility timeout is six times its function's timeout and the batching window.

    Red when the stack leaves the visibility timeout to SQS, or the rule drops factor or window.
    """
    function = named(
        events.service, "AWS::Lambda::Function", f"Worker{timeout_s}{window_s}Function"
    )
    mapping = named(
        events.service,
        "AWS::Lambda::EventSourceMapping",
        f"Worker{timeout_s}{window_s}Pace{timeout_s}{window_s}Queue",
    )
    assert function["Timeout"] == timeout_s
    assert mapping.get("MaximumBatchingWindowInSeconds", 0) == window_s

    visible_s = queue(events, f"pace-{timeout_s}-{window_s}")["VisibilityTimeout"]

    assert visible_s == 6 * timeout_s + window_s


def test_a_longer_visibility_timeout_is_taken(events: Synthesised) -> None:
    """A description may say that messages stay hidden for longer than they must."""
    assert queue(events, "patient")["VisibilityTimeout"] == 500


def test_a_stream_has_both_images(events: Synthesised) -> None:
    """A table with a stream shows old and new items; one without has none."""
    assert events.table("outbox")["Properties"]["StreamSpecification"] == {
        "StreamViewType": "NEW_AND_OLD_IMAGES"
    }
    assert "StreamSpecification" not in events.table("plain")["Properties"]
