"""Queues, encrypted and over TLS only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_sqs as sqs

from .faults import overridden, without_none

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_cdk import aws_kms as kms
    from constructs import Construct

    from .faults import Props

# The longest that SQS allows, so that a person has time to find the message. It counts from when
# the message was first sent, so a queue must keep its own messages for a shorter time.
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
DEAD_LETTER_RETENTION = Duration.days(14)


def create_queue(
    scope: Construct,
    construct_id: str,
    *,
    retention: Duration = DEAD_LETTER_RETENTION,
    fifo: bool = False,
    visibility_timeout: Duration | None = None,
    dead_letters: sqs.IQueue | None = None,
    max_receives: int = 5,
    keeps_data: bool = True,
    encryption_key: kms.IKey | None = None,
    queue_props: Mapping[str, Any] | None = None,
) -> sqs.Queue:
    """Create a queue. The defaults fit a queue whose messages are for people.

    Args:
        scope: Where it is created.
        construct_id: Its id there.
        retention: How long a message is kept.
        fifo: Whether its messages are in order.
        visibility_timeout: How long a received message is hidden from others.
        dead_letters: The queue that a message moves to after `max_receives`, if any.
        max_receives: See `dead_letters`.
        keeps_data: Whether it is kept when the stack is deleted.
        encryption_key: A customer's key; without one, SQS's own, at no cost.
        queue_props: Overrides of any property of `aws_sqs.Queue`, by the CDK's names.
    """
    queue_props = without_none(queue_props)
    encryption_key = queue_props.get("encryption_master_key", encryption_key)
    encryption = sqs.QueueEncryption.KMS if encryption_key else sqs.QueueEncryption.SQS_MANAGED
    defaults: Props = {
        # CloudFormation refuses fifo=False for a standard queue.
        "fifo": True if fifo else None,
        "encryption": encryption,
        "encryption_master_key": encryption_key,
        "enforce_ssl": True,
        "retention_period": retention,
        "visibility_timeout": visibility_timeout,
        "dead_letter_queue": (
            sqs.DeadLetterQueue(queue=dead_letters, max_receive_count=max_receives)
            if dead_letters
            else None
        ),
        "removal_policy": RemovalPolicy.RETAIN if keeps_data else RemovalPolicy.DESTROY,
    }
    return sqs.Queue(scope, construct_id, **overridden(defaults, queue_props))
