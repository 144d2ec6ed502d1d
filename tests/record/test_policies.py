"""The record says how its answer is kept, whoever gives it."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, NotExecuted, idempotent_function, resolver, settle, single_tenant
from oncekey.http.preset import IETF
from oncekey.http.stripe_preset import STRIPE
from oncekey.record.record import Status
from oncekey.record.references import reference_to
from oncekey.settlement.settlement import Settlement
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.accepted import START_WITHIN_MS, Accepted
from tests.support.protected import Protected, fails, is_replay, problem_of
from tests.support.reconciled import reconciles
from tests.support.replacing import replace
from tests.support.settled import in_doubt, the
from tests.support.stable_names import stable_repr
from tests.support.steps import POST

if TYPE_CHECKING:
    from oncekey import Question

MADE = {"statusCode": 201, "body": "made"}
DAY_MS = 86_400_000

pytestmark = pytest.mark.usefixtures("no_resolvers")


def says(service: Any, finding: Any) -> Settlement:
    """What somebody says of the only record from outside."""
    return settle(
        reference_to(the(service)),
        finding,
        found_at_ms=service.clock.now_ms(),
        store=service.store,
        clock=service.clock,
    )


class Function:
    """A function whose only call raised, called like a route."""

    def __init__(self, operation: str) -> None:
        self.store, self.clock = MemoryStore(), ManualClock()

        @idempotent_function(
            operation=operation,
            key=lambda _order: "order-1",
            tenant=single_tenant(),
            store=self.store,
            clock=self.clock,
        )
        def function(_order: object) -> Any:
            raise TimeoutError

        self.function = function
        with pytest.raises(TimeoutError):
            function({})


@pytest.mark.fault("K1.2")
@pytest.mark.parametrize("name", ["create payment", "POST /payments", "Post/payments", "result"])
def test_an_http_operation_of_any_name_is_settled_with_an_http_answer_alone(name: str) -> None:
    """What cannot be the answer of an HTTP operation is refused when it is settled, with what to
    give instead, and nothing is written; an answer is then replayed.

    Red when the name of the operation decides how the answer is encoded.
    """
    service = in_doubt(operation=name, methods=("POST",))
    before = the(service)

    for nonsense in ({"nonsense": 1}, "ch_1", None, 201, {"statusCode": 99}, [MADE]):
        with pytest.raises(TypeError, match="dict with a statusCode"):
            says(service, Completed(nonsense))
    assert the(service) == before

    assert says(service, Completed(MADE)) is Settlement.SETTLED
    answer = service.send(POST)
    assert (answer["statusCode"], answer["body"], is_replay(answer)) == (201, "made", True)


@pytest.mark.fault("K1.2")
def test_a_dead_attempt_is_not_ended_by_an_answer_that_is_refused() -> None:
    """What is refused writes nothing, also where the lease of the dead attempt is over and would
    be ended first.

    Red when the answer is looked at after the first write.
    """
    service = Protected()

    def dies(_event: object, _op: object) -> Any:
        service.store.write = _dead
        return MADE

    service.then = dies
    write = service.store.write
    service.send(POST)
    service.store.write = write
    service.clock.advance(3_600_000)
    before = the(service)
    assert before.status is Status.IN_PROGRESS

    with pytest.raises(TypeError, match="statusCode"):
        says(service, Completed({"nonsense": 1}))

    assert the(service) == before


def _dead(_transition: object) -> Any:
    from oncekey.errors import StoreError

    raise StoreError("nobody asks", transient=False)


@pytest.mark.fault("K1.2")
@pytest.mark.parametrize("name", ["POST /payments", "charge", "GET /x"])
def test_a_function_of_any_name_is_settled_with_its_result(name: str) -> None:
    """The result of a function is encoded as results are, though its operation is called like a
    route.

    Red when the name of the operation decides how the result is encoded.
    """
    service = Function(name)

    assert says(service, Completed((1, {"paid"}))) is Settlement.SETTLED

    assert service.function({}) == (1, {"paid"})


@pytest.mark.fault("K1.2")
def test_a_resolvers_nonsense_settles_nothing_and_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The reconciler leaves an operation in doubt whose resolver gives what cannot be its answer,
    and says so in the log, without what it gave.

    Red when the reconciler stores what cannot be replayed.
    """
    service = in_doubt(operation="create payment", methods=("POST",))

    @resolver("create payment")
    def found(_question: Question) -> Completed:
        return Completed({"nonsense": "card 4242"})

    report = reconciles(service)

    assert (report.settled, report.still_unknown) == (0, 1)
    assert the(service).status is Status.UNKNOWN
    assert "answer-not-storable" in caplog.text
    assert "4242" not in caplog.text


@pytest.mark.fault("K1.2")
def test_a_record_without_a_policy_takes_what_is_stored_alike_in_both_ways() -> None:
    """Of a record that an older release wrote nobody knows how its answer is encoded: an HTTP
    answer of plain JSON is taken, and replayed; anything else is refused.

    Red when such a record takes what its handler could not replay.
    """
    service = in_doubt()
    pk, record = next(iter(service.store.records.items()))
    service.store.records[pk] = replace(record, policy=None)

    in_one_way = {**MADE, "statusCode": HTTPStatus.CREATED}
    for unclear in ("ch_1", {"nonsense": 1}, {**MADE, "headers": {"x": (1, 2)}}, in_one_way):
        with pytest.raises(TypeError):
            says(service, Completed(unclear))
    assert says(service, Completed(MADE)) is Settlement.SETTLED
    assert is_replay(service.send(POST))


