"""A worker's turn: what it begins, waits for, gives back, and how long what has failed waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import EndpointConnectionError

from oncekey import (
    ConfigurationError,
    InProgress,
    OutcomeUnknown,
    Paused,
    QuotaExceeded,
    StoreUnavailable,
)
from oncekey.errors import StoreError
from oncekey.outbox.worker import Worker
from oncekey.store.sqs import SqsQueue
from oncekey.testing.memory import ManualClock
from tests.support.events import load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VISIBILITY_TIMEOUT_S = 360
STANDARD, FIFO = "arn:aws:sqs:::work", "arn:aws:sqs:::work.fifo"


class Line:
    """The queue, as a worker talks to it."""

    def __init__(self, *, is_down: bool = False) -> None:
        self.is_down = is_down
        self.hidden: list[dict[str, int]] = []

    def hide(self, handle: str, delay_s: int) -> None:
        """One message."""
        self.hide_all([(handle, delay_s)])

    def hide_all(self, delays: list[tuple[str, int]]) -> None:
        """Several."""
        if self.is_down:
            raise StoreError("EndpointConnectionError", transient=True)
        self.hidden.append(dict(delays))

    def visibility_timeout_s(self) -> int:
        """The queue's own."""
        if self.is_down:
            raise StoreError("EndpointConnectionError", transient=True)
        return VISIBILITY_TIMEOUT_S


class Turns:
    """A worker of one function, and what it was given to do.

    `takes_ms` is how long each message takes; `raises` says what comes of it, once for each error.
    """

    def __init__(self, *, timeout_ms: int = 60_000, is_down: bool = False) -> None:
        self.clock = ManualClock()
        self.line = Line(is_down=is_down)
        self.begun: list[str] = []
        self.takes_ms: dict[str, int] = {}
        self.raises: dict[str, list[BaseException]] = {}
        self._timeout_ms = timeout_ms
        line: Any = self.line
        self.worker = Worker(self._work, queue=line, clock=self.clock)

    def play(self, *records: dict[str, Any]) -> list[str]:
        """One invocation; the messages that are to come again."""
        deadline_ms = self.clock.now_ms() + self._timeout_ms

        class Context:
            def get_remaining_time_in_millis(_) -> int:  # noqa: N805 -- the clock is the test's
                return deadline_ms - self.clock.now_ms()

        answer = self.worker({"Records": list(records)}, Context())
        assert self.clock.now_ms() <= deadline_ms
        return [each["itemIdentifier"] for each in answer["batchItemFailures"]]

    def record(
        self, name: str, *, receives: int = 1, tried_for_s: int = 0, group: str | None = None
    ) -> dict[str, Any]:
        """A message that has been received so often, in so long a time."""
        first_ms = self.clock.now_ms() - 1000 * tried_for_s
        attributes = {
            "ApproximateReceiveCount": str(receives),
            "ApproximateFirstReceiveTimestamp": str(first_ms),
            **({} if group is None else {"MessageGroupId": group}),
        }
        arn = STANDARD if group is None else FIFO
        return {
            "messageId": name,
            "receiptHandle": name,
            "attributes": attributes,
            "eventSourceARN": arn,
        }

    @property
    def delays(self) -> dict[str, int]:
        """After how long each comes again, by what was last said of it; not what the start said."""
        return {name: delay_s for said in self.line.hidden[1:] for name, delay_s in said.items()}

    def _work(self, record: Mapping[str, Any], _context: object) -> None:
        name = record["messageId"]
        self.begun.append(name)
        self.clock.advance(self.takes_ms.get(name, 0))
        if left := self.raises.get(name):
            raise left.pop(0)


def down(after_s: int = 1) -> Exception:
    """The store does not answer."""
    return StoreUnavailable(operation="work", retry_after_s=after_s)


@pytest.mark.fault("K4.8")
def test_a_message_is_hidden_until_shortly_after_the_invocation() -> None:
    """Before anything is begun each message is hidden for what is left of the invocation, the
    margin of its lease and a second: killed, it comes again then, when its lease is over.

    Red when the queue's own visibility timeout is left to hold after a kill.
    """
    turns = Turns(timeout_ms=8_000)

    def killed(*_: object) -> None:
        raise SystemExit(137)

    with pytest.raises(SystemExit):
        Worker(killed, queue=turns.line, clock=turns.clock)(  # type: ignore[arg-type]  # a line is a queue here
            {"Records": [turns.record("a"), turns.record("b")]}, None
        )
    turns.play(turns.record("c"))

    assert turns.line.hidden == [{"a": 16, "b": 16}, {"c": 14}]


@pytest.mark.fault("K4.5")
@pytest.mark.parametrize(
    "outage",
    [
        down,
        lambda: StoreError("ReadTimeoutError", transient=True),
        lambda: EndpointConnectionError(endpoint_url="https://somewhere.example"),
    ],
    ids=["StoreUnavailable", "StoreError", "botocore"],
)
def test_a_short_outage_is_waited_out(outage: Callable[[], Exception]) -> None:
    """The message that met it is tried again, and the others after it, in the same invocation.

    Red when an outage fails the message, or the whole batch at once.
    """
    turns = Turns()
    turns.raises = {"b": [outage(), outage(), outage()]}

    assert turns.play(*map(turns.record, "abc")) == []
    assert turns.begun == ["a", "b", "b", "b", "b", "c"]


