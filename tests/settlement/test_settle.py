"""`settle`: who knows from outside says so once, of the right operation, and is told what came."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from oncekey import Completed, ConfigurationError, NotExecuted, Settlement, StoreError, settle
from oncekey.record.record import Status
from tests.support.accepted import Meanwhile
from tests.support.protected import is_replay
from tests.support.reconciled import GRACE_MS, PAID, Unrecorded, counts, knows, reconciles
from tests.support.steps import FAILED, LEASE_MS, POST, Steps, caught, step

DAY_MS = 24 * 3_600_000
NOT_IN_DOUBT = Settlement.NOT_IN_DOUBT
KNOWN = Completed(PAID)

pytestmark = pytest.mark.usefixtures("no_resolvers")


def says(
    service: Steps,
    finding: Any = KNOWN,
    *,
    reference: str | None = None,
    step: str = "",
    found_at_ms: int | None = None,
) -> Settlement:
    """Somebody knows of the service's first operation, unless told of another."""
    return settle(
        service.runs[0].reference if reference is None else reference,
        finding,
        step=step,
        found_at_ms=service.clock.now_ms() if found_at_ms is None else found_at_ms,
        store=service.store,
        clock=service.clock,
    )


def unknown(**options: Any) -> Unrecorded:
    """A service with one unknown record, at the time when it may be settled."""
    service = Unrecorded(**options)
    service.fails()
    service.clock.advance(LEASE_MS + GRACE_MS + 1)
    return service


def in_doubt() -> Steps:
    """A service with a step in doubt, after another one."""
    service = Steps()
    service.sends(step("hold", "h-1"), caught(step("charge", raises=TimeoutError())))
    service.clock.advance(LEASE_MS + GRACE_MS + 1)
    return service


@pytest.mark.requirement("D6")
def test_who_knows_settles_what_is_unknown() -> None:
    """What is known is the answer of every retry; it is said once, and not asked about again.

    Red when a settlement from outside needs a resolver, or leaves the record due.
    """
    service = unknown()

    assert says(service) is Settlement.SETTLED
    assert says(service) is NOT_IN_DOUBT
    assert counts(reconciles(service)) == {}
    answer = service.send(POST)
    assert (answer["body"], is_replay(answer)) == (PAID["body"], True)


@pytest.mark.parametrize("garbage", ["", "pi_123", "v1#x", "."])
def test_what_is_no_reference_is_an_error(garbage: str) -> None:
    """Text that names no operation is the caller's mistake, and is told so before anything is
    read.
    """
    service = unknown()
    service.store.asked.clear()

    with pytest.raises(ValueError, match="op.reference"):
        says(service, reference=garbage)
    assert service.store.asked == []