def test_a_record_that_says_that_it_answers_http_takes_every_http_answer() -> None:
    """Also one that the result of a function would store in another form."""
    service = in_doubt()

    assert says(service, Completed({**MADE, "statusCode": HTTPStatus.CREATED})) is (
        Settlement.SETTLED
    )
    assert service.send(POST)["statusCode"] == 201


def settled_by_a_person(service: Protected) -> None:
    """A person says what became of it."""
    assert says(service, Completed(MADE)) is Settlement.SETTLED


def settled_by_the_reconciler(service: Protected) -> None:
    """Its resolver is asked."""

    @resolver("POST /payments")
    def found(_question: Question) -> Completed:
        return Completed(MADE)

    assert reconciles(service).settled == 1


def settled_late(service: Protected) -> None:
    """It was not executed, says somebody, and then it was after all."""
    service.clock.advance(3_600_000)
    assert says(service, NotExecuted()) is Settlement.SETTLED
    assert the(service).status is Status.FAILED_RETRYABLE
    assert says(service, Completed(MADE)) is Settlement.SETTLED


@pytest.mark.fault("K6.6")
@pytest.mark.parametrize(
    "settles",
    [settled_by_a_person, settled_by_the_reconciler, settled_late],
    ids=stable_repr,
)
def test_what_somebody_else_settled_is_given_for_as_long_as_what_its_handler_completed(
    settles: Any,
) -> None:
    """A settled answer is given for the retention of its operation, then its key is gone for the
    stated time (410), and only then free.

    Red when the settlement forgets the retention or the time of the 410.
    """
    service = in_doubt(
        retention=timedelta(days=3),
        after_expiry="gone",
        gone_for=timedelta(days=2),
        response_version=4,
    )
    settles(service)
    settled_ms = service.clock.now_ms()
    assert the(service).response_version == 4

    def after(ms: int) -> Any:
        service.clock.advance(settled_ms + ms - service.clock.now_ms())
        return service.send(POST)

    assert is_replay(after(3 * DAY_MS - 1))
    assert problem_of(after(3 * DAY_MS + 1_000)) == (410, "key-expired", False)
    assert problem_of(after(5 * DAY_MS - 1)) == (410, "key-expired", False)
    assert after(5 * DAY_MS + 1_000)["statusCode"] == 201
    assert len(service.runs) == 2


@pytest.mark.fault("K6.7")
@pytest.mark.parametrize("part_ms", [0, 1, 500, 999])
def test_an_answer_is_kept_for_its_whole_retention(part_ms: int) -> None:
    """An answer that was completed within a second is replayed to the last millisecond of its
    retention, whoever gave it.

    Red when the expiry is counted from the beginning of that second.
    """
    by_handler = Protected(retention=timedelta(seconds=60))
    by_handler.clock.advance(part_ms)
    by_handler.send(POST)
    by_person = in_doubt(retention=timedelta(seconds=60))
    by_person.clock.advance(part_ms)
    settled_by_a_person(by_person)

    for service in (by_handler, by_person):
        runs = len(service.runs)
        service.clock.advance(59_999)
        assert is_replay(service.send(POST))
        assert len(service.runs) == runs


@pytest.mark.fault("K6.7")
def test_a_retention_of_part_of_a_second_is_rounded_up() -> None:
    """A retention of 1.5 s keeps an answer for 1.5 s at least.

    Red when what is given as a duration is rounded down.
    """
    service = Protected(retention=timedelta(milliseconds=1_500))
    service.send(POST)
    service.clock.advance(1_499)

    assert is_replay(service.send(POST))


@pytest.mark.fault("K6.6")
@pytest.mark.parametrize(("preset", "status"), [(IETF, "status"), (STRIPE, "error")])
def test_what_was_not_begun_in_time_is_told_in_the_words_and_for_the_time_of_its_operation(
    preset: Any, status: str
) -> None:
    """A reconciler that does not know the handler of an accepted request answers 408 in the words
    of the operation's preset, for the operation's retention.

    Red when the environment of the reconciler decides.
    """
    service = Accepted(preset=preset, retention=timedelta(days=9), after_expiry="gone")
    service.send(POST)
    service.clock.advance(START_WITHIN_MS + 1)

    assert reconciles(service).timed_out == 1
    record = the(service)
    assert status in record.response
    assert record.expires_at_s == -(-(record.completed_at_ms) // 1000) + 10 * 86_400


@pytest.mark.fault("K6.6")
def test_an_attempt_of_another_release_writes_its_own_policy() -> None:
    """A new release that takes an attempt over keeps the answer as it declares itself, also where
    somebody else settles it then.

    Red when a later attempt leaves the policy of the first one on record.
    """
    old = Protected(effects="repeatable", retention=timedelta(hours=1))
    old.then = fails(TimeoutError())
    with pytest.raises(TimeoutError):
        old.send(POST)
    new = Protected(store=old.store, retention=timedelta(days=2), response_version=3)
    new.clock.advance(1_000)
    new.then = fails(TimeoutError())
    with pytest.raises(TimeoutError):
        new.send(POST)

    settled_by_a_person(new)

    assert the(new).response_version == 3
    assert the(new).expires_at_s == new.clock.now_ms() // 1000 + 2 * 86_400
