"""A service with streams and queues of many kinds, synthesised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from infra.node import use_packaged_node
from oncekey_local.description import (
    Attribute,
    Function,
    Queue,
    QueueTrigger,
    QueueUrl,
    ScheduleTrigger,
    Service,
    StreamTrigger,
    Table,
    records_table,
)

# The CDK starts node as it is imported.
use_packaged_node()

from aws_cdk.assertions import Template  # noqa: E402

from infra.composition import compose  # noqa: E402
from tests.support.templates import Synthesised  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from aws_cdk import App, Stack

# Timeout of the function and window of its trigger.
PACES = ((1, 0), (20, 0), (29, 5), (120, 300), (900, 7))


def _pace(timeout_s: int, window_s: int) -> str:
    return f"pace-{timeout_s}-{window_s}"


def _worker(timeout_s: int, window_s: int) -> Function:
    trigger = QueueTrigger(queue=_pace(timeout_s, window_s), window_s=window_s)
    return Function(
        name=f"worker-{timeout_s}-{window_s}",
        handler="functions.none.handler",
        timeout_s=timeout_s,
        queues=(trigger,),
    )


EVENTS = Service(
    name="events",
    functions=(
        Function(
            name="outbox-relay",
            handler="functions.none.handler",
            timeout_s=30,
            streams=(
                StreamTrigger(
                    table="outbox", batch_size=25, window_s=3, max_attempts=4, on_failure="lost"
                ),
            ),
            environment={
                "WORK": QueueUrl("ordered"),
                "DEAD": QueueUrl("ordered-dead-letters"),
            },
            reads=("outbox",),
            updates=("outbox",),
            deletes=("outbox",),
            relays_from="plain",
            sends_to=("ordered", "ordered-dead-letters"),
        ),
        Function(
            name="auditor",
            handler="functions.none.handler",
            timeout_s=30,
            streams=(
                StreamTrigger(
                    table="outbox",
                    event_names=("REMOVE", "INSERT", "MODIFY"),
                    max_attempts=1,
                    partial_batch_answers=False,
                ),
            ),
        ),
        Function(
            name="ordered",
            handler="functions.none.handler",
            timeout_s=10,
            queues=(QueueTrigger(queue="ordered", batch_size=7, max_concurrency=3),),
        ),
        Function(
            name="patient",
            handler="functions.none.handler",
            timeout_s=10,
            queues=(QueueTrigger(queue="patient", partial_batch_answers=False),),
        ),
        Function(
            name="reconciler",
            handler="functions.none.handler",
            timeout_s=60,
            schedule=ScheduleTrigger(every_minutes=1),
            reconciles="records",
            scans=("outbox",),
        ),
        Function(
            name="ledger",
            handler="functions.none.handler",
            timeout_s=600,
            schedule=ScheduleTrigger(daily_at_hour_utc=3, max_attempts=3, on_failure="lost"),
            reads=("plain",),
            scans=("plain",),
        ),
        Function(
            name="sweeper",
            handler="functions.none.handler",
            timeout_s=10,
            schedule=ScheduleTrigger(every_minutes=1440),
        ),
        *(_worker(timeout_s, window_s) for timeout_s, window_s in PACES),
    ),
    tables=(
        Table(name="outbox", partition_key=Attribute(name="pk"), stream=True),
        Table(name="plain", partition_key=Attribute(name="id")),
        records_table("records"),
    ),
    queues=(
        Queue(name="ordered", fifo=True, max_receives=3, retention_days=2),
        Queue(name="patient", visibility_timeout_s=500),
        Queue(name="lost"),
        *(Queue(name=_pace(timeout_s, window_s)) for timeout_s, window_s in PACES),
    ),
)


def compose_events(context: dict[str, str] | None = None, outdir: str | None = None) -> App:
    """The service, not synthesised yet."""
    return compose(service=EVENTS, context=context or {}, outdir=outdir)


def synthesise_events(context: dict[str, str], folder: Path) -> Synthesised:
    """The service of this context."""
    app = compose_events(context, str(folder))
    stage = context.get("stage", "dev")
    prefix = f"events-{stage}"
    stateful, service = (
        cast("Stack", app.node.find_child(f"{prefix}-{name}")) for name in ("stateful", "service")
    )
    return Synthesised(stage, Template.from_stack(stateful), Template.from_stack(service), folder)


def named(template: Template, kind: str, prefix: str) -> dict[str, Any]:
    """The properties of the only resource of this kind whose logical id begins like this."""
    found = template.find_resources(kind).items()
    (resource,) = [
        one for key, one in found if key.startswith(prefix) and len(key) == len(prefix) + 8
    ]
    properties: dict[str, Any] = dict(resource)["Properties"]
    return properties


def below_the_arn(resource: Any) -> str:
    """What a grant adds to an ARN: an index of the table, or the objects of the bucket."""
    parts = resource.get("Fn::Join", ("", ()))[1]
    return next((part for part in parts if isinstance(part, str) and part.startswith("/")), "")


def called(reference: dict[str, Any]) -> str:
    """The function that a template calls, by its logical id without the hash, through its alias."""
    name: str = reference["Ref"] if "Ref" in reference else reference["Fn::GetAtt"][0]
    return name[:-8].replace("RolloutAlias", "Function")
