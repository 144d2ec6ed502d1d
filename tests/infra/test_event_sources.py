"""What calls functions by itself: event sources, their grants, and what is refused at synth."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

import pytest

from infra import app
from oncekey_local.description.actions import RECEIVE_ACTIONS, SEND_ACTIONS, STREAM_ACTIONS
from tests.support.sample_templates import EVENTS, below_the_arn, called, compose_events, named

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_cdk import App, CfnResource
    from constructs import IConstruct

    from tests.support.templates import Synthesised

KIND = "AWS::Lambda::EventSourceMapping"
QUEUE = "events-dev-stateful/Default/Pace200Queue"
# Logical ids end with a hash.
EXPORTED_ARN = re.compile(r"FnGetAtt(?P<resource>\w+?)[0-9A-F]{8}(?P<arn>StreamArn|Arn)")


def test_the_event_sources_are_those_of_the_description(events: Synthesised) -> None:
    """One event source stands for each described trigger, and no other calls a function."""
    described = [trigger for one in EVENTS.functions for trigger in (*one.streams, *one.queues)]

    events.service.resource_count_is(KIND, len(described))
    events.stateful.resource_count_is(KIND, 0)


def test_a_stream_calls_its_function(events: Synthesised) -> None:
    """Batch, window, filter, attempts and on-failure queue are as described; nothing is halved."""
    mapping = named(events.service, KIND, "OutboxRelayOutboxStream")

    assert "OutboxTable" in mapping.pop("EventSourceArn")["Fn::ImportValue"]
    assert (
        "LostQueue"
        in mapping.pop("DestinationConfig")["OnFailure"]["Destination"]["Fn::ImportValue"]
    )
    assert called(mapping.pop("FunctionName")) == "OutboxRelayFunction"
    (pattern,) = mapping.pop("FilterCriteria")["Filters"]
    assert json.loads(pattern["Pattern"]) == {"eventName": ["INSERT"]}
    del mapping["Tags"]
    assert mapping == {
        "BatchSize": 25,
        "BisectBatchOnFunctionError": False,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "MaximumBatchingWindowInSeconds": 3,
        # After the first attempt.
        "MaximumRetryAttempts": 3,
        "StartingPosition": "TRIM_HORIZON",
    }


def test_what_a_stream_does_not_say_is_not_there(events: Synthesised) -> None:
    """Without filter, window, retries, destination or partial answers the template has none."""
    mapping = named(events.service, KIND, "AuditorOutboxStream")

    assert mapping["MaximumRetryAttempts"] == 0
    assert not mapping.keys() & {
        "DestinationConfig",
        "FilterCriteria",
        "FunctionResponseTypes",
        "MaximumBatchingWindowInSeconds",
    }


def test_a_queue_calls_its_function(events: Synthesised) -> None:
    """Batch and concurrency are as described, and a FIFO queue is given no window."""
    mapping = named(events.service, KIND, "OrderedOrderedQueue")

    assert "OrderedQueue" in mapping.pop("EventSourceArn")["Fn::ImportValue"]
    assert called(mapping.pop("FunctionName")) == "OrderedFunction"
    del mapping["Tags"]
    assert mapping == {
        "BatchSize": 7,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "ScalingConfig": {"MaximumConcurrency": 3},
    }


@pytest.mark.case(39)
def test_failed_records_are_told_one_by_one(events: Synthesised) -> None:
    """Partial batch answers are on wherever the description does not turn them off.

    Red when an event source is created without ReportBatchItemFailures.
    """
    without = [
        mapping["EventSourceArn"]
        for mapping in events.properties(KIND)
        if mapping.get("FunctionResponseTypes") != ["ReportBatchItemFailures"]
    ]

    assert len(without) == 2
    assert all("OutboxTable" in str(arn) or "PatientQueue" in str(arn) for arn in without)


def grants(events: Synthesised, function: str) -> set[tuple[tuple[str, ...], str]]:
    """What a function may do to what of the stateful stack: its resources by logical id and ARN."""
    policy = named(events.service, "AWS::IAM::Policy", f"{function}RoleDefaultPolicy")
    return {
        (_listed(one["Action"]), found["resource"] + found["arn"] + below_the_arn(resource))
        for one in policy["PolicyDocument"]["Statement"]
        if one["Effect"] == "Allow"
        for resource in (
            one["Resource"] if isinstance(one["Resource"], list) else [one["Resource"]]
        )
        if (found := EXPORTED_ARN.search(str(resource)))
    }


def _listed(actions: str | list[str]) -> tuple[str, ...]:
    return (actions,) if isinstance(actions, str) else tuple(actions)


def test_a_relay_may_do_exactly_this(events: Synthesised) -> None:
    """It reads its stream, touches the table as described, and sends to the queues it names."""
    assert grants(events, "OutboxRelay") == {
        (STREAM_ACTIONS, "OutboxTableStreamArn"),
        (("dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"), "OutboxTableArn"),
        # Its queue is a FIFO one.
        (
            ("dynamodb:BatchWriteItem", "dynamodb:UpdateItem", "dynamodb:Scan"),
            "PlainTableArn",
        ),
        (SEND_ACTIONS, "OrderedQueueArn"),
        (SEND_ACTIONS, "OrderedDeadLettersQueueArn"),
        (SEND_ACTIONS, "LostQueueArn"),
    }


def test_a_reconciler_may_do_exactly_this(events: Synthesised) -> None:
    """It asks the one index what is due, reads and writes records, and reads the outbox through."""
    assert grants(events, "Reconciler") == {
        (("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:GetItem"), "RecordsTableArn"),
        (("dynamodb:Query",), "RecordsTableArn/index/due"),
        (("dynamodb:Scan",), "OutboxTableArn"),
    }


def test_a_ledger_may_do_exactly_this(events: Synthesised) -> None:
    """It reads a table through, and tells of a run that has failed."""
    assert grants(events, "Ledger") == {
        (("dynamodb:GetItem", "dynamodb:Scan"), "PlainTableArn"),
        (SEND_ACTIONS, "LostQueueArn"),
    }


def test_a_worker_may_do_exactly_this(events: Synthesised) -> None:
    """It receives from its own queue, and from no other, and may put a message off."""
    assert grants(events, "Ordered") == {(RECEIVE_ACTIONS, "OrderedQueueArn")}


def test_no_grant_has_a_wildcard(events: Synthesised) -> None:
    """Streams and queues are granted by their names, each; X-Ray and the question whether an
    alarm is on have no resources to name.
    """
    wide = [
        one for one in events.statements() if "*" in json.dumps([one["Action"], one["Resource"]])
    ]

    assert {json.dumps(one["Action"]) for one in wide} == {
        json.dumps(["xray:PutTraceSegments", "xray:PutTelemetryRecords"]),
        *(['"cloudwatch:DescribeAlarms"'] if events.stage == "production" else []),
    }


def test_a_function_is_told_its_queues(events: Synthesised) -> None:
    """An environment variable holds a queue's URL, or that of its dead letters."""
    function = named(events.service, "AWS::Lambda::Function", "OutboxRelayFunction")
    variables = function["Environment"]["Variables"]

    assert "RefOrderedQueue" in variables["WORK"]["Fn::ImportValue"]
    assert "RefOrderedDeadLettersQueue" in variables["DEAD"]["Fn::ImportValue"]


