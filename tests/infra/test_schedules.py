"""What the clock calls: the rules, who lets them, and what becomes of calls that fail."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_

from infra.environments import EXAMPLE_ACCOUNT, EXAMPLE_REGION
from infra.oncekey_cdk import IdempotentFunction
from infra.oncekey_cdk.described.names import pascal
from infra.oncekey_cdk.schedule import connect_schedule
from infra.service import SERVICE
from oncekey_local.events.event_sources import EventSources
from oncekey_local.events.pumps import PumpSettings
from oncekey_local.functions.runtime_api import Outcome, OutcomeKind
from oncekey_local.store.client import StoreClient
from tests.support.sample_constructs import new_stack
from tests.support.sample_templates import EVENTS, called, named

if TYPE_CHECKING:
    from oncekey_local.description import Service
    from tests.support.templates import Synthesised

KIND = "AWS::Events::Rule"
LIMITS = "AWS::Lambda::EventInvokeConfig"
SCHEDULED = ("Reconciler", "Ledger", "Sweeper")


def rule(events: Synthesised, function: str) -> dict[str, Any]:
    """The rule that calls a function."""
    return named(events.service, KIND, f"{function}Schedule")


def test_the_rules_are_those_of_the_description(events: Synthesised, app: Synthesised) -> None:
    """One rule stands for each described schedule, and no other calls a function."""
    for described, synthesised in ((EVENTS, events), (SERVICE, app)):
        scheduled = [one.name for one in described.functions if one.schedule]
        synthesised.service.resource_count_is(KIND, len(scheduled))
        synthesised.service.resource_count_is(LIMITS, len(scheduled))
        synthesised.stateful.resource_count_is(KIND, 0)
        for name in scheduled:
            (target,) = rule(synthesised, pascal(name))["Targets"]
            assert called(target["Arn"]) == f"{pascal(name)}Function"


def test_a_rule_says_when_in_eventbridges_words(events: Synthesised) -> None:
    """A minute is singular, more of them are plural, and an hour of the day is UTC's."""
    assert [rule(events, function)["ScheduleExpression"] for function in SCHEDULED] == [
        "rate(1 minute)",
        "cron(0 3 * * ? *)",
        "rate(1440 minutes)",
    ]
    assert all("State" not in rule(events, function) for function in SCHEDULED)


async def called_here(service: Service) -> dict[str, str]:
    """When the local runtime calls which function, if nobody tells it otherwise."""

    async def never_called(_: bytes) -> Outcome:
        return Outcome(kind=OutcomeKind.NOT_STARTED)

    async with aiohttp.ClientSession() as session:
        client = StoreClient(session, "http://127.0.0.1:9")
        sources = EventSources(service, client, PumpSettings(), sandboxes=1)
        sources.start({function.name: never_called for function in service.functions})
        try:
            return sources.schedules()
        finally:
            await sources.stop()


def called_there(synthesised: Synthesised, function: str) -> str:
    """When a template's rule calls a function, in the words of the local runtime."""
    expression = rule(synthesised, pascal(function))["ScheduleExpression"]
    if minutes := re.fullmatch(r"rate\((\d+) minutes?\)", expression):
        return f"every {60 * int(minutes[1])} s"
    hour = re.fullmatch(r"cron\(0 (\d+) \* \* \? \*\)", expression)
    assert hour, expression
    return f"daily at {hour[1]}:00 UTC"


def test_the_local_runtime_calls_when_the_rules_do(events: Synthesised, app: Synthesised) -> None:
    """What the clock calls on a developer's machine, and when, is what it calls as deployed."""
    for described, synthesised in ((EVENTS, events), (SERVICE, app)):
        here = asyncio.run(called_here(described))
        there = {
            one.name: called_there(synthesised, one.name)
            for one in described.functions
            if one.schedule
        }
        assert here == there
        synthesised.service.resource_count_is(KIND, len(here))


def test_a_call_is_given_up_when_the_next_is_due(events: Synthesised) -> None:
    """EventBridge and Lambda keep a call for the schedule's period, for six hours at the most.

    A call that is kept for longer would run beside those that were due since.
    """
    ages_s = dict(zip(SCHEDULED, (60, 21_600, 21_600), strict=True))
    for function, age_s in ages_s.items():
        (target,) = rule(events, function)["Targets"]
        assert target["RetryPolicy"] == {
            "MaximumEventAgeInSeconds": age_s,
            "MaximumRetryAttempts": 185,
        }
        limits = named(events.service, LIMITS, f"{function}ScheduledRuns")
        assert limits["MaximumEventAgeInSeconds"] == age_s
        assert limits["Qualifier"] == ("live" if events.stage == "production" else "$LATEST")
        assert limits["FunctionName"]["Ref"].startswith(f"{function}Function")


