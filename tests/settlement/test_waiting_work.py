"""`settle` of what no worker has begun, and what `settle` answers in every state."""

from __future__ import annotations

import pytest

from oncekey import Completed, NotExecuted, Settlement, settle
from oncekey.errors import JobUnfinished
from oncekey.flow.driver import drive
from oncekey.record.record import SETTLED, Due, Effects, Status
from oncekey.record.references import reference_to
from oncekey.settings import Settings
from oncekey.settlement.settlement import Settler
from tests.support.accepted import Accepted, Meanwhile
from tests.support.protected import Protected, fails, is_replay
from tests.support.reconciled import reconciles
from tests.support.records import record
from tests.support.replacing import replace
from tests.support.settled import ANSWER, says
from tests.support.steps import POST, FaultyStore, Steps, commit, dead, noise, step

EVERY_EFFECTS = pytest.mark.parametrize("effects", ["unrecorded", "repeatable", "recorded"])


@pytest.mark.fault("K6.2")
@EVERY_EFFECTS
def test_what_waits_for_a_worker_is_ended_by_whoever_has_done_it(effects: str) -> None:
    """A request that no worker has begun is answered as `settle` says, and its message, however
    often it comes, carries nothing out.

    Red when `settle` leaves what is PENDING as it is.
    """
    service = Accepted(effects=effects)
    service.sends()

    assert says(service, Completed(ANSWER))() is Settlement.SETTLED
    assert says(service, Completed(ANSWER))() is Settlement.NOT_IN_DOUBT
    for _ in range(2):
        service.works()
    answer = service.send(POST)
    assert (answer["body"], is_replay(answer)) == (ANSWER["body"], True)
    assert service.runs == []


@EVERY_EFFECTS
def test_a_large_answer_to_what_waits_is_kept(effects: str) -> None:
    """Beside its record, as any large answer, and the client gets it whole."""
    service = Accepted(effects=effects)
    service.sends()
    large = {"statusCode": 201, "body": noise(20_000).hex()}

    assert says(service, Completed(large))() is Settlement.SETTLED
    assert service.send(POST)["body"] == large["body"]


@EVERY_EFFECTS
def test_no_step_of_what_no_worker_has_begun_is_in_doubt(effects: str) -> None:
    """A finding about a step says nothing of it, and its worker carries it out."""
    service = Accepted(effects=effects)
    service.sends()
    before = service.record
    reference, now_ms = reference_to(before), service.clock.now_ms()

    said = settle(
        reference,
        Completed(ANSWER),
        step="charge",
        found_at_ms=now_ms,
        store=service.store,
        clock=service.clock,
    )

    assert (said, service.record) == (Settlement.NOT_IN_DOUBT, before)


@pytest.mark.fault("K6.2")
@EVERY_EFFECTS
@pytest.mark.parametrize("call", range(1, 4))
def test_of_a_worker_and_whoever_settles_one_has_it(call: int, effects: str) -> None:
    """Somebody settles what waits right before each call that a worker makes: either it is settled,
    and the worker does nothing, or it is `RUNNING`, and the worker's answer stands.

    Red when `SettlePending` is permitted in another state than PENDING, or leaves the owner.
    """
    store = Meanwhile()
    service = Accepted(effects=effects, store=store)
    service.sends()
    said: list[Settlement] = []
    service.handles(ends={"statusCode": 201, "body": "made"})
    store.schedule(call - 1, lambda: said.append(says(service, Completed(ANSWER))()))

    service.works()

    answer = service.send(POST)
    if said == [Settlement.SETTLED]:
        assert (service.runs, answer["body"]) == ([], ANSWER["body"])
    else:
        assert said == [Settlement.RUNNING]
        assert (len(service.runs), answer["body"]) == (1, "made")
    assert (said == [Settlement.SETTLED]) is (call <= 2)


@pytest.mark.fault("K6.2")
def test_a_late_effect_ends_what_waits_to_be_tried_again() -> None:
    """An effect that comes to light while the next attempt waits for its worker is the answer, also
    where a reconciler looked at the record between the reading and the write.

    Red when a turn of the reconciler is taken for somebody's settlement.
    """
    store = Meanwhile()
    service = Accepted(effects="unrecorded", store=store)
    service.sends(ends=NotExecuted())
    with pytest.raises(NotExecuted):
        service.works()
    service.send(POST)
    assert (service.record.status, service.record.attempt) == (Status.PENDING, 2)
    # Between the reading and the write.
    store.schedule(1, lambda: reconciles(service))

    assert says(service, Completed(ANSWER))() is Settlement.SETTLED
    assert service.record.reconcile_attempts == 1
    service.works()
    assert len(service.runs) == 1
    assert service.send(POST)["body"] == ANSWER["body"]


@pytest.mark.fault("K6.2")
def test_recorded_work_that_was_begun_is_left_to_the_run_that_makes_its_writes() -> None:
    """What waits to go on after its finished steps is not answered from outside, whatever is said:
    nothing of it is in doubt, and the run to come makes its business writes.

    Red when `settle` completes recorded work without its writes.
    """
    service = Accepted(effects="recorded")
    service.sends(step("hold", "h-1"), ends=NotExecuted())
    with pytest.raises(JobUnfinished):
        service.works()
    service.send(POST)

    for finding in (Completed(ANSWER), NotExecuted()):
        assert says(service, finding)() is Settlement.NOT_IN_DOUBT
    service.handles(step("hold"), commit("paid"))
    service.works()
    assert (service.ran, len(service.store.writes)) == (["hold"], 1)


