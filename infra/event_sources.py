"""What calls a function by itself: streams and queues, with exactly the grants that they need."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aws_cdk import aws_lambda as lambda_

from infra.names import pascal
from oncekey_local.described_event_faults import EVENT_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.resources import Resources
    from infra.service_function import ServiceFunction
    from oncekey_local.description import Function, QueueTrigger, StreamTrigger

# What Lambda's poller does under the function's role. `Table.grant_stream_read` is not used: it
# lets the function list every stream of the account.
STREAM_ACTIONS = (
    "dynamodb:DescribeStream",
    "dynamodb:GetRecords",
    "dynamodb:GetShardIterator",
    "dynamodb:ListStreams",
)
# The last is the function's own: it puts off a message that it cannot work on yet.
RECEIVE_ACTIONS = (
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    "sqs:ChangeMessageVisibility",
)
# It covers SendMessageBatch as well.
SEND_ACTIONS = ("sqs:SendMessage",)
_PARTIAL_ANSWERS = ["ReportBatchItemFailures"]


def add_event_sources(
    created: ServiceFunction, function: Function, resources: Resources
) -> Iterator[lambda_.CfnEventSourceMapping]:
    """Let streams and queues call the function; yields those that take no partial answers."""
    for stream in function.streams:
        mapping = _add_stream(created, stream, resources)
        if not stream.partial_batch_answers:
            yield mapping
    for trigger in function.queues:
        mapping = _add_queue(created, trigger, resources)
        if not trigger.partial_batch_answers:
            yield mapping


def _add_stream(
    created: ServiceFunction, trigger: StreamTrigger, resources: Resources
) -> lambda_.CfnEventSourceMapping:
    stream_arn = resources.tables[trigger.table].table_stream_arn
    assert stream_arn is not None
    created.allow(stream_arn, *STREAM_ACTIONS)
    destination: lambda_.CfnEventSourceMapping.DestinationConfigProperty | None = None
    if trigger.on_failure:
        queue_arn = resources.queues[trigger.on_failure].queue_arn
        created.allow(queue_arn, *SEND_ACTIONS)
        destination = lambda_.CfnEventSourceMapping.DestinationConfigProperty(
            on_failure=lambda_.CfnEventSourceMapping.OnFailureProperty(destination=queue_arn)
        )
    return lambda_.CfnEventSourceMapping(
        created,
        f"{pascal(trigger.table)}Stream",
        function_name=created.function.function_name,
        event_source_arn=stream_arn,
        # The table may be older than the function.
        starting_position="TRIM_HORIZON",
        batch_size=trigger.batch_size,
        maximum_batching_window_in_seconds=trigger.window_s or None,
        function_response_types=_PARTIAL_ANSWERS if trigger.partial_batch_answers else None,
        # A partial answer says where to go on; halving a batch would try what has succeeded again.
        bisect_batch_on_function_error=False,
        maximum_retry_attempts=trigger.max_attempts - 1,
        destination_config=destination,
        filter_criteria=_filter(trigger.event_names),
    )


def _filter(
    event_names: tuple[str, ...],
) -> lambda_.CfnEventSourceMapping.FilterCriteriaProperty | None:
    if {*event_names} == {*EVENT_NAMES}:
        return None
    pattern = json.dumps({"eventName": sorted(event_names)})
    return lambda_.CfnEventSourceMapping.FilterCriteriaProperty(
        filters=[lambda_.CfnEventSourceMapping.FilterProperty(pattern=pattern)]
    )


def _add_queue(
    created: ServiceFunction, trigger: QueueTrigger, resources: Resources
) -> lambda_.CfnEventSourceMapping:
    queue_arn = resources.queues[trigger.queue].queue_arn
    created.allow(queue_arn, *RECEIVE_ACTIONS)
    scaling: lambda_.CfnEventSourceMapping.ScalingConfigProperty | None = None
    if trigger.max_concurrency is not None:
        scaling = lambda_.CfnEventSourceMapping.ScalingConfigProperty(
            maximum_concurrency=trigger.max_concurrency
        )
    return lambda_.CfnEventSourceMapping(
        created,
        f"{pascal(trigger.queue)}Queue",
        function_name=created.function.function_name,
        event_source_arn=queue_arn,
        batch_size=trigger.batch_size,
        maximum_batching_window_in_seconds=trigger.window_s or None,
        function_response_types=_PARTIAL_ANSWERS if trigger.partial_batch_answers else None,
        scaling_config=scaling,
    )