@pytest.mark.fault("K4.5")
def test_a_breaker_that_is_open_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """Told to come back in five seconds, it asks nothing before; the log says once that it waits.

    Red when the pause forgets what the error says.
    """
    turns = Turns()
    begun_ms = turns.clock.now_ms()
    turns.raises = {"a": [down(5)]}

    assert turns.play(turns.record("a")) == []
    assert turns.clock.now_ms() - begun_ms >= 5_000
    assert caplog.text.count("oncekey worker-waits") == 1


@pytest.mark.fault("K4.5")
def test_an_outage_that_lasts_begins_nothing_more() -> None:
    """Where its time runs out, the message that waits has failed and no other was begun; all come
    again in seconds, and the invocation ends in time.

    Red when the rest of the batch is begun while the store is down, or left to the visibility
    timeout.
    """
    turns = Turns()
    turns.raises = {"a": [down() for _ in range(1_000)]}

    assert turns.play(*map(turns.record, "abc")) == ["a", "b", "c"]
    assert set(turns.begun) == {"a"}
    assert turns.delays == {"a": 2, "b": 2, "c": 2}


@pytest.mark.fault("K4.5")
def test_what_there_is_no_time_for_is_given_back_at_once() -> None:
    """It begins no message that may take longer than is left, reports those as failed, and has the
    queue deliver them at once.

    Red when messages are begun to the end of the time, or wait for the visibility timeout.
    """
    turns = Turns()
    turns.takes_ms = dict.fromkeys("abcde", 25_000)

    assert turns.play(*map(turns.record, "abcde")) == ["c", "d", "e"]
    assert turns.begun == ["a", "b"]
    assert turns.delays == {"c": 0, "d": 0, "e": 0}


@pytest.mark.fault("K4.5")
def test_the_first_message_always_begins() -> None:
    """Of an invocation that has little time left one message is begun, or none would ever be.

    Red when the first is given back like the others.
    """
    turns = Turns(timeout_ms=100)

    assert turns.play(turns.record("a"), turns.record("b")) in ([], ["b"])
    assert turns.begun[0] == "a"


@pytest.mark.fault("K4.5")
def test_what_was_received_most_often_is_first() -> None:
    """A message that was given back again and again goes first, before it is a dead letter.

    Red when a batch is worked on in the order in which it came.
    """
    turns = Turns()

    turns.play(turns.record("a"), turns.record("b", receives=4), turns.record("c", receives=2))

    assert turns.begun == ["b", "c", "a"]


@pytest.mark.fault("K4.8")
@pytest.mark.parametrize(
    ("receives", "tried_for_s", "delay_s"),
    [(1, 0, 2), (2, 3, 3), (3, 20, 8), (6, 40, 40), (12, 1_000, VISIBILITY_TIMEOUT_S), (1, -9, 2)],
)
def test_what_has_failed_waits_for_as_long_again_as_it_was_tried(
    receives: int, tried_for_s: int, delay_s: int
) -> None:
    """Doubled with each receive, and never longer than it was tried already: after an outage of so
    long a time it waits for no longer than that, and the queue's own timeout at the most.

    Red when the receives that kills have used up make it wait longer.
    """
    turns = Turns()
    turns.raises = {"a": [ValueError("no")]}
    record = turns.record("a", receives=receives, tried_for_s=tried_for_s)

    assert turns.play(record, turns.record("b")) == ["a"]
    assert turns.begun == ["a", "b"]
    assert turns.delays == {"a": delay_s}


def test_a_record_without_a_receive_fails_like_one_that_was_received_once() -> None:
    """An event that was written by hand may have a count of 0.

    Red when it raises, so that the whole batch fails.
    """
    turns = Turns()
    turns.raises = {"a": [ValueError("no")]}

    assert turns.play(turns.record("a", receives=0), turns.record("b")) == ["a"]
    assert turns.delays == {"a": 2}


def test_paused_work_waits_for_more_than_a_day_with_ten_receives() -> None:
    """Each delivery counts, so a paused message comes rarely: after five minutes, then after as
    long as it has waited already, and at the latest after ten and a half hours: SQS hides a message
    for no more than twelve, and a function may have worked on it for ninety minutes of them.

    Red when a paused message becomes a dead letter within the first day.
    """
    waited_s, delays = 0, []
    for receives in range(1, 11):
        turns = Turns()
        turns.raises = {"a": [Paused(operation="work", retry_after_s=30)]}
        assert turns.play(turns.record("a", receives=receives, tried_for_s=waited_s)) == ["a"]
        delays.append(turns.delays["a"])
        waited_s += delays[-1]

    assert delays == [300, 300, 600, 1200, 2400, 4800, 9600, 19200, 37800, 37800]
    assert waited_s > 24 * 3600


