"""A store in memory hands its messages to workers, and time passes for it."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import (
    Completed,
    InProgress,
    NotExecuted,
    Question,
    current_operation,
    idempotent,
    idempotent_function,
    resolver,
    single_tenant,
)
from oncekey.outbox import Worker, delivered
from oncekey.queued import Jobs
from oncekey.reconciler import Reconciler
from oncekey.record.record import Due
from oncekey.settings import RECONCILE_GRACE_MS
from oncekey.testing import ManualClock, MemoryStore, let_time_pass, sqs_event, use_store
from tests.support.events import load
from tests.support.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey import Operation

EVENT = load("apigw_http_v2_post")
Received = list[tuple[str, int]]


@pytest.fixture
def clock() -> ManualClock:
    """The time of the test."""
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Iterator[MemoryStore]:
    """A store in the place of all others."""
    with use_store(MemoryStore(), clock=clock) as used:
        yield used


@idempotent(operation="POST /messages", tenant=single_tenant(), effects="recorded")
def publishes(event: dict[str, Any], context: object, op: Operation) -> dict[str, Any]:
    """Publish one message, whose payload is the body."""
    op.outbox.publish("made", {"body": event["body"]})
    return {"statusCode": 202}


@idempotent(operation="POST /reports", tenant=single_tenant(), mode="queued")
def report(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Is run by a worker."""
    return {"statusCode": 201, "body": "made"}


def test_messages_are_taken_once_and_stay_on_the_list(store: MemoryStore) -> None:
    """Each message is handed over once; `messages` still shows all that were published."""
    publishes(EVENT, None)

    (taken,) = store.take_messages()

    assert store.take_messages() == []
    assert store.messages == [taken]
    (record,) = sqs_event([taken])["Records"]
    assert delivered(record["body"]).payload == {"body": EVENT["body"]}


@pytest.mark.parametrize("size", [10, 300_000])
def test_a_worker_of_ones_own_gets_delivered_messages(store: MemoryStore, size: int) -> None:
    """A large payload, too, is the same from the store and from the event of a queue."""
    publishes({**EVENT, "body": "x" * size, "isBase64Encoded": False}, None)
    (record,) = sqs_event(store.messages)["Records"]

    (taken,) = store.take_delivered()

    assert taken == delivered(record["body"])
    assert taken.payload == {"body": "x" * size}


def test_a_job_is_performed_as_it_is_taken(store: MemoryStore) -> None:
    """`Jobs` takes what the store hands over, and the next request gets the answer."""
    assert report(EVENT, None)["statusCode"] == 202

    for job in store.take_delivered():
        Jobs(report).perform(job, None)

    assert report(EVENT, None)["body"] == "made"


def test_a_message_is_delivered_and_done(store: MemoryStore, clock: ManualClock) -> None:
    """Messages of messages are delivered, too, and no time passes without a reason."""
    received: list[Any] = []

    @idempotent_function(
        operation="work",
        key=lambda message: message.id,
        tenant=single_tenant(),
        effects="recorded",
    )
    def work(message: Any) -> None:
        received.append(message.topic)
        if message.topic == "made":
            current_operation().outbox.publish("worked", {})

    publishes(EVENT, None)
    passed = let_time_pass(
        store, clock, worker=Worker(lambda record, _context: work(delivered(record["body"])))
    )

    assert received == ["made", "worked"]
    assert passed.duration == timedelta(0)
    assert (passed.dead_letters, passed.open_records, passed.errors) == ((), (), ())


