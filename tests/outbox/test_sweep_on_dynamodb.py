"""What has stayed in the outbox is sent again, and what is swept is what is open, on moto."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest

from oncekey.errors import StoreError
from oncekey.outbox.inbox import delivered
from oncekey.outbox.relay import OutboxRelay
from oncekey.outbox.sweep import OutboxSweep
from oncekey.reconciler.settings import ReconcilerSettings
from oncekey.record.message import Message
from oncekey.store.dynamodb.outbox import OutboxTable, message_item
from oncekey.store.sqs import Entry, Rejected, SqsQueue
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.dynamodb import LossyTransport, dynamodb_table, make_table
from tests.support.many_records import Reads, multiply
from tests.support.reconciled import RUN_MS, Escalations, reconciler
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey.reconciler.report import Report

OUTBOX = "outbox-under-test"
NOW_MS = ManualClock().now_ms()
GRACE_MS = ReconcilerSettings().outbox_grace_ms
SENT, OPEN = 2_000, 5


class Queue(SqsQueue):
    """A queue that keeps what it is sent. `happens` is called before each batch, and may raise."""

    def __init__(self) -> None:
        super().__init__("https://sqs.example/work")
        self.bodies: list[str] = []
        self.happens: Callable[[], object] = lambda: None
        self.refuses: set[str] = set()
        self.code = "TooLarge"

    def send(self, entries: Sequence[Entry]) -> list[Rejected]:
        """See `SqsQueue.send`."""
        self.happens()
        taken = [each for each in entries if each.id not in self.refuses]
        self.bodies += [each.body for each in taken]
        return [Rejected(each.id, self.code, True) for each in entries if each not in taken]

    @property
    def ids(self) -> list[str]:
        """The ids of the messages that it has got, in their order."""
        return [delivered(body).id for body in self.bodies]


class Line:
    """An outbox table, a queue, a relay between them, and a reconciler that sweeps."""

    def __init__(self, client: DynamoDBClient) -> None:
        self.client = client
        self.clock, self.store, self.queue = ManualClock(), MemoryStore(), Queue()
        self.table = OutboxTable(OUTBOX, client=client)
        self.relay = OutboxRelay(table=self.table, queue=self.queue)
        self.reads = Reads(client)

    def write(self, *numbers: int, age_ms: int = GRACE_MS + 1) -> list[Message]:
        """Messages that nobody has sent yet."""
        messages = [message(number, age_ms) for number in numbers]
        for each in messages:
            self.client.put_item(TableName=OUTBOX, Item=message_item(each))
        return messages

    def sweeps(self, **options: Any) -> Report:
        """A run of the reconciler."""
        sweep = OutboxSweep(table=self.table, relay=self.relay)
        return reconciler(self, outbox=sweep, **options).run(self.clock.now_ms() + RUN_MS)

    def in_table(self) -> set[str]:
        """The ids that are still there."""
        return {item["id"]["S"] for item in self.client.scan(TableName=OUTBOX)["Items"]}


def message(number: int, age_ms: int) -> Message:
    """A message that was written so long ago."""
    return Message(
        id=f"message-{number:03d}",
        topic="payment.requested",
        payload='{"n":1}',
        operation_id="0f8fad5b-d9cb-469f-a165-70867728950e",
        operation="POST /payments",
        tenant="acme",
        created_at_ms=NOW_MS - age_ms,
    )


@pytest.fixture(scope="module")
def client() -> Iterator[DynamoDBClient]:
    """A client of moto."""
    with dynamodb_table() as client:
        yield client


@pytest.fixture
def line(client: DynamoDBClient) -> Iterator[Line]:
    """A line of its own for each test."""
    make_table(client, OUTBOX)
    yield Line(client)
    client.delete_table(TableName=OUTBOX)


def stream_event(messages: Sequence[Message]) -> dict[str, Any]:
    """The event of the table's stream on which these were written."""
    changes = [{"NewImage": message_item(each), "SequenceNumber": "1"} for each in messages]
    return {"Records": [{"eventName": "INSERT", "dynamodb": change} for change in changes]}


@pytest.mark.case(40)
def test_a_sweep_reads_what_is_open_and_not_what_was_sent(line: Line) -> None:
    """Of 2,005 messages 2,000 were sent by the relay: a sweep reads the five that are open.

    Red when what was sent stays in the table, marked or not.
    """
    (first,) = line.write(0)
    sent = [replace(first, id=each) for each in multiply(OUTBOX, first.id, SENT - 1, key="id")]
    assert len(line.in_table()) > OPEN
    line.relay(stream_event([first, *sent]), None)
    assert len(line.queue.bodies) == SENT
    line.write(*range(1, 1 + OPEN))
    line.queue.bodies.clear()
    before = line.reads.scanned

    assert line.sweeps().resent == OPEN
    assert line.reads.scanned - before == OPEN
    assert line.queue.ids == [f"message-{number:03d}" for number in range(1, 1 + OPEN)]