@pytest.mark.fault("K4.8")
@pytest.mark.parametrize("kind", [InProgress, OutcomeUnknown])
@pytest.mark.parametrize(
    ("receives", "tried_for_s", "delay_s"), [(1, 0, 5), (2, 30, 10), (4, 60, 40), (6, 12, 12)]
)
def test_what_stands_behind_another_attempt_waits_for_it(
    kind: Any, receives: int, tried_for_s: int, delay_s: int
) -> None:
    """Twice as late with each receive, and no later than as long again as it was tried.

    Red when the receives that kills have used up make it wait longer.
    """
    turns = Turns()
    turns.raises = {"a": [kind(operation="work", retry_after_s=5)]}

    # Reported as done, it would be lost.
    assert turns.play(turns.record("a", receives=receives, tried_for_s=tried_for_s)) == ["a"]

    assert turns.delays == {"a": delay_s}


def test_a_message_above_its_tenants_quota_waits_for_the_time_that_the_refusal_names() -> None:
    """The window may last for a day, and no delivery before its end can succeed.

    Red when a tenant's burst becomes dead letters within some minutes.
    """
    turns = Turns()
    turns.raises = {"a": [QuotaExceeded(operation="work", retry_after_s=3_600)]}

    assert turns.play(turns.record("a")) == ["a"]

    assert turns.delays == {"a": 3_600}


def test_after_a_failure_in_a_fifo_group_nothing_of_it_is_begun() -> None:
    """Those behind it wait with it, in their order; other groups go on, and order is not changed by
    receives.

    Red when a later message of the group is begun, or comes again before the failed one.
    """
    turns = Turns()
    turns.raises = {"a1": [ValueError("no")]}
    records = [
        turns.record("a1", group="a"),
        turns.record("b1", group="b"),
        turns.record("a2", group="a", receives=3),
        turns.record("b2", group="b"),
    ]

    assert turns.play(*records) == ["a1", "a2"]
    assert turns.begun == ["a1", "b1", "b2"]
    assert list(turns.delays.items()) == [("a1", 2), ("a2", 2)]


def test_a_queue_that_does_not_answer_costs_nothing_but_patience() -> None:
    """Every message is worked on; what has failed is reported, and comes again by the queue's own
    visibility timeout.

    Red when the worker fails because its messages could not be hidden.
    """
    turns = Turns(is_down=True)
    turns.raises = {"a": [ValueError("no")]}

    assert turns.play(turns.record("a"), turns.record("b")) == ["a"]
    assert turns.begun == ["a", "b"]


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"queue": "https://queue"}, "queue= is a str: pass SqsQueue(url)"),
        ({"queue": SqsQueue}, "queue= is the class SqsQueue: pass SqsQueue(url)"),
        ({"clock": ManualClock}, "clock is the class ManualClock"),
    ],
)
def test_a_worker_with_a_wrong_part_is_refused_when_it_is_made(
    wrong: dict[str, Any], fault: str
) -> None:
    """The URL of the queue, for example, in place of the object: each batch would fail."""
    with pytest.raises(ConfigurationError) as refused:
        Worker(print, **wrong)
    assert fault in str(refused.value)


@pytest.mark.parametrize(
    "error",
    [
        asyncio.CancelledError(),
        BaseExceptionGroup("both", [asyncio.CancelledError(), ValueError()]),
    ],
    ids=["cancelled", "group"],
)
def test_work_that_was_cancelled_fails_alone(error: BaseException) -> None:
    """`asyncio.run` raises the cancellation of a coroutine, which is no `Exception`: its message
    fails, and the others of its batch are done.

    Red when the whole batch comes again with it, each time, and becomes dead letters with it.
    """
    turns = Turns()
    turns.raises["a"] = [error]

    again = turns.play(turns.record("a"), turns.record("b"))

    assert (turns.begun, again) == (["a", "b"], ["a"])


@pytest.mark.parametrize(
    "error", [SystemExit(1), BaseExceptionGroup("both", [asyncio.CancelledError(), SystemExit(1)])]
)
def test_an_exit_ends_the_worker(error: BaseException) -> None:
    """An exit is of the process, also in a group: nothing more is begun."""
    turns = Turns()
    turns.raises["a"] = [error]

    with pytest.raises(type(error)):
        turns.play(turns.record("a"), turns.record("b"))

    assert turns.begun == ["a"]


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"Records": [{"eventSource": "aws:kinesis", "kinesis": {}}]}, "a batch of Kinesis"),
        (load("apigw_http_v2_post"), "an HTTP request"),
        ([{"messageId": "a"}], "a list"),
        ({}, "no batch of records"),
    ],
    ids=["kinesis", "http", "pipe", "nothing"],
)
def test_a_worker_that_gets_other_events_than_those_of_a_queue_fails(event: Any, kind: str) -> None:
    """A worker on a route or a stream must not answer as if it had done the work.

    Red when a client gets a success for a request that nobody has read.
    """
    with pytest.raises(ConfigurationError, match=f"its event is {kind}"):
        Turns().worker(event, None)