def resource(events: App, path: str) -> Any:
    """The template's resource of the construct at this path."""
    construct: IConstruct = events
    for name in path.split("/"):
        construct = construct.node.find_child(name)
    return cast("CfnResource", construct.node.default_child or construct)


STATEFUL, SERVICE = "events-dev-stateful/Default", "events-dev-service/Default"
# Each on another trigger: which one, the change, and what is said of it.
OVERRIDES: dict[str, tuple[str, Callable[[App], None], str]] = {
    "visibility timeout": (
        "Worker200Pace200Queue",
        lambda app: resource(app, QUEUE).add_property_override("VisibilityTimeout", 119),
        "119 s delivers messages again while they are worked on: use at least 120 s",
    ),
    "no visibility timeout": (
        "Worker295Pace295Queue",
        lambda app: resource(app, f"{STATEFUL}/Pace295Queue").add_property_deletion_override(
            "VisibilityTimeout"
        ),
        "a visibility timeout of 30 s delivers messages again",
    ),
    "function timeout": (
        "Worker120300Pace120300Queue",
        lambda app: setattr(resource(app, f"{SERVICE}/Worker120300/Function"), "timeout", 121),
        "at least 1026 s, six times the function's timeout (121 s) plus the window (300 s)",
    ),
    "window": (
        "Worker9007Pace9007Queue",
        lambda app: setattr(
            resource(app, f"{SERVICE}/Worker9007/Pace9007Queue"),
            "maximum_batching_window_in_seconds",
            8,
        ),
        "at least 5408 s, six times the function's timeout (900 s) plus the window (8 s)",
    ),
    "partial answers of a queue": (
        "Worker10Pace10Queue",
        lambda app: setattr(
            resource(app, f"{SERVICE}/Worker10/Pace10Queue"), "function_response_types", []
        ),
        "one failed record repeats its whole batch: add ReportBatchItemFailures",
    ),
    "partial answers of a stream": (
        "OutboxRelayOutboxStream",
        lambda app: resource(
            app, f"{SERVICE}/OutboxRelay/OutboxStream"
        ).add_property_deletion_override("FunctionResponseTypes"),
        "one failed record repeats its whole batch",
    ),
}


@pytest.fixture(scope="module")
def refused() -> list[str]:
    """What is said of a service with all the overrides, one sentence for each."""
    app = compose_events()
    for _, change, _ in OVERRIDES.values():
        change(app)
    with pytest.raises(ValueError, match="the templates are wrong") as error:
        app.synth()
    return str(error.value).split("; ")


@pytest.mark.case(39)
@pytest.mark.parametrize("override", OVERRIDES)
def test_a_bad_override_raises(refused: list[str], override: str) -> None:
    """No template is handed over whose messages are worked on twice, whatever was overridden how.

    Red when the finished templates are not looked at, or not all of them.
    """
    trigger, _, complaint = OVERRIDES[override]

    (said,) = [each for each in refused if f"/{trigger}" in each]
    assert complaint in said


def test_nothing_but_the_bad_overrides_is_refused(refused: list[str]) -> None:
    """Each fault is named once, and what is not overridden has none."""
    assert len(refused) == len(OVERRIDES)


def test_a_good_override_is_accepted() -> None:
    """A visibility timeout that is overridden with a longer one is synthesised."""
    app = compose_events()
    resource(app, QUEUE).add_property_override("VisibilityTimeout", 121)

    assert app.synth().stacks


def test_the_app_ends_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m infra.app` ends with the sentence, not with a traceback."""

    def compose(**_: object) -> App:
        events = compose_events()
        resource(events, QUEUE).add_property_override("VisibilityTimeout", 1)
        return events

    monkeypatch.setattr("infra.composition.compose", compose)

    with pytest.raises(SystemExit, match=r"^infra\.app: the templates are wrong: events-dev-"):
        app.main([])
