"""Operations that were stopped because their handler no longer fits: how they are ended."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, NotExecuted, Settlement, settle
from oncekey.errors import StoreError
from oncekey.record.record import Effects, Status
from oncekey.record.references import reference_to
from tests.support.dynamodb import dynamodb_table
from tests.support.protected import is_replay, problem_of
from tests.support.replacing import replace
from tests.support.steps import (
    FAILED,
    POST,
    FaultyStore,
    Steps,
    TableSteps,
    commit,
    noise,
    settler,
    step,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER = {"statusCode": 201, "body": "made by hand"}


@pytest.fixture(params=["memory", "dynamodb"])
def service(request: pytest.FixtureRequest) -> Iterator[Steps]:
    """An operation of an older release, stopped under a newer one, on either store."""
    if request.param == "memory":
        yield stopped(Steps())
        return
    with dynamodb_table() as client:
        yield stopped(TableSteps(client))


def stopped(service: Steps) -> Steps:
    """Its only step was renamed."""
    service.sends(step("charge", "c-1"), ends=FAILED)
    assert problem_of(service.sends(step("pay"))) == (409, "outcome-unknown", True)
    assert service.record.escalated_at_ms is not None
    return service


def settles(service: Steps, finding: Any, **options: Any) -> Settlement:
    """Somebody settles it by its reference."""
    reference = reference_to(service.record)
    now_ms = service.clock.now_ms()
    given = {"found_at_ms": now_ms, "store": service.store, "clock": service.clock, **options}
    return settle(reference, finding, **given)


@pytest.mark.fault("K12.7")
def test_the_old_release_goes_on_once_somebody_lets_it(service: Steps) -> None:
    """`NotExecuted()` lets a stopped operation go on: the release whose steps fit resumes it after
    its finished step, and completes it.

    Red when `settle` says of a stopped operation that it is not in doubt.
    """
    assert settles(service, NotExecuted()) is Settlement.SETTLED
    record = service.record
    assert (record.status, record.expires_at_s) == (Status.FAILED_RETRYABLE, None)
    assert record.due is not None

    answer = service.sends(step("charge"), step("ship"))

    assert answer["statusCode"] == 201
    assert service.ran == ["charge", "ship"]
    assert service.given[-2] == "c-1"


@pytest.mark.fault("K12.7")
def test_a_release_that_still_does_not_fit_is_stopped_again(service: Steps) -> None:
    """Let go on under the release that stopped it, nothing new runs, and it is escalated again.

    Red when what was let go on runs past what is on record.
    """
    settles(service, NotExecuted())
    assert problem_of(service.sends(step("pay"))) == (409, "outcome-unknown", True)

    assert service.ran == ["charge"]
    assert service.record.escalated_at_ms is not None
    assert settles(service, NotExecuted()) is Settlement.SETTLED


@pytest.mark.fault("K12.7")
def test_a_stopped_operation_is_ended_with_an_answer(service: Steps) -> None:
    """`Completed(answer)` ends it: every retry gets that answer, under any release, and nothing
    runs.

    Red when a stopped operation is only let go on.
    """
    assert settles(service, Completed(ANSWER)) is Settlement.SETTLED

    answer = service.sends(step("pay"))
    assert (answer["statusCode"], answer["body"]) == (201, "made by hand")
    assert is_replay(answer)
    record = service.record
    assert (record.status, record.effects) == (Status.COMPLETED, Effects.RECORDED)
    assert record.expires_at_s is not None
    assert record.due is None
    assert service.ran == ["charge"]
    assert settles(service, Completed(ANSWER)) is Settlement.NOT_IN_DOUBT


@pytest.mark.fault("K12.7")
def test_what_is_no_answer_ends_nothing(service: Steps) -> None:
    """An answer that no HTTP client can be given is a TypeError, and nothing is written.

    Red when the answer of a stopped operation is taken for a step's result.
    """
    before = service.record

    with pytest.raises(TypeError, match="statusCode"):
        settles(service, Completed({"nonsense": 1}))

    assert service.record == before


@pytest.mark.fault("K12.7")
@pytest.mark.parametrize("finding", [Completed("c-2"), NotExecuted()], ids=["Completed", "Not"])
@pytest.mark.parametrize("named", ["charge", "pay"])
def test_no_step_of_it_is_in_doubt(service: Steps, named: str, finding: Any) -> None:
    """A finding about a step says nothing of it, whether the step is on record or not.

    Red when a late event of a step frees an operation that a person must look at.
    """
    before = service.record

    assert settles(service, finding, step=named) is Settlement.NOT_IN_DOUBT
    assert service.record == before


@pytest.mark.fault("K12.7")
def test_no_resolver_and_no_retry_ends_it(service: Steps) -> None:
    """Neither a reconciler nor the client's retries let it go on by themselves: each would come to
    the same place.

    Red when what was escalated is settled by whoever comes next.
    """
    before = service.record

    assert settler(service).settle(before) is Settlement.NOT_IN_DOUBT
    assert problem_of(service.send(POST))[1] == "outcome-unknown"
    assert service.record == before


@pytest.mark.fault("K12.7")
def test_one_whose_result_was_lost_is_ended_with_an_answer() -> None:
    """What no attempt can resume after, because a step's result was not kept, is ended as well.

    Red when only changed steps are.
    """
    service = Steps()
    with pytest.raises(TypeError):
        service.sends(step("charge", object()))
    assert problem_of(service.sends(step("charge")))[1] == "outcome-unknown"

    assert settles(service, Completed(ANSWER)) is Settlement.SETTLED

    assert service.send(POST)["body"] == "made by hand"
    assert service.ran == ["charge"]


@pytest.mark.fault("K12.7")
@pytest.mark.parametrize("call", ["SettleStep", "Resume", "Complete"])
@pytest.mark.parametrize("fails", ["lose", "refuse"])
def test_an_end_whose_write_fails_is_sent_again(call: str, fails: str) -> None:
    """Applied or not, each of its writes lands once.

    Red when a write whose answer was lost is taken for somebody else's.
    """
    service = stopped(Steps())
    service.store.call_timeout_ms = 1_500
    getattr(service.store, fails)(call)

    assert settles(service, Completed(ANSWER)) is Settlement.SETTLED
    assert service.send(POST)["body"] == "made by hand"


@pytest.mark.fault("K12.7")
@pytest.mark.parametrize("call", ["SettleStep", "Resume", "Complete"])
def test_an_end_that_is_given_up_leaves_what_can_go_on(call: str) -> None:
    """If the store fails in between, whoever settles is told to say it again; the old release goes
    on with it meanwhile, and no step runs twice.

    Red when an end that was given up leaves a record that nobody can end.
    """
    service = stopped(Steps())
    service.store.refuse(call, 1000)
    began_ms = service.clock.now_ms()

    with pytest.raises(StoreError):
        settles(service, Completed(ANSWER))
    if call == "Complete":
        # A call of the attempt that ends it may arrive until then.
        assert service.record.due is not None
        assert service.record.due.at_ms == began_ms + 30_000 + 60_000
    service.store.recovers()
    service.lets_the_lease_run_out()
    service.clock.advance(120_000)

    if call == "SettleStep":
        assert settles(service, Completed(ANSWER)) is Settlement.SETTLED
    else:
        assert service.sends(step("charge"))["statusCode"] == 201
    assert service.record.status is Status.COMPLETED
    assert service.ran == ["charge"]


class Overtaking(FaultyStore):
    """A store in which a client's retry comes in after the first of an end's writes."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Any = None

    def write(self, transition: Any) -> Any:
        """Write, and then let the retry come."""
        reply = super().write(transition)
        if type(transition).__name__ == "SettleStep" and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return reply


