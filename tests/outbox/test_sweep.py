"""Sweeping an outbox: within its time, in order, and whatever else stands in the table."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.errors import ConfigurationError, StoreError
from oncekey.outbox.relay import OutboxRelay
from oncekey.outbox.sweep import OutboxSweep, Swept
from oncekey.store.sqs import Rejected
from oncekey.testing.memory import ManualClock
from tests.support.memory_outbox import WEEK_MS, MemoryOutbox, waiting
from tests.support.reconciled import Escalations
from tests.support.strict_sqs import StrictSqs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncekey.record.message import Message
    from oncekey.store.sqs import Entry

ALL_MS = 10**9


class Yard:
    """An outbox, a queue and the sweep between them. Every call takes a time of its own."""

    def __init__(
        self,
        messages: Sequence[Message] = (),
        *,
        fifo: bool = False,
        page: int = 1_000,
        call_ms: int = 0,
        **options: Any,
    ) -> None:
        self.clock = ManualClock()
        self.sqs = StrictSqs(fifo=fifo)
        self.table = MemoryOutbox(*messages, page=page)
        self.escalations = Escalations()
        self.sqs.happens = lambda _ids: self.clock.advance(call_ms)
        self.table.happens = lambda _verb: self.clock.advance(call_ms)
        relay = OutboxRelay(table=self.table, queue=self.sqs.queue, clock=self.clock, **options)
        self.sweep = OutboxSweep(table=self.table, relay=relay)

    def sweeps(self, lasts_ms: int = 15_000, *, before_ms: int = ALL_MS, **options: Any) -> Swept:
        """One run that has so much time."""
        until_ms = self.clock.now_ms() + lasts_ms
        return self.sweep.run(
            before_ms=before_ms,
            is_time_left=lambda: self.clock.now_ms() < until_ms,
            **{"escalations": self.escalations, **options},
        )

    def refuses(self, code: str, *marks: str) -> None:
        """The queue refuses what has one of these in its body."""
        self.sqs.refuses = lambda body: code if any(mark in body for mark in marks) else None


def many(number: int, first: int = 0, **values: Any) -> list[Message]:
    """So many messages."""
    return [waiting(first + each, **values) for each in range(number)]


def test_all_pages_are_swept_in_batches_of_the_queue() -> None:
    """Every page is read and sent, ten messages at a time, and nothing is left."""
    yard = Yard(many(35), page=25)

    assert yard.sweeps() == Swept(resent=35)
    assert [len(call) for call in yard.sqs.calls] == [10, 10, 5, 10]


@pytest.mark.fault("K4.6")
@pytest.mark.parametrize("fifo", [False, True])
def test_the_time_is_looked_at_between_pages(fifo: bool) -> None:
    """Of 5,000 pages without a message that is due a run reads as many as its time allows.

    Red when the time is looked at between batches only.
    """
    yard = Yard(many(5_000), page=1, call_ms=20, fifo=fifo)

    swept = yard.sweeps(15_000, before_ms=0)

    assert yard.table.pages == 750
    assert not swept.is_complete


@pytest.mark.fault("K4.6")
def test_a_sweep_goes_on_where_the_one_before_it_stopped() -> None:
    """What is due in the last of many pages is reached by later runs, and then the table is read
    from its beginning again.

    Red when each run begins with the first page.
    """
    yard = Yard(many(100, created_at_ms=ALL_MS), page=1, call_ms=1_000)
    yard.table.messages["message-0099"] = waiting(99)

    runs = [yard.sweeps(15_000) for _ in range(8)]

    assert sum(swept.resent for swept in runs) == 1
    assert not any(swept.is_complete for swept in runs)
    assert not yard.sweeps(1_000_000).is_complete
    assert yard.sweeps(1_000_000).is_complete


@pytest.mark.parametrize("is_down", [False, True])
def test_the_time_is_looked_at_between_two_batches(is_down: bool) -> None:
    """A queue that takes seconds for each batch costs the run its share of the time and a batch,
    not a page: the records have their turn.
    """
    yard = Yard(many(200), page=100)

    def slow(_ids: list[str]) -> None:
        yard.clock.advance(8_000)
        if is_down:
            raise StoreError("no route to the queue", transient=True)

    yard.sqs.happens = slow
    swept = yard.sweeps(15_000)

    assert [len(call) for call in yard.sqs.calls] == [10, 10]
    assert (swept.resent, swept.failed) == ((0, 20) if is_down else (20, 0))
    assert not swept.is_complete


def test_what_is_sent_to_its_end_is_complete_however_long_it_took() -> None:
    """Where nothing is left, nothing was left for want of time."""
    assert Yard(many(10), call_ms=50_000).sweeps().is_complete
    assert Yard(call_ms=50_000).sweeps().is_complete


@pytest.mark.fault("K5.3")
@pytest.mark.parametrize(
    ("code", "fifo"),
    [
        ("InvalidMessageContents", True),
        ("InvalidParameterValue", False),
        pytest.param("InvalidMessageContents", False, marks=pytest.mark.proof),
        pytest.param("InvalidParameterValue", True, marks=pytest.mark.proof),
    ],
)
def test_messages_that_no_queue_takes_starve_no_other(code: str, fifo: bool) -> None:
    """1,500 messages that the queue refuses stand before 50 that it takes: these are sent within a
    few runs of a quarter of a minute, and in the end each of the 1,500 is set aside.

    Red when what is refused is tried again before what was never tried, or for ever.
    """
    poison = [waiting(number, topic="poison", tenant=f"t{number}") for number in range(1_500)]
    good = [waiting(1_500 + number, tenant=f"t{number}") for number in range(50)]
    # A run has time for half of them, one by one.
    yard = Yard([*poison, *good], fifo=fifo, call_ms=20)
    yard.refuses(code, "poison")

    for _ in range(60):
        yard.sweeps(15_000)
        if len(yard.sqs.ids) == 50:
            break

    assert sorted(yard.sqs.ids) == [message.id for message in good]
    runs = 0
    while len(yard.table.aside) < 1_500:
        yard.sweeps(15_000)
        runs += 1
        assert runs < 200
    assert set(yard.table.messages) == set(yard.table.aside)
    calls = len(yard.sqs.calls)
    yard.sweeps()
    assert len(yard.sqs.calls) == calls


@pytest.mark.fault("K5.3")
@pytest.mark.parametrize("fifo", [False, True])
def test_what_was_refused_before_goes_last(fifo: bool) -> None:
    """With time for one call, a run sends what nobody has tried yet, wherever it stands in the
    table; of two that were tried, the one that was tried less.

    Red when the order of the table, or of publishing, decides alone.
    """
    yard = Yard([waiting(n, tenant=f"t{n}") for n in range(20)], fifo=fifo)
    yard.refuses("MissingParameter", '"n":')
    yard.sweeps()
    yard.table.tries["message-0000"] += 1
    new = [waiting(20 + n, tenant=f"t{20 + n}") for n in range(10)]
    yard.table.messages |= {message.id: message for message in new}
    yard.sqs.calls.clear()

    yard.sweeps(0)

    assert yard.sqs.calls[0] == [message.id for message in new]


@pytest.mark.fault("K5.3")
@pytest.mark.parametrize("fifo", [False, True])
def test_messages_that_fail_for_ever_starve_no_other(fifo: bool) -> None:
    """Where the queue calls the failure its own, time and again, for thousands of messages that
    stand first, the others are sent all the same, and these are set aside in the end.

    Red when such a failure has no bound, or is tried first in each run.
    """
    bad = [waiting(number, tenant=f"t{number}") for number in range(2_000)]
    good = [waiting(2_000 + number, tenant=f"t{2_000 + number}") for number in range(50)]
    yard = Yard([*bad, *good], fifo=fifo)

    def fails(ids: list[str]) -> dict[str, str]:
        yard.clock.advance(100)
        return {each: "InternalError" for each in ids if each < "message-2000"}

    yard.sqs.happens = fails
    yard.sweeps(15_000)
    yard.sweeps(15_000)

    assert sorted(yard.sqs.ids) == [message.id for message in good]
    yard.table.tries = dict.fromkeys(yard.table.messages, 99)
    yard.sweeps(1_000_000)
    assert set(yard.table.aside) == {message.id for message in bad}


@pytest.mark.fault("K5.3")
def test_a_person_is_told_of_what_was_set_aside_once_and_each_week() -> None:
    """The escalation queue gets one message about each, without its payload; one that nobody has
    put back is told again after a week.

    Red when it is told at each run, or never again.
    """
    yard = Yard(many(3, payload='"4242secret"'))
    yard.refuses("InvalidMessageContents", "message-0001")

    first = yard.sweeps(before_ms=10_000)
    told = yard.sweeps(before_ms=10_000)
    again = yard.sweeps(before_ms=10_000 + WEEK_MS)
    at_last = yard.sweeps(before_ms=10_001 + WEEK_MS)

    assert (first.set_aside, first.failed, first.resent) == (1, 0, 2)
    assert [swept.told for swept in (first, told, again, at_last)] == [0, 1, 0, 1]
    body = yard.escalations.bodies[0]
    assert (body["topic"], body["message_id"]) == ("oncekey.set-aside", "message-0001")
    assert (body["reason"], body["tenant"]) == ("InvalidMessageContents", "acme")
    assert "4242secret" not in str(yard.escalations.bodies)
    assert yard.escalations.bodies[1]["id"] == body["id"]


@pytest.mark.fault("K5.3")
@pytest.mark.parametrize("page", [60, 1_000])
def test_an_escalation_queue_that_is_down_is_asked_once_in_a_run(page: int) -> None:
    """What could not be told is told by a later run, and a run tells of so many at the most.

    Red when a person who was not told counts as told, or each message costs a call that fails.
    """
    yard = Yard(many(250), page=page)
    yard.refuses("InvalidMessageContents", "message")
    yard.sweeps()
    calls: list[int] = []
    yard.escalations.happens = lambda: calls.append(1)
    yard.escalations.is_down = True

    assert (yard.sweeps().told, len(calls)) == (0, 1)
    yard.escalations.is_down = False
    assert [yard.sweeps().told for _ in range(4)] == [100, 100, 50, 0]
    assert len({body["message_id"] for body in yard.escalations.bodies}) == 250


@pytest.mark.parametrize("page", [1, 10])
def test_a_sweep_says_how_old_the_oldest_message_is(page: int) -> None:
    """The alarm on the outbox's age looks at the message that has waited longest."""
    yard = Yard(many(3, first=5), page=page)

    assert yard.sweeps().oldest_at_ms == waiting(5).created_at_ms
    assert yard.sweeps().oldest_at_ms is None


