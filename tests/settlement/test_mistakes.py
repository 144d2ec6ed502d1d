"""`settle` and resolvers in the hands of those who err: nothing runs again for a mistake."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, ConfigurationError, NotExecuted, StillUnknown, resolver, settle
from oncekey.errors import StoreError
from oncekey.outbox.sweep import OutboxSweep, Swept
from oncekey.reconciler.reconciler import Reconciler
from oncekey.record.record import Status
from oncekey.record.references import reference_to
from oncekey.settlement.settlement import Settlement
from tests.support.accepted import START_WITHIN_MS, Accepted
from tests.support.events import with_key
from tests.support.protected import fails, is_replay
from tests.support.settled import in_doubt, the
from tests.support.steps import POST, Steps, step

if TYPE_CHECKING:
    from oncekey import Question
    from oncekey.reconciler.report import Report

LEASE_MS, GRACE_MS = 15_000, 60_000
MADE = {"statusCode": 201, "body": "made"}

pytestmark = pytest.mark.usefixtures("no_resolvers")


def says(service: Any, finding: Any, **options: Any) -> Settlement:
    """What somebody says of the only record from outside."""
    reference = reference_to(the(service))
    now_ms = service.clock.now_ms()
    given = {"found_at_ms": now_ms, "store": service.store, "clock": service.clock, **options}
    return settle(reference, finding, **given)


def reconciles(service: Any, **options: Any) -> Report:
    """A run of the reconciler once everything is due."""
    due = [record.due.at_ms for record in service.store.records.values() if record.due is not None]
    service.clock.advance(max(0, max(due) + 1 - service.clock.now_ms()))
    reconciler = Reconciler(store=service.store, clock=service.clock, **options)
    return reconciler.run(service.clock.now_ms() + 50_000)


@pytest.mark.requirement("D3")
@pytest.mark.parametrize(
    "mistake", [MADE, None, True, "not executed", NotExecuted, Completed, StillUnknown], ids=str
)
def test_what_is_no_finding_settles_nothing(mistake: Any) -> None:
    """An answer without its `Completed`, or a class that was not called, is refused with what to
    give instead; the operation stays in doubt, and is not run again.

    Red when whatever is not `Completed` counts as `NotExecuted`.
    """
    service = in_doubt()
    service.clock.advance(LEASE_MS + GRACE_MS + 1)

    with pytest.raises(TypeError, match=r"Completed\(answer\), NotExecuted\(\)"):
        says(service, mistake)

    assert the(service).status is Status.UNKNOWN
    assert service.send(POST)["statusCode"] == 409
    assert len(service.runs) == 1


@pytest.mark.parametrize("mistake", [MADE, None, Completed], ids=str)
def test_what_is_no_finding_is_told_also_where_nothing_is_in_doubt(mistake: Any) -> None:
    """The first webhook that comes after its handler has answered, or after the record is gone,
    shows its author's mistake.
    """
    service = Steps()
    service.sends()
    answered = the(service)

    for records in ({answered.pk: answered}, {}):
        service.store.records = records
        with pytest.raises(TypeError, match=r"Completed\(answer\), NotExecuted\(\)"):
            settle(reference_to(answered), mistake, store=service.store, clock=service.clock)


@pytest.mark.parametrize("finding", [Completed("n-1"), NotExecuted()], ids=str)
def test_a_finding_that_names_no_step_settles_no_step(finding: Any) -> None:
    """Of recorded effects, what was found out about one step is not taken for the one in doubt:
    the error says to name it, and named otherwise it settles nothing.
    """
    service = Steps()
    dies = step("notify", then=lambda each: setattr(each.store, "is_dead", True))
    service.dies(step("charge", "c-1"), dies)
    service.clock.advance(LEASE_MS + GRACE_MS + 1)
    service.send(POST)
    assert the(service).status is Status.UNKNOWN

    with pytest.raises(ValueError, match="step="):
        says(service, finding)
    assert says(service, finding, step="charge") is Settlement.NOT_IN_DOUBT
    assert the(service).status is Status.UNKNOWN

    assert says(service, finding, step="notify") is Settlement.SETTLED


@pytest.mark.requirement("D3")
def test_nothing_is_believed_not_to_have_happened_before_the_handlers_own_grace() -> None:
    """`NotExecuted` is too early until the grace that the handler declares is over, which is longer
    than that of whoever says it.

    Red when the grace of the settling process alone counts.
    """
    service = in_doubt(reconcile_grace=timedelta(minutes=30))
    service.clock.advance(LEASE_MS + GRACE_MS + 1)

    assert says(service, NotExecuted()) is Settlement.TOO_EARLY
    service.clock.advance(30 * 60_000)
    assert says(service, NotExecuted()) is Settlement.SETTLED


@pytest.mark.requirement("B11")
def test_an_answer_from_outside_is_kept_as_long_as_the_handlers_own() -> None:
    """`settle` keeps an answer for the retention that the record names, under the version that the
    record names, so that the key does not run again while its handler's own answers would still be
    there.

    Red when an answer from outside is kept as the environment says.
    """
    service = in_doubt(retention=timedelta(days=30), response_version=3)

    assert says(service, Completed(MADE)) is Settlement.SETTLED
    service.clock.advance(29 * 86_400_000)

    assert is_replay(service.send(POST))
    assert the(service).response_version == 3


@pytest.mark.parametrize(
    ("effects", "finding", "told"),
    [
        ("repeatable", NotExecuted(), {}),
        ("recorded", NotExecuted(), {}),
        ("recorded", Completed("c-1"), {}),
        ("recorded", Completed("c-1"), {"step": "charge"}),
    ],
    ids=str,
)
def test_a_dead_run_that_may_run_again_is_not_put_in_doubt_by_what_changes_nothing(
    effects: str, finding: Any, told: dict[str, Any]
) -> None:
    """Of a dead run that may run again, what would change nothing leaves it to the next request,
    which goes on with it at once; in doubt it would wait for somebody.
    """
    service = Steps(effects=effects)
    service.dies()
    service.clock.advance(LEASE_MS + 1)

    assert says(service, finding, **told) is Settlement.NOT_IN_DOUBT
    assert service.sends()["statusCode"] == 201


@pytest.mark.requirement("B6")
def test_one_bad_record_holds_no_other_up(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever a resolver gives to be stored, the run visits every other record, and of what went
    wrong the log has the kind.

    Red when a visit that raises ends the run.
    """
    service = in_doubt()
    service.then = fails(TimeoutError())
    for number in range(3):
        with pytest.raises(TimeoutError):
            service.send(with_key(POST, f"another-key-of-a-client-{number}"))

    @resolver("POST /payments")
    def found(question: Question) -> Any:
        bad = Completed({"statusCode": "9" * 5_000})
        return bad if question.key == the_first else Completed(MADE)

    the_first = next(iter(service.store.records.values())).key
    report = reconciles(service)

    assert (report.visited, report.settled, report.still_unknown) == (4, 3, 1)
    assert "answer-not-storable" in caplog.text
    assert "9999" not in caplog.text