def test_a_run_is_tried_as_often_as_described(events: Synthesised) -> None:
    """A run that fails is not tried again, unless the description says so."""
    retries = [
        named(events.service, LIMITS, f"{function}ScheduledRuns")["MaximumRetryAttempts"]
        for function in SCHEDULED
    ]

    assert retries == [0, 2, 0]


def test_only_its_rule_may_call_a_function(events: Synthesised) -> None:
    """EventBridge may invoke a scheduled function, for the rule of that function alone."""
    permissions = [
        one
        for one in events.properties("AWS::Lambda::Permission")
        if one["Principal"] == "events.amazonaws.com"
    ]

    let_in = {
        called(one["FunctionName"]): one["SourceArn"]["Fn::GetAtt"][0][:-8] for one in permissions
    }
    assert let_in == {f"{one}Function": f"{one}Schedule" for one in SCHEDULED}
    assert all(one["Action"] == "lambda:InvokeFunction" for one in permissions)


def test_a_call_that_fails_is_told(events: Synthesised) -> None:
    """EventBridge tells the described queue of what it could not hand over, Lambda of the run that
    has failed; where no queue is described the next run makes up for both.
    """
    (target,) = rule(events, "Ledger")["Targets"]
    limits = named(events.service, LIMITS, "LedgerScheduledRuns")

    assert "LostQueue" in json.dumps(target["DeadLetterConfig"]["Arn"])
    assert "LostQueue" in json.dumps(limits["DestinationConfig"]["OnFailure"]["Destination"])
    (target,) = rule(events, "Reconciler")["Targets"]
    assert "DeadLetterConfig" not in target
    assert "DestinationConfig" not in named(events.service, LIMITS, "ReconcilerScheduledRuns")


def test_only_rules_of_this_account_may_tell(events: Synthesised) -> None:
    """EventBridge may send to the queues that schedules name, for rules of this account and Region,
    and to no other queue.
    """
    opened = {
        policy["Queues"][0]["Ref"][:-8]: one
        for policy in events.properties("AWS::SQS::QueuePolicy")
        for one in policy["PolicyDocument"]["Statement"]
        if one["Effect"] == "Allow"
    }

    assert list(opened) == ["LostQueue"]
    statement = opened["LostQueue"]
    assert statement["Principal"] == {"Service": "events.amazonaws.com"}
    assert statement["Action"] == "sqs:SendMessage"
    rules = statement["Condition"]["ArnLike"]["aws:SourceArn"]
    if events.stage == "production":
        assert rules == f"arn:aws:events:{EXAMPLE_REGION}:{EXAMPLE_ACCOUNT}:rule/*"
    else:
        parts = rules["Fn::Join"][1]
        assert {"Ref": "AWS::AccountId"} in parts
        assert {"Ref": "AWS::Region"} in parts
        assert parts[-1] == ":rule/*"


def test_an_alarm_says_what_to_do_about_a_failed_run(events: Synthesised) -> None:
    """Whoever finds a failed run in the queue is told that it can be run by hand."""
    alarm = named(events.service, "AWS::CloudWatch::Alarm", "AlarmsLostDepth")

    assert "invoke the function with the event" in alarm["AlarmDescription"]
    assert "put the items of another table into it again" in alarm["AlarmDescription"]


def test_nothing_else_configures_the_runs_of_a_scheduled_function() -> None:
    """CloudFormation refuses a second configuration of a function's runs, so what would make one is
    refused before.

    Red when `function_props` of a function with a schedule have retries of their own.
    """
    for props in ({"retry_attempts": 0}, {"max_event_age": Duration.minutes(1)}):
        stack = new_stack()
        function = IdempotentFunction(
            stack,
            "Sweeper",
            code=lambda_.Code.from_inline("def handler(event, context): ..."),
            handler="index.handler",
            function_props=props,
        )

        with pytest.raises(ValueError, match="retry_attempts, on_failure or on_success, which its"):
            connect_schedule(function, expression="rate(1 day)", max_age=Duration.hours(1))
        assert function.node.try_find_child("Schedule") is None
