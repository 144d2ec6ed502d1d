"""The relay against a queue that refuses what SQS refuses, fails partly, or is slow."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.errors import ConfigurationError, StoreError
from oncekey.flow.driver import NO_STORE, drive
from oncekey.outbox.relay import OutboxRelay
from oncekey.testing.memory import ManualClock
from tests.support.memory_outbox import Lambda, MemoryOutbox, failed_of, stream_of, waiting
from tests.support.strict_sqs import StrictSqs, refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncekey.record.message import Message


class Line:
    """A table with messages, the queue, and a relay between them."""

    def __init__(self, messages: Sequence[Message], sqs: StrictSqs, **options: Any) -> None:
        self.sqs = sqs
        self.table = MemoryOutbox(*messages)
        self.relay = OutboxRelay(table=self.table, queue=sqs.queue, **options)
        self.event = stream_of(messages)
        self.poller = Lambda(self.relay)

    def relays(self, context: Any = None) -> list[str]:
        """One invocation; the sequence numbers that have failed."""
        return failed_of(self.relay(self.event, context))


def down(_ids: list[str]) -> None:
    """The queue does not answer."""
    raise ConnectionError("no route to the queue")


def unanswered(_verb: str) -> None:
    """The table does not answer."""
    raise StoreError("no route to the table", transient=True)


def turns_until_set_aside(line: Line) -> int:
    """How many turns send the only message of `line` until it is set aside."""
    for number in range(1, 201):
        turn = line.relay.turn(lambda: True)
        waits = list(line.table.messages.values())
        drive(turn.send(waits), store=NO_STORE, clock=ManualClock())
        if turn.set_aside:
            return number
    raise AssertionError("it was never set aside")


def ids_of(messages: Sequence[Message]) -> list[str]:
    """Their ids, in order."""
    return [message.id for message in messages]


@pytest.mark.fault("K5.4")
@pytest.mark.parametrize("code", ["InvalidMessageContents", "InvalidParameterValue", "Odd"])
@pytest.mark.parametrize("refuses_whole", [True, False])
def test_one_entry_that_is_refused_keeps_no_other_from_being_sent(
    code: str, refuses_whole: bool
) -> None:
    """Where SQS refuses a batch for one entry, the others go singly, and nothing is reported.

    Red when the refusal of a batch counts for each of its entries.
    """
    messages = [waiting(number) for number in range(25)]
    line = Line(messages, StrictSqs(refuses_whole=refuses_whole))
    line.sqs.refuses = lambda body: code if '"n":13}' in body else None

    assert line.relays() == []
    assert sorted(line.sqs.ids) == ids_of(messages[:13] + messages[14:])
    assert set(line.table.messages) == {"message-0013"}
    assert ("message-0013" in line.table.aside) is (code == "InvalidMessageContents")


@pytest.mark.fault("K5.4")
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("AccessDenied", 403),
        ("AWS.SimpleQueueService.NonExistentQueue", 400),
        ("KmsDisabled", 400),
        ("KMS.AccessDeniedException", 400),
        ("RequestThrottled", 403),
        ("InternalError", 500),
    ],
)
def test_a_refusal_that_speaks_of_the_queue_sets_no_message_aside(code: str, status: int) -> None:
    """While the queue, its key or the role is at fault, all messages stay due and are reported, and
    no entry is tried singly.

    Red when a deployment's fault counts as the messages'.
    """
    messages = [waiting(number) for number in range(15)]
    line = Line(messages, StrictSqs())

    def refuses(_ids: list[str]) -> None:
        raise refusal(code, status)

    line.sqs.happens = refuses
    for _ in range(10):
        assert len(line.relays()) == 15
    assert (line.table.aside, line.table.tries) == ({}, {})
    assert {len(call) for call in line.sqs.calls} == {10, 5}


@pytest.mark.fault("K5.3")
def test_what_may_be_refused_for_another_reason_is_tried_five_times() -> None:
    """A refusal that may be the configuration's fault is met again, by later turns; with the fifth
    the message is set aside.

    Red when the tries have no bound, or the first is the last.
    """
    line = Line([waiting(1)], StrictSqs())
    line.sqs.refuses = lambda _body: "MissingParameter"

    assert turns_until_set_aside(line) == 5
    assert line.table.aside["message-0001"].reason == "MissingParameter (5 times)"


@pytest.mark.fault("K5.3")
def test_what_fails_for_a_reason_of_the_queues_own_is_tried_a_hundred_times() -> None:
    """An outage of the queue sets no message aside.

    Red when such a failure counts as a refusal.
    """
    line = Line([waiting(1)], StrictSqs())
    line.sqs.happens = lambda ids: dict.fromkeys(ids, "InternalError")

    assert turns_until_set_aside(line) == 100


@pytest.mark.fault("K5.1")
def test_a_message_that_no_queue_takes_is_set_aside_by_the_relay() -> None:
    """An item that an earlier release wrote, with half a character or too large, is set aside at
    once; a tenant's name with a space makes a group like any other.

    Red when such a message is sent, or stays due.
    """
    messages = [
        waiting(1, payload='"\ud800"'),
        waiting(2, payload='"' + "x" * 300_000 + '"'),
        waiting(3, tenant="Müller & Söhne"),
        waiting(4, tenant="x" * 129),
        waiting(5, payload='"\uffff"'),
        waiting(6, id="message-0006 of an odd id " + "x" * 128),
    ]
    line = Line(messages, StrictSqs(fifo=True))

    assert line.relays() == []
    assert line.sqs.ids == ids_of(messages[2:])
    assert list(itertools.chain(*line.sqs.calls)) == line.sqs.ids
    assert sorted(line.table.aside) == ids_of(messages[:2])


@pytest.mark.fault("K4.7")
@pytest.mark.parametrize("fifo", [False, True])
def test_an_entry_that_fails_has_no_other_sent_again(fifo: bool) -> None:
    """Of fifty messages one fails at every try, for a reason of the queue's own: Lambda sends the
    records behind it again, and the relay passes over what it has sent. After a few tries it is
    left to the sweep.

    Red when what stands behind a failure is sent at each attempt, or the stream stands still for
    one message.
    """
    messages = [waiting(number, tenant=f"tenant-{number}") for number in range(50)]
    line = Line(messages, StrictSqs(fifo=fifo))
    sent: list[str] = []

    def fails(ids: list[str]) -> dict[str, str]:
        sent.extend(each for each in ids if each != "message-0003")
        return {"message-0003": "InternalError"}

    line.sqs.happens = fails

    assert line.poller.delivers(line.event) == []
    assert line.poller.attempts == 4
    assert sorted(sent) == ids_of(messages[:3] + messages[4:])
    assert set(line.table.messages) == {"message-0003"}


@pytest.mark.fault("K4.7")
def test_a_relay_ends_before_its_invocation_does() -> None:
    """With a queue that takes ten seconds for each call, a relay of a minute begins no call that it
    could not end, and reports what it has not begun.

    Red when the relay does not ask for the time that is left.
    """
    messages = [waiting(number) for number in range(100)]
    line = Line(messages, StrictSqs())
    context = Context(60_000)

    def slow(_ids: list[str]) -> None:
        context.left_ms -= 10_000

    line.sqs.happens = slow

    failed = line.relays(context)

    assert context.left_ms > 0
    assert len(line.sqs.calls) == 5
    assert failed == [str(number) for number in range(950, 1000)]


@pytest.mark.fault("K4.7")
@pytest.mark.parametrize("lasts_ms", [1, 3_000, 9_000])
def test_a_short_invocation_gets_something_done(lasts_ms: int) -> None:
    """However short an invocation is, it sends a batch.

    Red when the margin is longer than the invocation.
    """
    line = Line([waiting(number) for number in range(20)], StrictSqs())
    context = Context(lasts_ms)
    line.sqs.happens = lambda _ids: context.spend(lasts_ms)

    assert len(line.relays(context)) == 10
    assert len(line.sqs.ids) == 10


def test_a_queue_that_is_down_is_not_asked_for_ever() -> None:
    """After three failures in a row a turn asks no more; everything is reported."""
    messages = [waiting(number) for number in range(100)]
    line = Line(messages, StrictSqs())
    line.sqs.happens = down

    assert len(line.relays()) == 100
    assert len(line.sqs.calls) == 3


def test_the_failures_of_the_first_batch_are_reported_after_the_second() -> None:
    """Where the first of two batches fails and the second does not, exactly the first is reported.

    Red when the answer of a batch replaces that of the one before.
    """
    messages = [waiting(number) for number in range(20)]
    line = Line(messages, StrictSqs())
    line.sqs.happens = once(down)

    assert line.relays() == [str(number) for number in range(900, 910)]
    assert line.sqs.ids == ids_of(messages[10:])


def test_a_message_that_was_sent_and_not_deleted_is_not_counted_as_gone() -> None:
    """It is sent again with the failed record, and then deleted: it does not wait for the sweep.

    Red when the relay remembers it as done and passes it over.
    """
    messages = [waiting(number) for number in range(3)]
    line = Line(messages, StrictSqs())
    line.table.happens = once(unanswered)

    assert line.poller.delivers(line.event) == []

    assert line.sqs.ids == ids_of(messages) * 2
    assert line.table.messages == {}


@pytest.mark.parametrize("name", ["MODIFY", "REMOVE", "modify", None])
def test_only_what_was_inserted_is_relayed(name: Any) -> None:
    """A change and a deletion of an item send nothing, whatever the event source lets through.

    Red when the relay trusts the filter of its event source.
    """
    line = Line([waiting(1)], StrictSqs())
    line.event = stream_of([waiting(1)], name=name)

    assert line.relays() == []
    assert (line.sqs.calls, set(line.table.messages)) == ([], {"message-0001"})


ROUTES = ["the batch is not answered", "an entry fails", "an entry is refused"]


@pytest.mark.fault("K10.1")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("failing", [0, 3, 19])
def test_nothing_of_a_group_goes_out_after_a_failure_in_it(route: str, failing: int) -> None:
    """A failure holds up what is later in its group, in this invocation and in those that follow,
    until it is sent; other groups go on.

    Red when a batch has two of one group, or a later batch goes out after one that failed.
    """
    tenants = itertools.cycle(["a", "b"])
    messages = [waiting(number, tenant=next(tenants)) for number in range(40)]
    line = Line(messages, StrictSqs(fifo=True, refuses_whole=False))
    slow = f"message-{2 * failing:04d}"
    tries = itertools.count()

    def fails(ids: list[str]) -> dict[str, str]:
        if slow not in ids or route == ROUTES[2] or next(tries) > 1:
            return {}
        if route == ROUTES[0]:
            raise ConnectionError("the answer was lost")
        return {slow: "InternalError"}

    line.sqs.happens = fails
    if route == ROUTES[2]:
        line.sqs.refuses = lambda body: "Odd" if slow in body and next(tries) < 2 else None

    line.poller.delivers(line.event)
    for _ in range(10):
        # A later message of the same group is what calls the relay again.
        new = waiting(100 + next(tries), tenant="a")
        line.table.messages[new.id] = new
        line.relay(stream_of([new]), None)

    for tenant in ("a", "b"):
        sent = [each for each in line.sqs.ids if f'"{tenant}"' in body_of(line.sqs, each)]
        assert sent == sorted(sent)
    assert set(ids_of(messages)) <= set(line.sqs.ids)
    assert line.table.messages == {}


@pytest.mark.fault("K10.1")
def test_what_waits_from_before_goes_first() -> None:
    """While an earlier message of its group is in the table, whichever part of the stream told of
    it, a new one goes out behind it; one of another group, and one that is later, is not touched.

    Red when the relay sends what the stream brings and does not look at what waits.
    """
    old, other, new, later = (
        waiting(1, tenant="a"),
        waiting(2, tenant="b"),
        waiting(3, tenant="a"),
        waiting(4, tenant="a"),
    )
    line = Line([old, other, new, later], StrictSqs(fifo=True))

    assert failed_of(line.relay(stream_of([new]), None)) == []
    assert line.sqs.ids == [old.id, new.id]
    assert set(line.table.messages) == {other.id, later.id}


@pytest.mark.fault("K10.1")
def test_a_message_that_was_set_aside_holds_its_group_up_no_longer() -> None:
    """What the queue never takes leaves the line, as a dead letter does: the others go on.

    Red when a group waits for a message that a person has to look at.
    """
    messages = [waiting(number) for number in range(5)]
    line = Line(messages, StrictSqs(fifo=True))
    line.sqs.refuses = lambda body: "InvalidMessageContents" if '"n":2}' in body else None

    assert line.relays() == []
    assert line.sqs.ids == ids_of(messages[:2] + messages[3:])
    assert set(line.table.aside) == {"message-0002"}


@pytest.mark.fault("K10.1")
def test_messages_of_one_operation_go_out_as_they_were_published() -> None:
    """A transaction's items can be anywhere in the stream: their places tell their order.

    Red when only the time is compared.
    """
    first, second, third = (
        waiting(9 - number, operation_id="one", created_at_ms=5, sequence=number)
        for number in range(3)
    )
    between = waiting(20, operation_id="another", created_at_ms=5)
    line = Line([third, between, first, second], StrictSqs(fifo=True))

    line.relays()

    assert line.sqs.ids == [first.id, between.id, second.id, third.id]


@pytest.mark.fault("K10.1")
def test_a_relay_that_cannot_read_what_waits_sends_nothing_in_order() -> None:
    """Where nobody knows what goes first, everything is reported.

    Red when the relay goes on without having read the table.
    """
    line = Line([waiting(1)], StrictSqs(fifo=True))

    def fails(verb: str) -> None:
        if verb == "waiting":
            raise StoreError("no answer", transient=True)

    line.table.happens = fails

    assert (line.relays(), line.sqs.calls) == (["900"], [])


def test_a_group_of_the_authors_that_fails_is_counted_and_holds_nothing_up() -> None:
    """What `group=` raises for, or returns that is no text, waits; the others are sent."""

    def group(message: Message) -> Any:
        if message.id == "message-0000":
            raise KeyError("no such ride")
        return 5 if message.id == "message-0001" else message.tenant

    messages = [waiting(number) for number in range(4)]
    line = Line(messages, StrictSqs(fifo=True), group=group)

    assert line.relays() == []
    assert line.sqs.ids == ids_of(messages[2:])
    assert line.table.tries == {"message-0000": 1, "message-0001": 1}


def test_a_stream_without_new_images_is_told_as_that() -> None:
    """A stream that tells keys alone cannot be relayed: the error says what to change."""
    line = Line([waiting(1)], StrictSqs())
    del line.event["Records"][0]["dynamodb"]["NewImage"]

    with pytest.raises(ConfigurationError, match="give it the view NEW_AND_OLD_IMAGES"):
        line.relays()


def test_a_fifo_queue_has_a_group_for_each_tenant() -> None:
    """Without `group=` the tenants' messages are kept in order; SQS takes none without a group."""
    line = Line([waiting(1, tenant="a"), waiting(2, tenant="b")], StrictSqs(fifo=True))

    line.relays()

    assert line.sqs.groups == ["a", "b"]


class Context:
    """An invocation that lasts so long."""

    def __init__(self, left_ms: int) -> None:
        self.left_ms = left_ms

    def get_remaining_time_in_millis(self) -> int:
        """What Lambda's own says."""
        return self.left_ms

    def spend(self, duration_ms: int) -> None:
        """The time goes by."""
        self.left_ms -= duration_ms


def once(happens: Any) -> Any:
    """Let it happen the first time only."""
    calls = itertools.count()
    return lambda ids: happens(ids) if next(calls) == 0 else None


def body_of(sqs: StrictSqs, message_id: str) -> str:
    """The body of the message that was sent under this id."""
    return next(body for body in sqs.bodies if message_id in body)