@pytest.mark.case(40)
def test_a_sweep_sends_what_is_older_than_the_grace_and_nothing_younger(line: Line) -> None:
    """What was written a moment ago is its relay's; what is older than the grace is sent, once, and
    leaves the table.

    Red when the sweep sends what the relay is about to send.
    """
    line.write(1, 2)
    line.write(3, age_ms=GRACE_MS)
    line.write(4, age_ms=0)

    assert line.sweeps().resent == 2
    assert (sorted(line.queue.ids), line.in_table()) == (
        ["message-001", "message-002"],
        {"message-003", "message-004"},
    )
    assert line.sweeps().resent == 0
    line.clock.advance(1)
    assert line.sweeps().resent == 1
    line.clock.advance(GRACE_MS)
    assert line.sweeps().resent == 1
    assert (len(line.queue.ids), line.in_table()) == (4, set())


@pytest.mark.parametrize("moment", ["before it sends", "after it has sent"])
def test_several_sweeps_at_once_lose_nothing(line: Line, moment: str) -> None:
    """Two sweeps, or a sweep and the relay, may send a message twice under one id; none is lost,
    and the table is empty afterwards.
    """
    line.write(*range(15))
    other = Line(line.client)
    other.queue = line.queue

    def meanwhile() -> None:
        line.queue.happens = lambda: None
        other.relay = OutboxRelay(table=other.table, queue=line.queue)
        other.sweeps()

    if moment == "before it sends":
        line.queue.happens = meanwhile
        line.sweeps()
    else:
        once = [True]

        def before_delete(**_: object) -> None:
            if once and once.pop():
                meanwhile()

        line.client.meta.events.register("before-call.dynamodb.BatchWriteItem", before_delete)
        line.sweeps()

    assert set(line.queue.ids) == {f"message-{number:03d}" for number in range(15)}
    assert len(line.queue.ids) <= 30
    assert line.in_table() == set()


def test_a_queue_that_is_down_costs_nothing_but_time(line: Line) -> None:
    """What the queue did not take stays in the table, and a run that could send nothing fails; the
    next sweep sends it.
    """
    line.write(*range(3))

    def is_down() -> None:
        raise StoreError("no route to the queue", transient=True)

    line.queue.happens = is_down
    with pytest.raises(StoreError, match="nothing of what is due could be done, 3 times"):
        line.sweeps()
    assert len(line.in_table()) == 3
    line.queue.happens = lambda: None

    assert (line.sweeps().resent, line.in_table()) == (3, set())


def test_what_the_queue_never_takes_holds_nothing_up(line: Line) -> None:
    """A message that is refused for good stays, is counted each time, and the others are sent."""
    line.write(*range(12))
    line.queue.refuses = {"message-000"}

    report = line.sweeps()

    assert (report.resent, report.failed) == (11, 1)
    assert line.in_table() == {"message-000"}


def test_a_delete_whose_answer_is_lost_sends_nothing_again(line: Line) -> None:
    """What was deleted without an answer counts as failed, and is gone at the next sweep."""
    line.write(1)
    # Of its own: moto's client is shared by the module.
    client: DynamoDBClient = boto3.client("dynamodb", region_name="eu-central-1")
    other = Line(client)
    LossyTransport(client).lose("BatchWriteItem")

    with pytest.raises(StoreError, match="nothing of what is due could be done, 1 times"):
        other.sweeps()
    assert line.in_table() == set()
    assert line.sweeps().resent == 0


@pytest.mark.fault("K5.3")
def test_a_message_that_is_set_aside_waits_for_a_person_and_is_put_back(line: Line) -> None:
    """What the queue never takes is set aside by the reconciler's sweep, a person is told once, and
    nobody sends it until it is put back; the item stays whole.

    Red when it is tried at each run, when nobody is told, or when its payload is lost.
    """
    line.write(*range(12))
    line.queue.refuses, line.queue.code = {"message-003"}, "InvalidMessageContents"
    escalations = Escalations()

    reports = [line.sweeps(escalations=escalations) for _ in range(4)]

    assert [each.resent for each in reports] == [11, 0, 0, 0]
    assert [each.set_aside for each in reports] == [1, 0, 0, 0]
    assert [body["message_id"] for body in escalations.bodies] == ["message-003"]
    assert escalations.bodies[0]["reason"] == "InvalidMessageContents"
    line.clock.advance(7 * 24 * 3_600_000 + 1)
    line.sweeps(escalations=escalations)
    assert len(escalations.bodies) == 2
    line.queue.refuses = set()
    assert line.table.requeue("message-003")
    assert (line.sweeps().resent, line.in_table()) == (1, set())
    assert line.queue.ids[-1] == "message-003"