def test_a_reference_to_nothing_settles_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Another key, and another operation under the same key, are not this one; the log says so."""
    caplog.set_level("INFO")
    service = unknown()
    reference, before = service.runs[0].reference, service.record
    another_operation = f"{reference[:-1]}{'1' if reference[-1] == '0' else '0'}"
    another_key = reference.replace("v1#", "v1#x").replace("x" + reference[3], "x", 1)

    for wrong in (another_operation, another_key):
        assert wrong != reference
        assert says(service, reference=wrong) is NOT_IN_DOUBT
        assert f"nothing-to-settle: {wrong.partition('.')[2]}" in caplog.text
    assert service.record == before


def test_an_earlier_life_of_the_key_is_over() -> None:
    """After the retention the key is another operation: a late webhook of the first changes
    nothing, whatever has become of the second.
    """
    service = unknown()
    first = service.runs[0].reference
    assert says(service, NotExecuted()) is Settlement.SETTLED
    service.clock.advance(60 * DAY_MS)
    assert says(service, reference=first) is NOT_IN_DOUBT
    service.fails()
    service.clock.advance(LEASE_MS + GRACE_MS + 1)
    second = service.record

    for finding in (Completed(PAID), NotExecuted()):
        assert says(service, finding, reference=first) is NOT_IN_DOUBT
    assert service.record == second
    assert service.runs[-1].reference != first


@pytest.mark.parametrize(
    "finding",
    [Completed({"statusCode": 402, "body": ""}), Completed(object()), NotExecuted()],
    ids=["an answer", "no answer", "not executed"],
)
def test_what_is_answered_stays_answered(finding: Any) -> None:
    """A completed operation is not settled anew, by whatever."""
    service = Unrecorded()
    service.sends()

    assert says(service, finding) is NOT_IN_DOUBT
    assert service.send(POST)["statusCode"] == 201


def test_not_executed_is_too_early_before_the_lease_and_the_grace() -> None:
    """Until the last moment of the grace nobody is believed that nothing happened; that something
    did is believed at once.
    """
    early, completed = Unrecorded(), Unrecorded()
    for service in (early, completed):
        service.fails()
    assert says(completed) is Settlement.SETTLED
    began = LEASE_MS + GRACE_MS
    for passes_ms in (0, LEASE_MS, began - LEASE_MS):
        early.clock.advance(passes_ms)
        assert says(early, NotExecuted()) is Settlement.TOO_EARLY
    early.clock.advance(1)
    assert says(early, NotExecuted()) is Settlement.SETTLED


@pytest.mark.parametrize("recorded", [False, True], ids=["whole operation", "step"])
def test_what_was_found_out_before_an_attempt_says_nothing_about_it(*, recorded: bool) -> None:
    """A provider's event says that nothing was executed. It is delivered after another attempt has
    called the provider, so it is not believed; what is found out about this attempt is.

    Red when `NotExecuted` counts from its delivery, and not from when it was found out.
    """
    service: Any = in_doubt() if recorded else unknown()
    name = "charge" if recorded else ""
    event_ms = service.clock.now_ms()
    assert says(service, NotExecuted(), step=name) is Settlement.SETTLED
    if recorded:
        service.sends(step("hold", "h-1"), caught(step("charge", raises=TimeoutError())))
    else:
        service.fails()
    service.clock.advance(LEASE_MS + GRACE_MS + 1)

    late = says(service, NotExecuted(), step=name, found_at_ms=event_ms)
    assert (late, service.record.status) == (Settlement.TOO_EARLY, Status.UNKNOWN)
    assert says(service, NotExecuted(), step=name) is Settlement.SETTLED


def test_a_time_that_is_ahead_of_ours_counts_as_now() -> None:
    """An event from a provider whose clock is ahead, delivered at once, ends no grace early."""
    service = Unrecorded()
    service.fails()
    ahead_ms = service.clock.now_ms() + LEASE_MS + GRACE_MS + 1

    assert says(service, NotExecuted(), found_at_ms=ahead_ms) is Settlement.TOO_EARLY


@pytest.mark.parametrize(
    "found_at_ms",
    [
        *(None, 1.5, True, 1_764_400_000, 10**11 - 1, 10**14, 1_764_400_000_000_000, 10**18),
        "2026-11-29T12:00:00Z",
    ],
)
def test_not_executed_needs_the_time_when_it_was_found_out(found_at_ms: Any) -> None:
    """Without a time, or with one that is not in milliseconds, nothing is settled, and the error
    says what to give.

    Red when a time in seconds or microseconds is taken for another time.
    """
    service = unknown()
    with pytest.raises(TypeError, match="needs found_at_ms=.*epoch milliseconds"):
        settle(
            service.runs[0].reference,
            NotExecuted(),
            found_at_ms=found_at_ms,
            store=service.store,
            clock=service.clock,
        )
    assert service.record.status is Status.UNKNOWN


def test_the_grace_is_that_of_the_operation() -> None:
    """An operation that states a longer grace than the environment has its own: before that nobody
    is believed that nothing happened, and a reconciler that has looked after it need not wait.
    """
    service = Unrecorded(reconcile_grace=timedelta(minutes=10))
    service.fails()
    service.clock.advance(LEASE_MS + 600_000)

    assert says(service, NotExecuted()) is Settlement.TOO_EARLY
    service.clock.advance(1)
    assert says(service, NotExecuted()) is Settlement.SETTLED


@pytest.mark.parametrize("looks", ["reconciler", "client"])
def test_whoever_has_looked_the_handlers_grace_stays(looks: str) -> None:
    """An event says that nothing was executed, after the settler's grace and within the handler's.
    It is too early for ever, though a reconciler or a client has looked at the record since. One
    from after the handler's grace settles.

    Red when the time at which somebody looks next stands for the end of the grace.
    """
    service = Unrecorded(reconcile_grace=timedelta(minutes=10))
    service.is_killed()
    within_ms = service.clock.now_ms() + LEASE_MS + GRACE_MS + 1
    after_ms = service.clock.now_ms() + LEASE_MS + 600_000 + 1
    service.clock.advance(2 * 3_600_000)
    if looks == "reconciler":
        knows("nonsense")
        service.reconciles()
    service.send(POST)
    assert service.record.status is Status.UNKNOWN

    assert says(service, NotExecuted(), found_at_ms=within_ms) is Settlement.TOO_EARLY
    assert says(service, NotExecuted(), found_at_ms=after_ms) is Settlement.SETTLED


def test_a_reconciler_that_has_looked_does_not_put_the_grace_off() -> None:
    """Once a turn was taken the grace is over, however far away the next turn is."""
    service = unknown(reconcile_grace=timedelta(minutes=10))
    knows("nonsense")
    assert reconciles(service).still_unknown == 1

    assert says(service, NotExecuted()) is Settlement.SETTLED


@pytest.mark.requirement("D6")
def test_a_late_effect_completes_what_was_to_be_tried_again() -> None:
    """A charge that comes to light after the operation was let go completes it: the retry gets the
    answer, and pays nothing.

    Red when a late effect is taken for nothing in doubt.
    """
    service = unknown()
    assert says(service, NotExecuted()) is Settlement.SETTLED

    assert says(service, NotExecuted()) is NOT_IN_DOUBT
    assert says(service) is Settlement.SETTLED
    assert is_replay(service.sends(service.charge))
    assert len(service.charges) == 1


def test_a_late_effect_is_overtaken_by_the_retry_that_runs() -> None:
    """A retry that began meanwhile is not overruled."""
    service = unknown()
    says(service, NotExecuted())
    said: list[Settlement] = []

    service.sends(lambda *_: said.append(says(service)))

    assert said == [Settlement.RUNNING]
    assert service.send(POST)["body"] == "made"


def test_a_step_is_settled_under_its_name() -> None:
    """Of recorded effects the step in doubt is settled, by its name; another step is not, nor is
    anything once none is in doubt.
    """
    service = in_doubt()
    assert says(service, Completed("h-2"), step="hold") is NOT_IN_DOUBT
    assert says(service, Completed("x"), step="another") is NOT_IN_DOUBT

    assert says(service, Completed("c-1"), step="charge") is Settlement.SETTLED
    for step_name in ("charge", "hold", ""):
        assert says(service, Completed("c-2"), step=step_name) is NOT_IN_DOUBT
    service.sends(step("hold"), step("charge"))
    assert (service.ran, service.given[-1]) == (["hold", "charge"], "c-1")


def test_an_operation_without_steps_has_none_to_settle() -> None:
    """A step's name is no way to settle effects that are not recorded."""
    service = unknown()

    assert says(service, step="charge") is NOT_IN_DOUBT
    assert service.record.status is Status.UNKNOWN