def test_a_message_that_fails_is_delivered_again_after_the_delay_of_its_worker(
    store: MemoryStore, clock: ManualClock
) -> None:
    """A worker's delays are kept, and the message is done when it is accepted."""
    at_s: list[int] = []
    begun_ms = clock.now_ms()

    def work(record: Any, context: object) -> None:
        at_s.append((clock.now_ms() - begun_ms) // 1000)
        if len(at_s) == 1:
            raise InProgress(operation="x", operation_id="y", retry_after_s=45)
        if len(at_s) == 2:
            raise ValueError

    publishes(EVENT, None)
    passed = let_time_pass(store, clock, worker=Worker(work))

    assert at_s == [0, 45, 49]
    assert passed.dead_letters == ()
    assert passed.duration == timedelta(seconds=49)


def test_a_message_that_is_never_accepted_becomes_a_dead_letter(
    store: MemoryStore, clock: ManualClock
) -> None:
    """A plain handler that raises gets it ten times, six timeouts apart; its errors are told."""
    publishes(EVENT, None)

    def worker(event: Any, context: Any) -> None:
        raise ValueError(context.get_remaining_time_in_millis())

    passed = let_time_pass(store, clock, worker=worker, timeout=timedelta(seconds=10))

    assert passed.dead_letters == tuple(store.messages)
    assert [str(each) for each in passed.errors] == ["10000"] * 10
    assert passed.duration == timedelta(seconds=9 * 60)


@pytest.mark.usefixtures("no_resolvers")
def test_an_unknown_operation_is_settled_when_its_resolver_may_be_asked(
    store: MemoryStore, clock: ManualClock
) -> None:
    """Lease and grace pass, the resolver is asked again as often as it does not know."""

    @idempotent(operation="POST /charges", tenant=single_tenant())
    def charge(event: dict[str, Any], context: object) -> dict[str, Any]:
        raise RuntimeError

    asked: list[int] = []

    @resolver("POST /charges")
    def found_out(question: Question) -> Completed | NotExecuted:
        asked.append(clock.now_ms())
        if len(asked) < 3:
            raise TimeoutError
        return Completed({"statusCode": 201, "body": "charged"})

    begun_ms = clock.now_ms()
    with pytest.raises(RuntimeError):
        charge(EVENT, None)
    passed = let_time_pass(store, clock, reconciler=Reconciler(resolvers=[found_out]))

    assert charge(EVENT, None)["body"] == "charged"
    assert len(asked) == 3
    assert asked[0] > begun_ms + RECONCILE_GRACE_MS
    assert passed.open_records == ()


def test_what_only_a_person_can_settle_stays_open(store: MemoryStore, clock: ManualClock) -> None:
    """Without a resolver the time ends at its limit, and the record is named."""

    @idempotent(operation="POST /charges", tenant=single_tenant())
    def charge(event: dict[str, Any], context: object) -> dict[str, Any]:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        charge(EVENT, None)
    passed = let_time_pass(store, clock, reconciler=Reconciler(), at_most=timedelta(hours=2))

    assert [each.operation for each in passed.open_records] == ["POST /charges"]
    assert passed.duration <= timedelta(hours=2)


def test_a_job_that_no_worker_begins_ends(store: MemoryStore, clock: ManualClock) -> None:
    """The schedule passes the deadline, and the client gets its final 408."""
    report(EVENT, None)

    let_time_pass(store, clock, reconciler=Reconciler())

    assert report(EVENT, None)["statusCode"] == 408


def test_a_message_that_still_waits_is_delivered_later(
    store: MemoryStore, clock: ManualClock
) -> None:
    """A message that waits when the time ends is told, and the next call goes on with it."""
    receives: list[int] = []
    is_up = False

    def worker(event: Any, _context: object) -> None:
        receives.append(int(event["Records"][0]["attributes"]["ApproximateReceiveCount"]))
        if not is_up:
            raise ConnectionError

    publishes(EVENT, None)
    passed = let_time_pass(store, clock, worker=worker, at_most=timedelta(minutes=2))
    assert passed.waiting == tuple(store.messages)

    is_up = True
    passed = let_time_pass(store, clock, worker=worker)
    assert receives == [1, 2]
    assert passed.waiting == ()


def test_a_chain_of_messages_without_end_is_an_error(
    store: MemoryStore, clock: ManualClock
) -> None:
    """A worker that answers each message with another one does not hang the test."""

    def worker(_event: object, _context: object) -> None:
        publishes({**EVENT, "headers": {"idempotency-key": clock.new_operation_id()}}, None)

    publishes(EVENT, None)
    with pytest.raises(RuntimeError, match="1001 deliveries, and no time has passed"):
        let_time_pass(store, clock, worker=worker)


def test_the_reconciler_runs_at_most_once_a_minute(store: MemoryStore, clock: ManualClock) -> None:
    """A record that stays due is visited on the schedule, not again and again at one instant."""
    due = record(due=Due(shard="0", at_ms=clock.now_ms()))
    store.records[due.pk] = due
    runs: list[int] = []

    def reconciler(_event: object, _context: object) -> None:
        runs.append(clock.now_ms())

    let_time_pass(store, clock, reconciler=reconciler, at_most=timedelta(minutes=3))

    assert [later - earlier for earlier, later in itertools.pairwise(runs)] == [60_000, 60_000]