@pytest.mark.fault("K5.4")
@pytest.mark.parametrize("refuses_whole", [True, False])
def test_one_escalation_that_is_refused_keeps_no_other_from_being_told(
    refuses_whole: bool,
) -> None:
    """Where the escalation queue refuses a batch for one message, the others are told singly.

    Red when a refusal of the batch ends the telling, or what was refused alone counts as told.
    """
    yard = Yard(many(12))
    yard.refuses("InvalidMessageContents", "message")
    yard.sweeps()
    sent: list[str] = []

    class Refusing(Escalations):
        def send(self, entries: Sequence[Entry]) -> list[Rejected]:
            refused = [each.id for each in entries if each.id == "message-0003"]
            if refused and refuses_whole:
                raise StoreError("InvalidParameterValue", transient=False)
            sent.extend(each.id for each in entries if each.id not in refused)
            return [Rejected(each, "InternalError", is_final=False) for each in refused]

    assert yard.sweeps(escalations=Refusing()).told == 11
    assert yard.sweeps(escalations=Refusing()).told == 0
    assert sorted(sent) == [f"message-{n:04d}" for n in range(12) if n != 3]


def test_without_an_escalation_queue_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The log says once, and each week, what waits for a person."""
    yard = Yard(many(1))
    yard.refuses("InvalidMessageContents", "message")

    for _ in range(5):
        yard.sweeps(escalations=None)

    assert caplog.text.count("message-waits-for-a-person: message-0000") == 1


@pytest.mark.fault("K5.3")
def test_a_message_that_was_put_back_is_sent() -> None:
    """Once its cause is removed, a person puts a message back, and the next sweep sends it.

    Red when something of its being set aside stays.
    """
    yard = Yard(many(1))
    yard.refuses("InvalidParameterValue", "message")
    for _ in range(6):
        yard.sweeps()
    assert set(yard.table.aside) == {"message-0000"}
    yard.refuses("InvalidParameterValue")

    assert yard.sweeps().resent == 0
    assert yard.table.requeue("message-0000")
    assert yard.sweeps().resent == 1
    assert (yard.sqs.ids, yard.table.messages) == (["message-0000"], {})


@pytest.mark.fault("K10.1")
@pytest.mark.parametrize("seed", range(5))
def test_a_sweep_sends_a_group_in_the_order_of_publishing(seed: int) -> None:
    """The order of a scan says nothing: what was published first goes out first, page by page.

    Red when a group's messages go out in the order of the table.
    """
    numbers = list(range(60))
    random.Random(seed).shuffle(numbers)  # noqa: S311 -- an order, no secret
    messages = [
        waiting(place, tenant=f"t{number % 3}", created_at_ms=number // 6, sequence=number % 6)
        for place, number in enumerate(numbers)
    ]
    yard = Yard(messages, fifo=True, page=7)
    order = {message.id: message.order for message in messages}

    assert yard.sweeps() == Swept(resent=60)
    for group in ("t0", "t1", "t2"):
        sent = [
            order[each]
            for each, body in zip(yard.sqs.ids, yard.sqs.bodies, strict=True)
            if group in body
        ]
        assert sent == sorted(sent)
        assert len(sent) == 20


@pytest.mark.fault("K10.1")
@pytest.mark.parametrize("failing", [0, 7, 19])
@pytest.mark.parametrize("is_answered", [False, True])
def test_a_sweep_sends_nothing_of_a_group_after_a_failure_in_it(
    failing: int, is_answered: bool
) -> None:
    """What is later in the group waits for the next run, which begins with what has failed; the
    other group is sent.

    Red when a sweep goes on with a group in which something has failed.
    """
    yard = Yard([waiting(n, tenant="ab"[n % 2]) for n in range(40)], fifo=True)
    slow = f"message-{2 * failing:04d}"

    def fails(ids: list[str]) -> dict[str, str]:
        if slow not in ids:
            return {}
        if is_answered:
            return {slow: "InternalError"}
        raise ConnectionError("no answer")

    yard.sqs.happens = fails
    yard.sweeps()

    of_a = [each for each in yard.sqs.ids if int(each[-4:]) % 2 == 0]
    assert of_a == [f"message-{2 * number:04d}" for number in range(failing)]
    yard.sqs.happens = lambda _ids: None
    yard.sweeps()
    for rest in (0, 1):
        sent = [each for each in yard.sqs.ids if int(each[-4:]) % 2 == rest]
        assert sent == [f"message-{2 * number + rest:04d}" for number in range(20)]


@pytest.mark.fault("K10.1")
def test_a_sweep_that_cannot_hold_all_sends_the_earliest() -> None:
    """Of an outbox that is larger than the memory the earliest messages go out first, run by run.

    Red when a group's later messages go out because they were read first.
    """
    large = '"' + "x" * 150_000 + '"'
    messages = [waiting(n, created_at_ms=1_000 - n, payload=large) for n in range(150)]
    yard = Yard(messages, fifo=True, page=6)

    first = yard.sweeps()

    assert not first.is_complete
    assert 0 < first.resent < 150
    while yard.table.messages:
        yard.sweeps()
    assert yard.sqs.ids == [message.id for message in reversed(messages)]


@pytest.mark.parametrize("relay", ["relay", OutboxRelay, None])
def test_a_sweep_needs_a_relay(relay: Any) -> None:
    """It is told when it is made, and not by each run of the reconciler."""
    with pytest.raises(ConfigurationError, match=r"OutboxSweep: relay= is .*pass OutboxRelay"):
        OutboxSweep(relay=relay)
    with pytest.raises(ConfigurationError, match=r"table= is a str: pass OutboxTable\(name\)"):
        OutboxSweep(relay=OutboxRelay(), table="outbox")  # type: ignore[arg-type]