@pytest.mark.fault("K12.7")
def test_a_retry_that_comes_between_the_writes_has_it() -> None:
    """A client's retry under the old release resumes what was just freed: it completes it, and the
    end by hand changes nothing.

    Red when the end does not name the version that it resumes.
    """
    store = Overtaking()
    service = stopped(Steps(store=store))
    store.meanwhile = lambda: service.sends(step("charge"), commit("ordered"))

    assert settles(service, Completed(ANSWER)) is Settlement.OVERTAKEN

    assert service.send(POST)["body"] == "made"
    assert service.ran == ["charge"]


@pytest.mark.parametrize("comes", ["a running retry", "another operation that runs"])
def test_what_runs_between_the_writes_is_told_apart(comes: str) -> None:
    """A retry that runs may still end the operation, so it is `RUNNING`; what runs under the key as
    another operation has overtaken the end.
    """
    store = Overtaking()
    service = stopped(Steps(store=store))

    def runs() -> None:
        record = service.record
        started = replace(
            record,
            status=Status.IN_PROGRESS,
            rev=record.rev + 1,
            owner="another",
            lease_until_ms=service.clock.now_ms() + 1_000,
        )
        if comes != "a running retry":
            started = replace(started, operation_id=str(uuid.UUID(int=7)))
        store.records[record.pk] = started

    store.meanwhile = runs

    said = settles(service, Completed(ANSWER))

    assert said is (Settlement.RUNNING if comes == "a running retry" else Settlement.OVERTAKEN)


def test_a_large_answer_that_ends_it_is_kept() -> None:
    """Beside its record, as any large answer, and every retry gets it whole."""
    service = stopped(Steps())
    large = {"statusCode": 201, "body": noise(20_000).hex()}

    assert settles(service, Completed(large)) is Settlement.SETTLED
    assert service.send(POST)["body"] == large["body"]