class NoQueue(OutboxSweep):
    """An outbox whose table does not answer."""

    def __init__(self) -> None:
        """It has nothing."""

    def run(self, **_times: Any) -> Swept:
        """As it says."""
        raise StoreError("the outbox does not answer", transient=True)


@pytest.mark.requirement("C21")
def test_an_outbox_that_is_down_keeps_no_record_waiting() -> None:
    """Where the outbox does not answer, every record has its turn, and then the run fails.

    Red when the failure of the sweep ends the run.
    """
    service = in_doubt()

    @resolver("POST /payments")
    def found(_question: Question) -> Completed:
        return Completed(MADE)

    with pytest.raises(StoreError, match="the outbox does not answer"):
        reconciles(service, outbox=NoQueue())

    assert is_replay(service.send(POST))


@pytest.mark.requirement("C21")
def test_a_slow_outbox_takes_a_quarter_of_the_time_of_a_run() -> None:
    """A sweep is told to end after a quarter of the time, and the records have the rest.

    Red when it may go on until the end of the run.
    """
    service = in_doubt()

    @resolver("POST /payments")
    def found(_question: Question) -> Completed:
        return Completed(MADE)

    class Slow(NoQueue):
        def run(self, **times: Any) -> Swept:
            while times["is_time_left"]():
                service.clock.advance(100)
            return Swept(is_complete=False)

    assert reconciles(service, outbox=Slow()).settled == 1
    assert is_replay(service.send(POST))


@pytest.mark.requirement("E3")
@pytest.mark.parametrize("looks", [1, 11])
def test_accepted_work_that_was_looked_at_is_still_sent_off_again(looks: int) -> None:
    """Work that was begun once, and whose message is lost, is sent off anew by its client's retry
    after the reconciler has looked at it as before, and also once a person was told.

    Red when a reconciler's turn makes late work look as if it were in time.
    """
    service = Accepted(effects="recorded")
    service.sends(ends=TimeoutError())
    with pytest.raises(TimeoutError):
        service.works()
    service.send(POST)
    service.clock.advance(START_WITHIN_MS)
    for _ in range(looks):
        reconciles(service)

    assert service.send(POST)["statusCode"] == 202
    assert len(service.messages) == 3
    service.handles()
    service.works()
    assert service.send(POST)["statusCode"] == 201


def test_what_is_no_store_and_no_clock_settles_nothing() -> None:
    """The name of a table in place of the store, for example, is told with what to pass."""
    wrong: Any = {"store": "records", "clock": "now"}
    reference = f"v1#{'a' * 43}.{'0' * 36}"

    with pytest.raises(ConfigurationError, match=r"settle: store is no store.*clock is no clock"):
        settle(reference, Completed({"statusCode": 201}), **wrong)
