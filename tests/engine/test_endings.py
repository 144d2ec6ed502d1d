"""Rare ends of an attempt: bounds, lost records, and what the store refuses."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from aws_durable_execution_sdk_python.exceptions import TimedSuspendExecution

from oncekey import NotExecuted, idempotent_function, single_tenant
from oncekey.effects.raised import RefusedBelow
from oncekey.engine.engine import unreserved
from oncekey.engine.traced import traced
from oncekey.errors import StoreError
from oncekey.record.commit import Inapplicable
from oncekey.record.outcome import Reason
from oncekey.record.record import Status
from oncekey.record.transitions import ExpireLease, Retry, StartStep
from oncekey.settings import RECONCILE_GRACE_MS
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.accepted import Accepted
from tests.support.protected import Protected, is_replay, problem_of
from tests.support.replacing import replace
from tests.support.steps import POST, FaultyStore, Steps, commit, dead, noise, step

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey import Operation, OperationEvent
    from oncekey.record.record import Record
    from tests.support.steps import Action

DAY_MS = 86_400_000


class Scheduled(Exception):
    """An author's exception that has an attribute of the same name as AWS's."""

    def __init__(self, _why: str, at_s: float) -> None:
        self.scheduled_timestamp = at_s


def suspended(
    until_ms: int,
    *,
    begins: bool,
    by: Callable[[str, float], BaseException] = TimedSuspendExecution,
) -> tuple[Record, int]:
    """What is left of a run that was suspended until then, counted from now, and now."""
    store, clock = MemoryStore(), ManualClock()

    @idempotent_function(
        operation="charge",
        key=lambda order: order,
        tenant=single_tenant(),
        effects="recorded",
        retention=timedelta(days=1),
        store=store,
        clock=clock,
    )
    def charge(_order: str, op: Operation) -> None:
        if begins:
            op.step("begin", lambda: None)
        raise by("a wait", (clock.now_ms() + until_ms) / 1000)

    with pytest.raises((TimedSuspendExecution, Scheduled)):
        charge("o-1")  # type: ignore[call-arg]
    (record,) = store.records.values()
    return record, clock.now_ms()


@pytest.mark.parametrize(("more_ms", "waits_ms"), [(0, 366 * DAY_MS), (1, 0)])
def test_a_half_done_run_is_due_after_its_wait_if_that_is_a_year_at_most(
    more_ms: int, waits_ms: int
) -> None:
    """No durable execution lasts longer, so that a later time is none of a wait's end."""
    record, now_ms = suspended(366 * DAY_MS + more_ms, begins=True)

    assert record.due is not None
    assert record.due.at_ms == now_ms + waits_ms + RECONCILE_GRACE_MS


def test_an_exception_of_the_authors_is_no_wait() -> None:
    """Only a durable execution of AWS suspends a run, and it does not do so by an `Exception`."""
    record, now_ms = suspended(DAY_MS, begins=True, by=Scheduled)

    assert record.due is not None
    assert record.due.at_ms == now_ms + RECONCILE_GRACE_MS


