"""A store that fails at each call of a recorded operation, before or after it was carried out."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from oncekey import Completed, NotExecuted
from oncekey.record.record import Status
from oncekey.settlement.settlement import Settlement
from tests.support.dynamodb import LossyTransport, dynamodb_table, make_response_bucket, make_table
from tests.support.events import with_key
from tests.support.protected import is_replay, problem_of
from tests.support.steps import (
    BESIDE,
    FAILED,
    POST,
    Action,
    Dying,
    FaultyStore,
    Steps,
    TableSteps,
    caught,
    commit,
    finds,
    settler,
    step,
)

if TYPE_CHECKING:
    from oncekey import Operation

STORE_DOWN = (503, "store-unavailable", True)
HOLD = step("hold", "h-1", is_idempotent=True)
CHARGE = step("charge", BESIDE)
REFUSED = caught(step("charge", raises=NotExecuted()))

pytestmark = pytest.mark.usefixtures("no_resolvers")


def writes(_service: Steps, op: Operation) -> None:
    """The business write of the final commit."""
    op.transaction.put("rides", {"id": "final"})


RUN = [HOLD, REFUSED, CHARGE, commit("ordered"), writes]
CALLS = [
    *("Reserve", "FinishStep", "StartStep", "ClearStep", "StartStep", "save", "FinishStep"),
    *("commit FinishStep", "commit Complete"),
]


def written(service: Steps) -> list[str]:
    """The ids of the business items that were committed, in their order."""
    return [write.parameters["Item"]["id"]["S"] for write in service.store.writes]


def check_all_is_done_once(service: Steps) -> None:
    """The client has its answer, and each effect is there once."""
    assert is_replay(service.send(POST))
    assert service.record.status is Status.COMPLETED
    assert written(service) == ["ordered-0", "final"]
    assert len(set(service.keys)) == 2


def test_an_undisturbed_run_makes_these_calls() -> None:
    """What is disturbed below is everything that there is."""
    service = Steps()

    service.sends(*RUN)

    assert service.store.asked == CALLS
    check_all_is_done_once(service)


@pytest.mark.case(9)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("fault", ["lose", "refuse"])
@pytest.mark.parametrize("call", sorted(set(CALLS)))
def test_a_call_that_fails_is_sent_again_and_recognised(call: str, fault: str, times: int) -> None:
    """Whether it was carried out and its answer lost, or never arrived: the run goes on, and its
    client gets its answer as if nothing had happened. Everything is done once.

    Red when a write that meets itself counts as another's.
    """
    service = Steps()
    getattr(service.store, fault)(call, times)

    answer = service.sends(*RUN)

    assert answer["statusCode"] == 201
    assert not is_replay(answer)
    assert service.store.asked.count(call) == CALLS.count(call) + times
    assert service.ran == ["hold", "charge", "charge"]
    check_all_is_done_once(service)


@pytest.mark.parametrize("fault", ["lose", "refuse"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_resume_and_a_fetched_result_are_asked_for_again(fault: str, times: int) -> None:
    """The first calls of an attempt that resumes."""
    service = Steps()
    service.sends(HOLD, CHARGE, ends=FAILED)
    getattr(service.store, fault)("Resume", times)
    getattr(service.store, fault)("fetch", times)

    assert service.sends(HOLD, CHARGE)["statusCode"] == 201
    assert service.given[2:] == ["h-1", BESIDE]
    assert service.ran == ["hold", "charge"]
    assert [run.attempt for run in service.runs] == [1, 2]


@pytest.mark.parametrize("fault", ["lose", "refuse"])
@pytest.mark.parametrize("name", ["hold", "charge", "cleared", "ordered", "its end", "resumed"])
def test_dynamodb_recognises_what_has_landed(name: str, fault: str) -> None:
    """The same on DynamoDB, for the mark and the result of a step, a mark that is cleared, what is
    kept beside the record and fetched, a commit, and the completion.
    """
    with dynamodb_table() as client:
        make_table(client, "rides")
        service = TableSteps(client, make_response_bucket())
        transport = LossyTransport(client)

        def disturbed(*_: object) -> None:
            for operation in ("UpdateItem", "PutItem", "GetItem", "TransactWriteItems"):
                getattr(transport, fault)(operation)

        def at(here: str, action: Action) -> list[Action]:
            return [disturbed, action] if here == name else [action]

        hold = at("hold", step("hold", then=disturbed if name == "hold" else nothing))
        proof = step("charge", raises=NotExecuted(), then=disturbed)
        charge = step("charge", BESIDE, then=disturbed if name == "charge" else nothing)
        run = [*hold, *([caught(proof)] if name == "cleared" else []), *at("charge", charge)]
        service.sends(*run, ends=FAILED)
        run = [
            *at("resumed", step("hold")),
            *at("resumed", charge),
            *at("ordered", commit("ordered")),
        ]
        answer = service.sends(*run, *at("its end", writes))

        assert answer["statusCode"] == 201
        assert service.given[-3:] != []
        assert service.ran == ["hold", *(["charge"] if name == "cleared" else []), "charge"]
        assert len(client.scan(TableName="rides")["Items"]) == 2
        assert is_replay(service.send(POST))


def nothing(_service: Steps) -> None:
    """Nothing happens."""


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("fault", ["lose", "refuse"])
def test_a_step_whose_mark_is_not_confirmed_does_not_run(fault: str) -> None:
    """After three tries the attempt ends, and its function has not been called: the mark that may
    have landed is taken back. The client is told 503, and the next request does it all.

    Red when the function runs under a mark that nobody has confirmed.
    """
    service = Steps()
    getattr(service.store, fault)("StartStep", 1000)

    answer = service.sends(HOLD, CHARGE)

    assert problem_of(answer) == STORE_DOWN
    assert service.ran == ["hold"]
    assert service.store.asked.count("StartStep") == 3
    assert (service.record.status, service.record.steps.started) == (Status.FAILED_RETRYABLE, None)
    service.store.recovers()
    assert service.sends(HOLD, CHARGE)["statusCode"] == 201
    assert service.ran == ["hold", "charge"]


def test_a_mark_that_nobody_could_take_back_is_a_doubt() -> None:
    """The store goes away with the mark's answer: the function did not run, but after the lease
    nobody can know that. The resolver does.
    """
    service = Steps()
    service.store.lose("StartStep", 1000)
    service.store.refuse("Release", 1000)

    assert problem_of(service.sends(CHARGE)) == STORE_DOWN
    service.lets_the_lease_run_out()
    assert problem_of(service.send(POST))[1] == "outcome-unknown"
    service.store.recovers()
    service.clock.advance(60_000)
    finds(NotExecuted())
    assert settler(service).settle(service.record) is Settlement.SETTLED

    assert service.sends(CHARGE)["statusCode"] == 201
    assert service.ran == ["charge"]


FINISHING: list[tuple[str, str]] = [
    ("FinishStep", "refuse"),
    ("FinishStep", "lose"),
    ("FinishStep", "deny"),
    ("save", "refuse"),
    ("save", "deny"),
]


def disturb(store: FaultyStore, call: str, fault: str) -> None:
    """From now on all calls of this kind fail."""
    getattr(store, fault)(call, *(() if fault == "deny" else (1000,)))


@pytest.mark.requirement("E6")
@pytest.mark.parametrize(("call", "fault"), FINISHING)
def test_a_result_that_is_not_confirmed_is_never_done_twice(call: str, fault: str) -> None:
    """The step has happened, and whether that is on record is not known: its client is not told
    201, and the function does not run again. Where the result has landed, a retry has it; where it
    has not, the resolver has.

    Red when the key is freed with a step in doubt, or the handler's answer is given.
    """
    service = Steps()
    disturb(service.store, call, fault)

    answer = service.sends(CHARGE, commit("ordered"), writes)

    assert problem_of(answer) in (STORE_DOWN, (409, "outcome-unknown", True))
    assert (service.ran, service.store.writes) == (["charge"], [])
    service.store.recovers()
    service.lets_the_lease_run_out()
    if fault != "lose":
        assert problem_of(service.sends(CHARGE))[1] == "outcome-unknown"
        service.clock.advance(60_000)
        finds(Completed(BESIDE))
        assert settler(service).settle(service.record) is Settlement.SETTLED
    assert service.sends(CHARGE, commit("ordered"), writes)["statusCode"] == 201

    assert service.ran == ["charge"]
    assert written(service) == ["ordered-0", "final"]


@pytest.mark.parametrize(("call", "fault"), FINISHING)
def test_an_idempotent_result_that_is_not_confirmed_is_done_again(call: str, fault: str) -> None:
    """It may, under the same downstream key. The client is told 503, and as the result may have
    landed, the record is not to be forgotten.
    """
    service = Steps()
    disturb(service.store, call, fault)
    charge = step("charge", BESIDE, is_idempotent=True)

    assert problem_of(service.sends(charge)) == STORE_DOWN
    assert call == "save" or service.record.expires_at_s is None
    service.store.recovers()
    service.lets_the_lease_run_out()
    assert service.sends(charge)["statusCode"] == 201

    assert len(service.ran) == (1 if fault == "lose" else 2)
    assert len(set(service.keys)) == 1
    assert service.given == [BESIDE]


@pytest.mark.parametrize("fault", ["lose", "refuse", "deny"])
@pytest.mark.parametrize("call", ["commit FinishStep", "commit Complete", "Complete"])
def test_a_commit_that_is_not_confirmed_is_applied_once(call: str, fault: str) -> None:
    """Its client is told 503 and can come back, unless the release that asks about it finds that
    the record is complete: whether the commit has landed or not, a retry ends with the answer, and
    everything is there once.
    """
    service = Steps()
    disturb(service.store, call, fault)
    run = [CHARGE, commit("ordered"), writes] if "commit" in call else [step("charge")]

    first = service.sends(*run)

    has_ended = fault == "lose" and call != "commit FinishStep"
    assert (first["statusCode"], is_replay(first)) == (201 if has_ended else 503, False)
    assert has_ended or problem_of(first) == STORE_DOWN
    service.store.recovers()
    service.lets_the_lease_run_out()
    answer = service.sends(*run)
    assert (answer["statusCode"], answer["body"]) == (201, "made")
    assert is_replay(answer) is has_ended
    assert service.ran == ["charge"]
    assert written(service) == (["ordered-0", "final"] if "commit" in call else [])


@pytest.mark.parametrize("fault", ["refuse", "deny"])
def test_a_result_that_cannot_be_fetched_is_no_reason_to_run_again(fault: str) -> None:
    """The attempt that resumes ends with 503, and the next one is given the result."""
    service = Steps()
    service.sends(CHARGE, ends=FAILED)
    disturb(service.store, "fetch", fault)

    assert problem_of(service.sends(CHARGE, step("ship"))) == STORE_DOWN
    assert service.ran == ["charge"]
    service.store.recovers()
    service.lets_the_lease_run_out()
    assert service.sends(CHARGE, step("ship"))["statusCode"] == 201

    assert service.ran == ["charge", "ship"]


@pytest.mark.case(57)
@pytest.mark.requirement("E6")
@pytest.mark.parametrize("is_carried_out", [False, True])
@pytest.mark.parametrize("at", [*range(len(CALLS)), "hold", "charge"])
def test_what_is_promised_by_kind_of_effect(at: int | str, is_carried_out: bool) -> None:
    """A process dies before or after one of its calls, or in a step after its effect. Once a
    resolver has told the truth of a step in doubt, a retry ends with the answer, and the effects
    are counted: what was committed once; a keyed step once or twice, under one key; another step
    once.

    Red when a commit is lost or repeated, a step in doubt runs again, or a key changes.
    """
    number = at if isinstance(at, int) else -1
    service = Steps(store=Dying(number, is_carried_out=is_carried_out))
    effects: list[str] = []

    def effect(name: str, *, is_idempotent: bool) -> Action:
        def takes_effect(_service: Steps) -> None:
            effects.append(name)
            service.store.is_dead |= at == name and len(service.runs) == 1

        gives = {"charge": BESIDE}.get(name)
        return step(name, gives, is_idempotent=is_idempotent, then=takes_effect)

    hold, charge = effect("hold", is_idempotent=True), effect("charge", is_idempotent=False)
    with contextlib.suppress(BaseException):
        service.sends(hold, REFUSED, charge, commit("ordered"), writes)
    assert service.store.is_dead
    service.store.is_dead = False
    service.lets_the_lease_run_out()
    answer = service.sends(hold, charge, commit("ordered"), writes)
    if answer["statusCode"] == 409:
        service.clock.advance(60_000)
        finds(Completed(BESIDE) if "charge" in effects else NotExecuted())
        assert settler(service).settle(service.record) is Settlement.SETTLED
        service.sends(hold, charge, commit("ordered"), writes)

    check_all_is_done_once(service)
    assert effects.count("hold") in (1, 2)
    assert effects.count("charge") == 1


def test_an_outage_at_the_end_of_recorded_work_spares_the_next_requests_the_wait() -> None:
    """Three completions in a row that are not confirmed open the breaker, as three reserves do: the
    next request is refused without a call.
    """
    service = Steps()
    service.store.refuse("Complete", 10_000)
    for number in range(3):
        service.event = with_key(POST, f"key-of-number-{number:04d}")
        assert problem_of(service.sends())[:2] == (503, "store-unavailable")
    calls = len(service.store.asked)

    service.event = with_key(POST, "key-of-number-0003")

    assert problem_of(service.sends())[:2] == (503, "store-unavailable")
    assert len(service.store.asked) == calls


@pytest.mark.parametrize("call", ["fetch", "StartStep", "save", "FinishStep", "commit FinishStep"])
def test_the_log_says_what_the_store_said_to_the_call_that_stopped_a_run(
    call: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever looks for the reason of a 503 finds the failure of the store in the log's line.

    Red when a run is stopped for the store, and nobody is told what the store said.
    """
    service = Steps()
    if call == "fetch":
        service.sends(CHARGE, ends=FAILED)
    disturb(service.store, call, "deny")
    with caplog.at_level("ERROR"):
        service.sends(CHARGE, commit("ordered"))

    (line,) = [
        found.getMessage()
        for found in caplog.records
        if getattr(found, "oncekey_event", "") == "run-stopped"
    ]
    assert line.endswith("not-confirmed: AccessDenied")
