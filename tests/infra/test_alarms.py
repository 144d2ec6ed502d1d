"""Who is told of messages that nobody works on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from infra.environments import EXAMPLE_ACCOUNT
from infra.oncekey_cdk.described.alarms import unattended
from infra.oncekey_cdk.described.names import pascal
from infra.service import SERVICE
from tests.support.sample_templates import EVENTS, named

if TYPE_CHECKING:
    from tests.support.templates import Synthesised

KIND = "AWS::CloudWatch::Alarm"


@pytest.mark.requirement("C6")
def test_one_dead_letter_is_an_alarm(app: Synthesised) -> None:
    """Every queue gives up after a number of receives, and the depth of each queue that then waits
    for a person has an alarm, which is on from the first message.

    Red when a queue retries for ever, or a queue of dead letters has no alarm on its depth.
    """
    watched = unattended(SERVICE)
    assert watched == ["payments-dead-letters", "escalated", "escalated-dead-letters"]
    assert len(depths(app)) == len(watched)
    for name in watched:
        alarm = named(app.service, KIND, f"Alarms{pascal(name)}Depth")
        (dimension,) = alarm["Dimensions"]
        assert f"{pascal(name)}Queue" in json.dumps(dimension["Value"])
        assert (alarm["Namespace"], alarm["MetricName"], dimension["Name"]) == (
            "AWS/SQS",
            "ApproximateNumberOfMessagesVisible",
            "QueueName",
        )
        assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("GreaterThanThreshold", 0)
        assert (alarm["EvaluationPeriods"], alarm["Period"]) == (1, 60)
        assert alarm["Statistic"] == "Maximum"
    for queue in SERVICE.queues:
        policy = named(app.stateful, "AWS::SQS::Queue", f"{pascal(queue.name)}Queue")
        assert policy["RedrivePolicy"]["maxReceiveCount"] == queue.max_receives


def test_an_alarm_says_what_can_be_done(app: Synthesised) -> None:
    """Dead letters can be redriven; what a stream has given up has no queue to go back to, and an
    operation that nobody could settle is for a person to settle.
    """
    advice = {
        name: named(app.service, KIND, f"Alarms{pascal(name)}Depth")["AlarmDescription"]
        for name in unattended(SERVICE)
    }

    assert "move them back" in advice["payments-dead-letters"]
    assert "put the items of another table into it again" in advice["escalated"]
    assert "oncekey resolve" in advice["escalated"]
    assert "move them back" not in advice["escalated"]


def test_alarms_tell_a_topic_that_is_an_output(app: Synthesised) -> None:
    """All alarms publish to one topic, which lets them in and takes nothing without TLS."""
    (topic,) = app.service.find_resources("AWS::SNS::Topic")
    (policy,) = app.properties("AWS::SNS::TopicPolicy")
    statements = {one["Effect"]: one for one in policy["PolicyDocument"]["Statement"]}

    assert all(alarm["AlarmActions"] == [{"Ref": topic}] for alarm in app.properties(KIND))
    assert list(app.service.find_outputs("AlarmTopicArn")) == ["AlarmTopicArn"]
    assert statements["Allow"]["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert statements["Allow"]["Action"] == "sns:Publish"
    # Another account's alarms have nothing to say here.
    (here,) = statements["Allow"]["Condition"]["StringEquals"].items()
    account = EXAMPLE_ACCOUNT if app.stage == "production" else {"Ref": "AWS::AccountId"}
    assert here == ("aws:SourceAccount", account)
    assert statements["Deny"]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_a_queue_that_is_worked_on_has_no_alarm(events: Synthesised) -> None:
    """Messages that wait for a worker are no alarm; dead letters of every queue are."""
    watched = set(unattended(EVENTS))

    assert {queue.dead_letters for queue in EVENTS.queues} <= watched
    assert not watched & {
        trigger.queue for function in EVENTS.functions for trigger in function.queues
    }
    assert len(depths(events)) == len(watched)


def test_functions_tables_and_api_are_watched(app: Synthesised) -> None:
    """Whatever raises, is throttled, is near its timeout or answers 5xx is an alarm, by AWS's own
    metrics, that says what to do.
    """
    for function in SERVICE.functions:
        name = pascal(function.name)
        metrics = {
            metric: named(app.service, KIND, f"Alarms{name}{metric}")
            for metric in ("Errors", "Throttles", "Duration")
        }
        assert {metric: one["MetricName"] for metric, one in metrics.items()} == {
            metric: metric for metric in metrics
        }
        assert metrics["Duration"]["Threshold"] == function.timeout_s * 800
        assert "shown in its log" in metrics["Errors"]["AlarmDescription"]
    for table in SERVICE.tables:
        alarm = named(app.service, KIND, f"Alarms{pascal(table.name)}TableThrottles")
        assert (alarm["Namespace"], alarm["MetricName"]) == (
            "AWS/DynamoDB",
            "WriteThrottleEvents",
        )
    assert named(app.service, KIND, "AlarmsHttpApiFailures")["MetricName"] == "5xx"


def depths(app: Synthesised) -> list[dict[str, Any]]:
    """The alarms on how many messages a queue has."""
    metric = "ApproximateNumberOfMessagesVisible"
    return [alarm for alarm in app.properties(KIND) if alarm.get("MetricName") == metric]
