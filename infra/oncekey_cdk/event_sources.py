"""Event sources of a function: streams and queues, with the exact grants that they need."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aws_cdk import aws_lambda as lambda_

from oncekey_local.description.actions import RECEIVE_ACTIONS, SEND_ACTIONS, STREAM_ACTIONS

from .checks import source_faults
from .faults import refuse
from .grants import (
    RECEIVE_KEY_ACTIONS,
    SEND_KEY_ACTIONS,
    TABLE_READ_KEY_ACTIONS,
    allow,
    allow_key,
)
from .template_checks import WHOLE_BATCHES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aws_cdk import Duration
    from aws_cdk import aws_dynamodb as dynamodb
    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_kms as kms
    from aws_cdk import aws_sqs as sqs

    from .idempotent_function import IdempotentFunction

EVENT_NAMES = ("INSERT", "MODIFY", "REMOVE")
_PARTIAL_ANSWERS = ["ReportBatchItemFailures"]
_NO_STREAM = "table {!r} has no stream: create it with stream=True"
_ATTEMPTS_MAX = 10_000


def grant_stream(
    grantee: iam.IGrantable, table: dynamodb.ITable, *, encryption_key: kms.IKey | None
) -> str:
    """Let `grantee` read this table's stream, and no other; returns its ARN.

    Raises:
        ValueError: The table has no stream.
    """
    stream_arn = table.table_stream_arn
    if stream_arn is None:
        raise ValueError(_NO_STREAM.format(table.node.path))
    allow(grantee, STREAM_ACTIONS, stream_arn)
    allow_key(grantee, TABLE_READ_KEY_ACTIONS, encryption_key, service="dynamodb")
    return stream_arn


def grant_send(grantee: iam.IGrantable, queue: sqs.IQueue) -> None:
    """Let `grantee` send to this queue."""
    allow(grantee, SEND_ACTIONS, queue.queue_arn)
    allow_key(grantee, SEND_KEY_ACTIONS, queue.encryption_master_key, service="sqs")


def grant_receive(grantee: iam.IGrantable, queue: sqs.IQueue) -> None:
    """Let `grantee` receive, delete and delay messages of this queue."""
    allow(grantee, RECEIVE_ACTIONS, queue.queue_arn)
    allow_key(grantee, RECEIVE_KEY_ACTIONS, queue.encryption_master_key, service="sqs")


def connect_stream(
    target: IdempotentFunction,
    construct_id: str,
    *,
    table: dynamodb.ITable,
    encryption_key: kms.IKey | None = None,
    batch_size: int = 50,
    window: Duration | None = None,
    event_names: Sequence[str] = ("INSERT",),
    max_attempts: int = 100,
    on_failure: sqs.IQueue | None = None,
    partial_batch_answers: bool = True,
) -> lambda_.CfnEventSourceMapping:
    """Call a function with the changes of a table, in the order in which they were made.

    A failing batch is tried `max_attempts` times in all, from its first failed record. Then Lambda
    sends the positions of the records to the queue `on_failure`, and goes on without them.

    Raises:
        ValueError: The table has no stream, or Lambda refuses such an event source.
    """
    faults = [
        *source_faults(
            batch_size=batch_size,
            window_s=_given_seconds(window),
            max_concurrency=None,
            is_queue=False,
            is_fifo=False,
        ),
        *_stream_faults(event_names, max_attempts),
    ]
    if table.table_stream_arn is None:
        faults.append(_NO_STREAM.format(table.node.path))
    if on_failure is not None and on_failure.fifo:
        faults.append("on_failure is a FIFO queue: Lambda cannot send failures to one")
    refuse(faults, scope=target, construct_id=construct_id, kind="Event source")
    stream_arn = grant_stream(target, table, encryption_key=encryption_key)
    destination: lambda_.CfnEventSourceMapping.DestinationConfigProperty | None = None
    if on_failure:
        grant_send(target, on_failure)
        destination = lambda_.CfnEventSourceMapping.DestinationConfigProperty(
            on_failure=lambda_.CfnEventSourceMapping.OnFailureProperty(
                destination=on_failure.queue_arn
            )
        )
    mapping = lambda_.CfnEventSourceMapping(
        target,
        construct_id,
        function_name=_called(target),
        event_source_arn=stream_arn,
        # The table may be older than the function.
        starting_position="TRIM_HORIZON",
        batch_size=batch_size,
        maximum_batching_window_in_seconds=_seconds(window) or None,
        function_response_types=_PARTIAL_ANSWERS if partial_batch_answers else None,
        # A partial answer says where to go on. Halving a batch would repeat what has succeeded.
        bisect_batch_on_function_error=False,
        maximum_retry_attempts=max_attempts - 1,
        destination_config=destination,
        filter_criteria=_filter(event_names),
    )
    return _told_how(mapping, partial_batch_answers=partial_batch_answers)


def connect_queue(
    target: IdempotentFunction,
    construct_id: str,
    *,
    queue: sqs.IQueue,
    batch_size: int = 10,
    window: Duration | None = None,
    max_concurrency: int | None = None,
    partial_batch_answers: bool = True,
) -> lambda_.CfnEventSourceMapping:
    """Call a function with the messages of a queue. Those that it reports as failed come again.

    The synthesis fails if the queue's visibility timeout is too short. That of an imported queue
    cannot be checked.

    Raises:
        ValueError: Lambda refuses such an event source.
    """
    faults = queue_source_faults(
        queue, batch_size=batch_size, window=window, max_concurrency=max_concurrency
    )
    refuse(faults, scope=target, construct_id=construct_id, kind="Event source")
    grant_receive(target, queue)
    scaling: lambda_.CfnEventSourceMapping.ScalingConfigProperty | None = None
    if max_concurrency is not None:
        scaling = lambda_.CfnEventSourceMapping.ScalingConfigProperty(
            maximum_concurrency=max_concurrency
        )
    mapping = lambda_.CfnEventSourceMapping(
        target,
        construct_id,
        function_name=_called(target),
        event_source_arn=queue.queue_arn,
        batch_size=batch_size,
        maximum_batching_window_in_seconds=_seconds(window) or None,
        function_response_types=_PARTIAL_ANSWERS if partial_batch_answers else None,
        scaling_config=scaling,
    )
    return _told_how(mapping, partial_batch_answers=partial_batch_answers)


def queue_source_faults(
    queue: sqs.IQueue, *, batch_size: int, window: Duration | None, max_concurrency: int | None
) -> list[str]:
    """Why Lambda would refuse this event source."""
    faults = source_faults(
        batch_size=batch_size,
        window_s=_given_seconds(window),
        max_concurrency=max_concurrency,
        is_queue=True,
        is_fifo=queue.fifo,
    )
    return [*faults]


def _called(target: IdempotentFunction) -> str:
    # An alias goes by its ARN. Lambda takes either.
    return target.rollout.alias.function_arn if target.rollout else target.function.function_name


def _stream_faults(event_names: Sequence[str], max_attempts: int) -> Iterator[str]:
    if not event_names or not {*event_names} <= {*EVENT_NAMES}:
        yield f"event_names is {[*event_names]!r}: use some of {', '.join(EVENT_NAMES)}"
    if not 1 <= max_attempts <= _ATTEMPTS_MAX:
        yield f"max_attempts is {max_attempts}: use 1 to {_ATTEMPTS_MAX}"


def _told_how(
    mapping: lambda_.CfnEventSourceMapping, *, partial_batch_answers: bool
) -> lambda_.CfnEventSourceMapping:
    if not partial_batch_answers:
        # The caller asked for it, so the check of the templates must not report it.
        mapping.add_metadata(WHOLE_BATCHES, "a failed record repeats its whole batch")
    return mapping


def _given_seconds(window: Duration | None) -> float:
    return window.to_seconds(integral=False) if window else 0


def _seconds(window: Duration | None) -> int:
    return round(_given_seconds(window))


def _filter(
    event_names: Sequence[str],
) -> lambda_.CfnEventSourceMapping.FilterCriteriaProperty | None:
    if {*event_names} == {*EVENT_NAMES}:
        return None
    pattern = json.dumps({"eventName": sorted(event_names)})
    return lambda_.CfnEventSourceMapping.FilterCriteriaProperty(
        filters=[lambda_.CfnEventSourceMapping.FilterProperty(pattern=pattern)]
    )
