"""A queue of the description as an SQS queue, with the queue of its dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs

from infra.names import pascal
from oncekey_local.described_event_faults import DEAD_LETTER_RETENTION_DAYS

if TYPE_CHECKING:
    from constructs import Construct

    from infra.environments import Environment
    from oncekey_local.description import Queue, Service


def create_queues(
    scope: Construct, queue: Queue, service: Service, environment: Environment
) -> dict[str, sqs.Queue]:
    """The queue and that of its dead letters, by their names in the description.

    Nothing is sent or received without TLS, and everything is encrypted under SQS's own key. Dead
    letters are kept as long as SQS keeps anything: a person has to find them.
    """
    dead_letters = _create(
        scope, queue.dead_letters, queue, environment, retention_days=DEAD_LETTER_RETENTION_DAYS
    )
    created = _create(
        scope,
        queue.name,
        queue,
        environment,
        retention_days=queue.retention_days,
        visibility_timeout=Duration.seconds(service.visibility_timeout_s(queue)),
        dead_letter_queue=sqs.DeadLetterQueue(
            queue=dead_letters, max_receive_count=queue.max_receives
        ),
    )
    queues = {queue.name: created, queue.dead_letters: dead_letters}
    for name in {*queues} & _told_of_failed_schedules(service):
        queues[name].add_to_resource_policy(_let_events_send(Stack.of(scope), queues[name]))
    return queues


def _told_of_failed_schedules(service: Service) -> set[str | None]:
    return {function.schedule.on_failure for function in service.functions if function.schedule}


def _let_events_send(stack: Stack, queue: sqs.Queue) -> iam.PolicyStatement:
    # Any rule of this account and Region: the one rule is in the stack that is built on this one.
    rules = stack.format_arn(service="events", resource="rule", resource_name="*")
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal("events.amazonaws.com")],
        actions=["sqs:SendMessage"],
        resources=[queue.queue_arn],
        conditions={"ArnLike": {"aws:SourceArn": rules}},
    )


def _create(
    scope: Construct,
    name: str,
    queue: Queue,
    environment: Environment,
    *,
    retention_days: int,
    visibility_timeout: Duration | None = None,
    dead_letter_queue: sqs.DeadLetterQueue | None = None,
) -> sqs.Queue:
    return sqs.Queue(
        scope,
        f"{pascal(name)}Queue",
        # Of a standard queue CloudFormation must not be told that it is none.
        fifo=True if queue.fifo else None,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=Duration.days(retention_days),
        visibility_timeout=visibility_timeout,
        dead_letter_queue=dead_letter_queue,
        removal_policy=RemovalPolicy.RETAIN if environment.keeps_data else RemovalPolicy.DESTROY,
    )