@pytest.mark.fault("K5.3")
def test_the_tries_of_a_message_are_counted_in_its_item(line: Line) -> None:
    """A refusal that may have another cause is tried by five runs, whichever process they are in.

    Red when the count is lost with the sandbox.
    """
    line.write(1)
    line.queue.refuses, line.queue.code = {"message-001"}, "MissingParameter"

    ended: list[str | int] = []
    for _ in range(7):
        other = Line(line.client)
        other.queue = line.queue
        other.relay = OutboxRelay(table=other.table, queue=line.queue)
        try:
            ended.append(other.sweeps().set_aside)
        except StoreError as error:
            ended.append(error.reason)

    # A run that could do nothing of what was due fails, so that its alarm tells of it.
    nothing_done = "nothing of what is due could be done, 1 times: see the log"
    assert ended == [nothing_done] * 4 + [1, 0, 0]


def test_nothing_is_made_of_a_message_that_has_left(line: Line) -> None:
    """What another relay has deleted is not counted, set aside, noted or put back: no update makes
    an item of it.

    Red when an update has no condition.
    """
    table = line.table

    assert table.count_try("message-001") is None
    assert not table.set_aside("message-001", "why", 1)
    assert not table.mark_told("message-001", 1)
    assert not table.requeue("message-001")
    assert line.in_table() == set()


def test_it_is_said_whether_a_note_was_made(line: Line) -> None:
    """Of a message that is there, that a person was told of it."""
    line.write(1)

    assert line.table.mark_told("message-001", 1)


def test_an_item_that_is_no_message_is_set_aside(line: Line) -> None:
    """What somebody else has put into the table is told to a person, and read no more.

    Red when it is met, and logged, at every run.
    """
    odd: Any = {"id": {"S": "odd"}, "created_at": {"N": "1"}, "payload": {"N": "1"}}
    line.client.put_item(TableName=OUTBOX, Item=odd)
    escalations = Escalations()

    reports = [line.sweeps(escalations=escalations) for _ in range(3)]

    assert [each.set_aside for each in reports] == [1, 0, 0]
    assert [body["message_id"] for body in escalations.bodies] == ["odd"]


def test_an_item_without_a_time_is_set_aside(line: Line) -> None:
    """The relay may not have seen it, so the sweep tells of it, too.

    Red when it waits unseen for ever.
    """
    (odd,) = line.write(1)
    item = {name: value for name, value in message_item(odd).items() if name != "created_at"}
    line.client.put_item(TableName=OUTBOX, Item=item)
    escalations = Escalations()

    reports = [line.sweeps(escalations=escalations) for _ in range(3)]

    assert [each.set_aside for each in reports] == [1, 0, 0]
    assert [body["message_id"] for body in escalations.bodies] == ["message-001"]


@pytest.mark.parametrize(
    ("name", "is_sent"),
    [("created_at", False), ("set_aside_at", False), ("tries", True), ("sequence", True)],
)
def test_a_number_with_a_fraction_stops_no_sweep(line: Line, name: str, is_sent: bool) -> None:
    """An item with a number that no relay writes is sent, or told to a person. The others are sent.

    Red when one such item fails every run of the reconciler.
    """
    odd, _ = line.write(1, 2)
    line.client.put_item(
        TableName=OUTBOX, Item=message_item(odd) | {name: {"N": f"{odd.created_at_ms}.5"}}
    )
    escalations = Escalations()

    for _ in range(3):
        line.sweeps(escalations=escalations)

    told = [body["message_id"] for body in escalations.bodies]
    assert (sorted(line.queue.ids), told) == (
        (["message-001", "message-002"], []) if is_sent else (["message-002"], ["message-001"])
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"sequence": 205},
        {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    ],
    ids=str,
)
def test_a_place_in_the_operation_and_its_trace_are_kept(
    line: Line, changes: dict[str, Any]
) -> None:
    """The sequence and the trace of a message are in its item, and read again."""
    (first,) = line.write(1)
    line.client.put_item(TableName=OUTBOX, Item=message_item(replace(first, **changes)))

    (read,) = line.table.waiting(NOW_MS).messages

    assert read == replace(first, **changes)
