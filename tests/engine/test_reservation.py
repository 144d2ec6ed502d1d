"""Reserving a key against a record that changes under one's hands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.engine.operation_options import OperationOptions
from oncekey.engine.request import Request
from oncekey.engine.reservation import outcome_unknown, reserve, running
from oncekey.flow.commands import Pause, Read, Write
from oncekey.flow.retry import Budget
from oncekey.record.identity import Identity
from oncekey.record.outcome import Held, Reason, Refusal
from oncekey.record.record import Effects, Record, Status
from oncekey.record.transitions import Doubt, ExpireLease, Reserve, Resume, TakeOver
from oncekey.settings import Settings
from oncekey.store.store import Refused, Written
from oncekey.testing.memory import ManualClock
from tests.support.records import NOW_MS, NOW_S, record
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

GRACE_MS = 60_000
REQUEST = Request(
    identity=Identity(
        tenant="tenant-1",
        operation="POST /payments",
        key="secret-key-0123456789",
        principal="user-1",
    ),
    fingerprint="f1:asked",
    options=OperationOptions(
        effects=Effects.UNRECORDED, settings=Settings(reconcile_grace_ms=GRACE_MS)
    ),
    deadline_ms=NOW_MS + 30_000,
)


@dataclass
class Reserved:
    """How a reservation ended, and what it wrote on the way."""

    decision: Any
    written: list[Any]


def reserved(
    replies: Iterator[Any], request: Request = REQUEST, clock: ManualClock | None = None
) -> Reserved:
    """Reserve for `me`, against a store that gives these answers."""
    clock = clock or ManualClock(NOW_MS)
    budget = Budget(until_ms=request.deadline_ms, call_timeout_ms=0, max_failures=3)
    flow = reserve(request, "me", budget, clock)
    written: list[Any] = []
    try:
        command = flow.send(None)
        while True:
            assert isinstance(command, Write)
            written.append(command.transition)
            command = flow.send(next(replies))
    except StopIteration as end:
        return Reserved(end.value, written)


def changing(times: int) -> Iterator[Refused]:
    """A record that is released by another owner each time just before it is written."""
    released = record(
        pk=REQUEST.pk, status=Status.FAILED_RETRYABLE, expires_at_s=NOW_S + 3_600, due=None
    )
    for number in range(times):
        yield Refused(replace(released, owner=f"another-{number}", rev=released.rev + 2 * number))


def test_a_record_that_changes_seven_times_is_still_reserved() -> None:
    """Every refusal is judged anew, from the record that it shows, and the next write names that
    version.

    Red when the flow gives up after a few rounds, or writes from a record that it saw before.
    """

    def replies() -> Iterator[Any]:
        yield from changing(7)
        yield Written()

    result = reserved(replies())

    assert isinstance(result.decision, Held)
    assert result.decision.record.owner == "me"
    assert isinstance(result.written[0], Reserve)
    resumes = result.written[1:]
    assert all(isinstance(write, Resume) for write in resumes)
    assert [write.seen.rev for write in resumes] == [7, 9, 11, 13, 15, 17, 19]


def test_a_lease_that_ended_while_it_was_reserved_lets_nothing_run() -> None:
    """Our own write is judged like any record: another process may have acted on it since.

    Red when a reserve that was written is taken for a lease that is held.
    """
    clock = ManualClock(NOW_MS)

    def replies() -> Iterator[Any]:
        clock.advance(REQUEST.lease_until_ms(NOW_MS) - NOW_MS + 1)
        yield Written()
        yield Written()

    result = reserved(replies(), clock=clock)

    assert [type(write) for write in result.written] == [Reserve, ExpireLease]
    assert result.decision.reason is Reason.OUTCOME_UNKNOWN


def test_a_request_that_reserves_another_operation_does_so_as_another_owner() -> None:
    """What it reserved first was forgotten. Whoever has seen that one knows it by its owner.

    Red when both operations have the same owner: seed 5901296 of the simulation then ends the
    second by a write that was decided for the first.
    """
    forgotten = replace(
        record(pk=REQUEST.pk, status=Status.COMPLETED, due=None, lease_until_ms=None),
        owner="me",
        expires_at_s=NOW_S - 1,
    )

    result = reserved(iter([Refused(forgotten), Written()]))

    first, second = result.written
    assert first.record.owner == "me"
    assert second.record.owner != "me"
    assert second.record.operation_id != first.record.operation_id
    assert isinstance(result.decision, Held)
    assert result.decision.record == second.record


def test_a_record_that_never_stops_changing_is_left_to_the_others() -> None:
    """After eight rounds the request is refused and may come back in a second: no loop is endless.

    Red when the rounds are not limited.
    """
    result = reserved(changing(100))

    assert len(result.written) == 8
    assert isinstance(result.decision, Refusal)
    assert result.decision.reason is Reason.RUNNING
    assert result.decision.retry_after_ms == 1_000


@pytest.mark.parametrize(
    ("ended_ago_ms", "due_in_ms"),
    [(1, GRACE_MS - 1), (GRACE_MS - 1, 1), (GRACE_MS, 0), (GRACE_MS + 5_000, 0)],
)
def test_a_dead_attempt_is_looked_at_when_its_calls_can_no_longer_arrive(
    ended_ago_ms: int, due_in_ms: int
) -> None:
    """The grace counts from the end of the dead lease; once it has passed, it is due now.

    Red when it counts from the moment at which somebody met the record, or is left out.
    """
    dead = record(pk=REQUEST.pk, lease_until_ms=NOW_MS - ended_ago_ms)

    result = reserved(iter([Refused(dead), Written()]))

    _, expire = result.written
    assert isinstance(expire, ExpireLease)
    assert expire.to == Doubt(reason="lease-expired", due=REQUEST.due(NOW_MS + due_in_ms))
    assert result.decision.reason is Reason.OUTCOME_UNKNOWN


def test_a_harmless_attempt_that_died_is_taken_over_without_a_doubt() -> None:
    """Repeatable effects on both sides: the record is ours, and nobody has to look at it before our
    own lease ends.
    """
    request = replace(REQUEST, options=replace(REQUEST.options, effects=Effects.REPEATABLE))
    dead = record(pk=request.pk, effects=Effects.REPEATABLE, lease_until_ms=NOW_MS - 1)

    result = reserved(iter([Refused(dead), Written()]), request)

    assert isinstance(result.written[1], TakeOver)
    assert isinstance(result.decision, Held)
    assert result.decision.record.due == request.due_after_lease(request.lease_until_ms(NOW_MS))


@pytest.mark.parametrize(
    ("left_ms", "retry_after_ms"),
    [(-1, 1_000), (0, 1_000), (1, 1_000), (2_500, 2_500), (5_000, 5_000), (5_001, 5_000)],
)
def test_a_client_of_a_running_attempt_comes_back_within_one_to_five_seconds(
    left_ms: int, retry_after_ms: int
) -> None:
    """When the lease ends, but neither at once nor much later: the answer may be there long before.

    Red when the shortest or the longest wait is moved.
    """
    refusal = running(record(lease_until_ms=NOW_MS + left_ms), NOW_MS)

    assert refusal.retry_after_ms == retry_after_ms


def test_a_lease_without_an_end_sends_clients_away_for_the_longest_time() -> None:
    """A record in progress that says nothing of its lease is waited for like a long one."""
    assert running(record(lease_until_ms=None), NOW_MS).retry_after_ms == 5_000


@pytest.mark.parametrize(
    ("due_in_ms", "retry_after_ms"),
    [(-1, 60_000), (0, 60_000), (1, 1_000), (20_000, 20_000), (60_001, 60_000), (None, 60_000)],
)
def test_a_client_of_an_unknown_outcome_comes_back_when_somebody_has_looked(
    due_in_ms: int | None, retry_after_ms: int
) -> None:
    """At the time at which it is due, within a minute; and in a minute where that has passed."""
    due = None if due_in_ms is None else REQUEST.due(NOW_MS + due_in_ms)
    met: Record = record(status=Status.UNKNOWN, due=due)

    assert outcome_unknown(met, NOW_MS).retry_after_ms == retry_after_ms


def test_a_waiting_repeat_looks_again_after_twice_the_time_until_that_is_a_second() -> None:
    """A first answer that comes soon is seen soon; one that takes long costs a read a second."""
    at_work = record(pk=REQUEST.pk, lease_until_ms=NOW_MS + 99_000)
    waits = replace(REQUEST.options.settings, in_progress="wait", wait_up_to_ms=9_000)
    request = replace(REQUEST, options=replace(REQUEST.options, settings=waits))
    clock = ManualClock(NOW_MS)
    budget = Budget(until_ms=request.deadline_ms, call_timeout_ms=0, max_failures=3)
    flow = reserve(request, "me", budget, clock)
    pauses: list[int] = []

    assert isinstance(flow.send(None), Write)
    command: Any = flow.send(Refused(at_work))
    while len(pauses) < 7:
        assert isinstance(command, Pause)
        pauses.append(command.duration_ms)
        clock.advance(command.duration_ms)
        assert isinstance(flow.send(None), Read)
        command = flow.send(at_work)

    assert pauses == [50, 100, 200, 400, 800, 1_000, 1_000]


def test_a_resumed_attempt_brings_the_policy_of_its_own_release() -> None:
    """The record says how its answer is stored, and who stores it is the attempt that ends it."""
    failed = record(
        pk=REQUEST.pk, status=Status.FAILED_RETRYABLE, expires_at_s=NOW_S + 3_600, due=None
    )

    resume = reserved(iter([Refused(failed), Written()])).written[-1]

    assert isinstance(resume, Resume)
    assert resume.lease.policy == REQUEST.options.policy
    assert resume.lease.policy is not None