@pytest.mark.fault("K6.2")
@EVERY_EFFECTS
@pytest.mark.parametrize("attempt", [1, 2])
@pytest.mark.parametrize("finding", [Completed(ANSWER), NotExecuted()], ids=["done", "not done"])
@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("is_over", [True, False], ids=["lease over", "lease open"])
def test_what_settle_answers_is_so(
    status: Status,
    finding: Completed | NotExecuted,
    attempt: int,
    effects: str,
    is_over: bool,
) -> None:
    """In every state, whatever is said: after `SETTLED` it is settled; after any other answer no
    answer was made up, what is `RUNNING` runs, what is `TOO_EARLY` is unknown, and what is
    `NOT_IN_DOUBT` is answered, or the next request or worker goes on with it.

    Red when `settle` says `RUNNING` of what nobody runs.
    """
    service = Protected(store=FaultyStore())
    now_ms = service.clock.now_ms()
    lease_ms = now_ms - 120_000 if is_over else now_ms + 5_000
    has_lease = status in {Status.IN_PROGRESS, Status.UNKNOWN}
    met = record(
        pk=f"v1#{'A' * 43}",
        status=status,
        effects=Effects(effects),
        attempt=attempt,
        lease_until_ms=lease_ms if has_lease else None,
        due=None if status is Status.COMPLETED else Due(shard="0", at_ms=lease_ms + 60_000),
        expires_at_s=now_ms // 1000 + 3600 if status in SETTLED else None,
        response="{}" if status is Status.COMPLETED else None,
        escalated_at_ms=None,
    )
    service.store.records[met.pk] = met

    said = says(service, finding)()

    left = service.store.records[met.pk]
    if said is Settlement.SETTLED:
        ended = Status.COMPLETED if isinstance(finding, Completed) else Status.FAILED_RETRYABLE
        recorded = Status.FAILED_RETRYABLE if status is Status.UNKNOWN else Status.COMPLETED
        assert left.status is (recorded if effects == "recorded" else ended)
        return
    assert left.status is status or (status, left.status) == (Status.IN_PROGRESS, Status.UNKNOWN)
    goes_on = left.status in {Status.PENDING, Status.FAILED_RETRYABLE} or left.may_run_again
    assert {
        Settlement.RUNNING: left.status is Status.IN_PROGRESS and not is_over,
        Settlement.TOO_EARLY: left.status is Status.UNKNOWN and isinstance(finding, NotExecuted),
        Settlement.NOT_IN_DOUBT: left.status is Status.COMPLETED or goes_on,
    }[said]
    if isinstance(finding, Completed) and effects != "recorded":
        assert said is Settlement.RUNNING or left.status is Status.COMPLETED


def ended(service: Protected) -> Settlement:
    """A person ends the only operation by hand."""
    (met,) = service.store.records.values()
    settler = Settler(
        clock=service.clock,
        settings=Settings(),
        call_timeout_ms=service.store.call_timeout_ms,
        has_bucket=service.store.has_bucket,
    )
    return drive(settler.end(met, Completed(ANSWER)), store=service.store, clock=service.clock)


def test_recorded_work_that_waits_to_go_on_is_ended_by_hand() -> None:
    """A worker has begun it, and its message is lost: it is begun once more, without its handler,
    and ended; no worker and no client runs it again.

    Red when it is left to the run that makes its business writes.
    """
    service = Accepted(effects="recorded")
    service.sends(step("hold", "h-1"), ends=NotExecuted())
    with pytest.raises(JobUnfinished):
        service.works()
    service.send(POST)
    assert (service.record.status, service.record.was_begun) == (Status.PENDING, True)

    assert ended(service) is Settlement.SETTLED

    service.works()
    answer = service.send(POST)
    assert (answer["body"], is_replay(answer)) == (ANSWER["body"], True)
    assert (len(service.runs), service.ran) == (1, ["hold"])


@pytest.mark.parametrize("effects", ["unrecorded", "repeatable"])
def test_what_failed_is_ended_by_hand_without_an_attempt(effects: str) -> None:
    """Its record says of its attempts and its effects what it said before."""
    service = Protected(effects=effects)
    service.then = fails(NotExecuted())
    service.send(POST)
    (before,) = service.store.records.values()

    assert ended(service) is Settlement.SETTLED

    (after,) = service.store.records.values()
    assert (after.attempt, after.effects) == (before.attempt, before.effects)
    assert service.send(POST)["body"] == ANSWER["body"]


@pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "in doubt"])
@EVERY_EFFECTS
def test_what_is_answered_or_in_doubt_is_not_ended_by_hand(effects: str, is_answered: bool) -> None:
    """What is in doubt may have taken effect: it is settled by who knows, and by nobody's wish."""
    service = Steps(effects=effects)
    if is_answered:
        service.sends()
    else:
        service.dies(*([step("charge", then=dead)] if effects == "recorded" else []))
        service.lets_the_lease_run_out()
        met = service.record
        unknown = replace(met, status=Status.UNKNOWN)
        service.store.records[met.pk] = unknown
    before = service.record

    assert ended(service) is Settlement.NOT_IN_DOUBT
    assert service.record == before


def test_a_finding_is_about_a_step_or_about_the_whole_answer() -> None:
    """About the step in doubt of recorded effects, or the one that is named; about the answer where
    the effects are not recorded, the operation was stopped, or no worker has begun it.
    """
    unknown = record(status=Status.UNKNOWN, effects=Effects.RECORDED, escalated_at_ms=None)
    stopped = replace(unknown, escalated_at_ms=1)
    waits = replace(unknown, status=Status.PENDING)
    unrecorded = replace(unknown, effects=Effects.UNRECORDED)

    assert [Settler.is_of_step(each, "") for each in (unknown, stopped, waits, unrecorded)] == [
        *(True, False, False, False)
    ]
    assert [Settler.is_of_step(each, "pay") for each in (unknown, stopped, waits, unrecorded)] == [
        *(True, True, False, False)
    ]