@pytest.mark.parametrize(("early_ms", "is_told"), [(0, True), (1, False)])
def test_a_wait_is_too_long_from_the_moment_in_which_its_record_expires(
    early_ms: int, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A record counts as absent at its expiry, so that a run that resumes then is a new one."""
    suspended(DAY_MS - early_ms, begins=False)

    assert ("forgotten-while-suspended" in caplog.text) is is_told


def test_a_completion_that_failed_on_a_record_that_is_gone_may_have_acted() -> None:
    """Nobody can say any more what its step has done."""
    service = Steps()

    def forgets(_service: Steps, _op: Operation) -> None:
        service.store.records.clear()
        service.store.refuse("commit Complete", 99)

    answer = service.sends(step("charge"), commit("charged"), forgets, writes)

    assert problem_of(answer)[:2] == (409, "outcome-unknown")
    assert service.store.records == {}


def writes(_service: Steps, op: Operation) -> None:
    """One business write."""
    op.transaction.put("rides", {"id": op.operation_id})


class Counting(FaultyStore):
    """A store that notes how many results each completion lets expire."""

    def __init__(self) -> None:
        super().__init__()
        self.expiring: list[int] = []

    def commit(self, commit: Any) -> Any:
        """Commit, and count."""
        self.expiring.append(len(commit.expiring))
        return super().commit(commit)


def put(name: str) -> Action:
    """One business write under this name."""
    return lambda _service, op: op.transaction.put("rides", {"id": name})


@pytest.mark.parametrize(("steps", "written", "expiring"), [(101, 0, 99), (100, 2, 97), (3, 1, 3)])
def test_a_completion_lets_as_many_results_expire_as_its_transaction_holds(
    steps: int, written: int, expiring: int
) -> None:
    """DynamoDB takes 100 actions: the record's, the author's, and the results'."""
    service = Steps(store=Counting())
    puts = [put(str(number)) for number in range(written)]

    service.sends(*(step(f"step {number}", noise(2_000)) for number in range(steps)), *puts)

    assert service.record.status is Status.COMPLETED
    assert service.store.expiring == [expiring]


class Refusing(FaultyStore):
    """A store whose transactions DynamoDB calls invalid."""

    def commit(self, commit: Any) -> Any:
        """Apply nothing."""
        return Inapplicable("one item is too large")


def test_a_request_that_cannot_be_accepted_says_why(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is on record, and the log has DynamoDB's own reason."""
    service = Accepted(store=Refusing())

    answer = service.send(POST)

    assert answer["statusCode"] == 503
    assert service.store.records == {}
    assert "the request cannot be accepted: one item is too large" in caplog.text


class Noting(FaultyStore):
    """A store that notes what it is to write."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Any] = []

    def write(self, transition: Any) -> Any:
        """Write, and note it."""
        self.written.append(transition)
        return super().write(transition)


def test_a_job_that_died_half_done_is_due_the_grace_after_its_repeat() -> None:
    """A repeat ends the dead attempt before it accepts the job again. A repeat that dies in between
    leaves a record that the reconciler visits once a late call of the dead worker has arrived.
    """
    service = Accepted(effects="recorded", store=Noting())
    service.sends(step("charge"), dead)
    with contextlib.suppress(BaseException):
        service.works()
    service.store.is_dead = False
    service.lets_the_lease_run_out()

    assert service.send(POST)["statusCode"] == 202

    (expired,) = [each for each in service.store.written if isinstance(each, ExpireLease)]
    assert isinstance(expired.to, Retry)
    assert expired.to.due is not None
    assert expired.to.due.at_ms == service.clock.now_ms() + RECONCILE_GRACE_MS


def _called(function: Callable[[], None]) -> None:
    function()


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["in its context", "in another"])
@pytest.mark.parametrize("in_step", [False, True], ids=["in its handler", "in its step"])
def test_a_coroutine_that_is_closed_raises_nothing_and_keeps_its_lease(
    in_step: bool, is_elsewhere: bool
) -> None:
    """Its handler may have done anything, and nothing more can be awaited to record that. The
    garbage collector closes it in whatever context it runs in.
    """
    store, clock, began = MemoryStore(), ManualClock(), asyncio.Event()

    @idempotent_function(
        operation="charge",
        key=str,
        tenant=single_tenant(),
        effects="recorded",
        store=store,
        clock=clock,
    )
    async def charge(_order: str, op: Operation) -> None:
        async def waits() -> None:
            began.set()
            await asyncio.Event().wait()

        await (op.step_async("charge", waits) if in_step else waits())

    async def closes() -> None:
        coroutine: Any = charge("o-1")  # type: ignore[call-arg]
        while not began.is_set():
            waiting = coroutine.send(None)
            if waiting is not None and not began.is_set():
                waiting._asyncio_future_blocking = False
                await asyncio.wait([waiting])
        (contextvars.Context().run if is_elsewhere else _called)(coroutine.close)

    asyncio.run(closes())

    (record,) = store.records.values()
    assert record.status is Status.IN_PROGRESS
    assert record.is_in_doubt is in_step


def test_a_release_whose_answer_was_lost_is_no_lost_record() -> None:
    """The store's failure is told to the client, and nobody is said to have the record now."""
    service = Steps()
    service.store.refuse("commit Complete", 99)
    service.store.lose("Release")

    answer = service.sends(writes)

    assert problem_of(answer)[:2] == (503, "store-unavailable")
    assert service.record.status is Status.FAILED_RETRYABLE


def test_a_stopped_attempt_gives_the_answer_that_its_step_was_settled_with() -> None:
    """Its step's result was not confirmed, its lease ran out, and a settlement completed the record
    under its own owner.
    """
    service = Steps()
    other = Steps()
    other.sends()

    def is_settled(_service: Steps) -> None:
        service.store.refuse("FinishStep", 99)
        (pk,) = service.store.records
        completed = other.record
        service.store.records[pk] = replace(
            service.store.records[pk],
            status=Status.COMPLETED,
            response=completed.response,
            response_version=completed.response_version,
            completed_at_ms=completed.completed_at_ms,
            expires_at_s=completed.expires_at_s,
        )

    answer = service.sends(step("charge", is_idempotent=True, then=is_settled))

    assert (answer["statusCode"], answer["body"]) == (201, "made")
    assert is_replay(answer)


@pytest.mark.parametrize("contention", ["conflict", "in-progress"])
def test_a_key_that_a_transaction_is_writing_is_in_progress(contention: str) -> None:
    """Its owner is at work, so the client is told to come back in a second."""
    busy = StoreError("TransactionConflict", transient=True, contention=contention)

    refusal = unreserved(busy, "POST /payments")

    assert (refusal.reason, refusal.retry_after_ms) == (Reason.RUNNING, 1_000)


def test_without_traces_an_attempt_is_what_it_is() -> None:
    """Traces that were switched off meanwhile change no outcome."""

    async def flow() -> Any:
        return "an outcome"

    with pytest.raises(StopIteration) as ended:
        traced(flow(), "POST /payments").send(None)

    assert ended.value.value == "an outcome"


class Losing(FaultyStore):
    """A store that answers no start of a step, though it carries out the first."""

    def write(self, transition: Any) -> Any:
        """Write; a start's answer is lost, and the next ones are not carried out."""
        if not isinstance(transition, StartStep):
            return super().write(transition)
        self.lose("StartStep")
        try:
            return super().write(transition)
        finally:
            self.refuse("StartStep", 99)


def test_a_mark_that_was_not_confirmed_is_cleared_before_the_key_is_freed() -> None:
    """Its step was never called, so that the next attempt may run it."""
    service = Steps(store=Losing())

    answer = service.sends(step("charge"))

    assert problem_of(answer)[:2] == (503, "store-unavailable")
    assert service.ran == []
    assert service.record.status is Status.FAILED_RETRYABLE
    assert service.record.steps.started is None


def test_an_answer_that_the_transaction_has_no_room_for_is_saved_before_it() -> None:
    """The record never refers to an answer that is not there."""
    service = Steps()
    body = noise(20_000).hex()

    def fills(_service: Steps, op: Operation) -> None:
        for number, size_bytes in enumerate([400_000] * 10 + [188_000]):
            op.transaction.put("rides", {"id": str(number), "filler": b"x" * size_bytes})

    service.sends(fills, ends={"statusCode": 201, "body": body})

    assert service.store.asked[-2:] == ["save", "commit Complete"]
    assert service.send(POST)["body"] == body


@pytest.mark.parametrize(
    ("reason", "heard"), [(Reason.KEY_REUSED, ["key-reused"]), (Reason.TOO_OLD, [])]
)
def test_a_key_that_is_reused_below_is_heard(reason: Reason, heard: list[str]) -> None:
    """A protection below the handler refused the request; a listener hears what it would hear of
    our own refusal.
    """
    events: list[OperationEvent] = []
    service = Protected(on_event=events.append)

    def refused(_event: object, _op: object) -> Any:
        raise RefusedBelow(reason)

    service.then = refused
    service.send(POST)

    assert [each.kind for each in events] == heard


@pytest.mark.parametrize("effects", ["unrecorded", "repeatable", "recorded"])
def test_a_first_attempt_that_is_refused_below_leaves_its_key_to_the_right_request(
    effects: str,
) -> None:
    """Nothing was done under the key, so its record expires at once.

    Red when a first attempt counts as one that may have acted.
    """
    service = Protected(effects=effects)
    service.then = refused_below
    service.send(POST)
    (record,) = service.store.records.values()

    assert record.is_expired(service.clock.now_ms())


def refused_below(_event: object, _op: object) -> Any:
    """A protection below the handler refuses the request."""
    raise RefusedBelow(Reason.KEY_REUSED)


class Working(ManualClock):
    """A clock during whose first pause something happens."""

    happens: Callable[[], object] | None = None

    def pause(self, duration_ms: int) -> None:
        """Let the time pass, and it happen."""
        super().pause(duration_ms)
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()


def test_a_waiting_request_accepts_its_job_once() -> None:
    """The job fails while its request waits for it: the queue delivers it again, and the request
    does not accept it a second time.
    """
    clock = Working()
    service = Accepted(clock=clock, in_progress="wait", wait_up_to=timedelta(seconds=2))

    def fails() -> None:
        with pytest.raises(NotExecuted):
            service.works()

    clock.happens = fails

    answer = service.sends(ends=NotExecuted())

    assert answer["statusCode"] == 202
    assert service.record.status is Status.FAILED_RETRYABLE
    assert [each for each in service.store.asked if each.startswith("commit")] == ["commit Reserve"]