def test_half_done_work_is_not_completed_from_outside() -> None:
    """The business writes of recorded effects are made by a run: nobody answers for it."""
    service = Steps()
    service.sends(step("hold", "h-1"), ends=FAILED)

    assert says(service) is NOT_IN_DOUBT
    assert service.sends(step("hold"), step("charge", "c-1"))["statusCode"] == 201


@pytest.mark.parametrize("answer", ["no answer of a route", {"body": ""}, None, object()])
def test_an_answer_that_cannot_be_stored_is_the_callers_mistake(answer: Any) -> None:
    """A TypeError, and the operation is as unknown as before."""
    service = unknown()
    before = service.record

    with pytest.raises(TypeError):
        says(service, Completed(answer))
    assert service.record == before


@pytest.mark.parametrize("call", ["read", "Settle"])
def test_a_store_that_fails_is_an_error_and_it_may_be_said_again(call: str) -> None:
    """Where the store does not answer nothing is claimed; said again, it is settled once."""
    service = unknown()
    service.store.refuse(call, 99)
    with pytest.raises(StoreError):
        says(service)
    service.store.recovers()

    assert says(service) is Settlement.SETTLED
    assert is_replay(service.send(POST))


def test_a_settlement_whose_answer_is_lost_is_ours() -> None:
    """The write that landed is recognised by its fresh owner."""
    service = unknown()
    service.store.call_timeout_ms = 1_500
    service.store.lose("Settle")

    assert says(service) is Settlement.SETTLED


@pytest.mark.parametrize("call", ["read", "Settle"])
def test_a_record_that_goes_away_meanwhile_is_not_settled(call: str) -> None:
    """Somebody has removed it before it was read, or before it was written: nothing is claimed."""
    store = Meanwhile()
    service = unknown(store=store)
    store.schedule(0 if call == "read" else 1, store.records.clear)

    said = says(service)

    assert said is (NOT_IN_DOUBT if call == "read" else Settlement.OVERTAKEN)
    assert store.records == {}


def test_an_answer_that_is_large_is_kept_before_the_record_says_so() -> None:
    """What cannot be kept is not settled; then it is, and replayed whole."""
    service = unknown()
    large = {"statusCode": 200, "body": "é" * 300_000 + str(list(range(60_000)))}
    service.store.refuse("save", 99)
    with pytest.raises(StoreError):
        says(service, Completed(large))
    assert service.record.status is Status.UNKNOWN
    service.store.recovers()

    assert says(service, Completed(large)) is Settlement.SETTLED
    assert service.send(POST)["body"] == large["body"]


def test_a_late_owner_does_not_overwrite_the_large_answer_of_a_settlement() -> None:
    """The settled answer has a name of its own: the late owner saves another one, and every retry
    still gets the settled one.

    Red when the answer of a settlement has the name of its owner's.
    """
    service = Unrecorded()
    body = "é" * 300_000 + str(list(range(60_000)))
    large = {"statusCode": 200, "body": body}

    def frozen(_service: Steps, _op: object) -> None:
        service.clock.advance(LEASE_MS + GRACE_MS + 1)
        assert says(service, Completed(large)) is Settlement.SETTLED

    service.sends(frozen, ends={**large, "body": body[::-1]})

    assert service.send(POST)["body"] == body


def test_without_a_table_nothing_can_be_settled() -> None:
    """Whoever settles without a store is told to name the table."""
    with pytest.raises(ConfigurationError, match="ONCEKEY_TABLE"):
        settle(unknown().runs[0].reference, KNOWN)
