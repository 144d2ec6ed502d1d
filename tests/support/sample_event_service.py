"""The description of a service with a stream and queues, made of `sample_event_functions`."""

from __future__ import annotations

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
    TableName,
)

_HERE = "tests.support.sample_event_functions"

OUTBOX = Table(name="outbox", partition_key=Attribute(name="pk"), stream=True)
WORK = Queue(name="work", max_receives=2)
ORDERED = Queue(name="ordered", fifo=True)
# Of records that the stream's function could not cope with.
ESCALATED = Queue(name="escalated")

RELAY = Function(
    name="relay",
    handler=f"{_HERE}.ask",
    timeout_s=10,
    streams=(StreamTrigger(table="outbox", batch_size=2, max_attempts=2, on_failure="escalated"),),
)
WORKER = Function(
    name="worker",
    handler=f"{_HERE}.ask",
    timeout_s=10,
    queues=(QueueTrigger(queue="work", batch_size=2, max_concurrency=2),),
)
SERVICE = Service(
    name="events",
    functions=(RELAY, WORKER),
    tables=(OUTBOX,),
    queues=(WORK, ORDERED, ESCALATED),
)

# What the clock calls, and one function that only somebody's hand does in a test.
CLOCK = Service(
    name="clock",
    functions=(
        Function(
            name="often",
            handler=f"{_HERE}.ask",
            timeout_s=10,
            schedule=ScheduleTrigger(every_minutes=1),
        ),
        Function(
            name="daily",
            handler=f"{_HERE}.ask",
            timeout_s=10,
            schedule=ScheduleTrigger(daily_at_hour_utc=3),
        ),
        Function(name="never", handler=f"{_HERE}.ask", timeout_s=10),
    ),
    tables=(),
)

# The whole way: item, stream, queue, item.
CHAIN = Service(
    name="chain",
    functions=(
        Function(
            name="forward",
            handler=f"{_HERE}.forward",
            timeout_s=10,
            streams=(StreamTrigger(table="outbox"),),
            environment={"OUTBOX_TABLE": TableName("outbox"), "QUEUE_URL": QueueUrl("ordered")},
            deletes=("outbox",),
            sends_to=("ordered",),
        ),
        Function(
            name="finish",
            handler=f"{_HERE}.finish",
            timeout_s=10,
            queues=(QueueTrigger(queue="ordered"),),
            environment={"DONE_TABLE": TableName("done")},
            writes=("done",),
        ),
    ),
    tables=(OUTBOX, Table(name="done", partition_key=Attribute(name="pk"))),
    queues=(ORDERED,),
)
