"""What cannot be stored ends its operation all the same, is told, and never runs again.

Whatever the exception is that its encoding raises.
"""

from __future__ import annotations

import json
import zoneinfo
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from aws_lambda_powertools.event_handler import Response

from oncekey import IETF, STRIPE, Final, ResultUnavailable, current_operation
from oncekey.errors import TransactionInvalid
from oncekey.record.record import Status
from oncekey.record.stored_answer import NotKept
from tests.support.accepted import Accepted
from tests.support.events import load
from tests.support.function_calls import Calls
from tests.support.protected import Protected, problem_of, records
from tests.support.recorded_functions import Function
from tests.support.routes import Service
from tests.support.steps import FaultyStore, Steps, commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oncekey import Operation

POST = load("apigw_http_v2_post")
EFFECTS = ["unrecorded", "repeatable", "recorded"]
SECRET = "card 4242"


class Stop(BaseException):
    """What is raised by a signal's handler, say."""


class Raising(tzinfo):
    """A zone whose code raises what it is told to."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def utcoffset(self, _at: datetime | None) -> Any:
        """As it says."""
        raise self._error

    dst = tzname = utcoffset


class Opaque:
    """An object that answers every question with an exception of its own."""

    def __init__(self, error: BaseException) -> None:
        object.__setattr__(self, "error", error)

    def __getattribute__(self, name: str) -> Any:
        raise object.__getattribute__(self, "error")

    def __repr__(self) -> str:
        raise object.__getattribute__(self, "error")


class Bag(dict[str, Any]):
    """A dictionary that raises where it is read."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(a=1)
        self.error = error

    def __iter__(self) -> Iterator[str]:
        raise self.error

    def items(self) -> Any:
        """As it says."""
        raise self.error


class Moody(NamedTuple("Moody", [("amount", int)])):
    """A named tuple that raises where it is read."""

    __slots__ = ()

    def __iter__(self) -> Any:
        raise KeyError(SECRET)


def from_file() -> zoneinfo.ZoneInfo:
    """A zone that was read from a file, under a name that nobody else knows."""
    paths = [Path(each, "Europe/Berlin") for each in zoneinfo.TZPATH]
    with next(path for path in paths if path.is_file()).open("rb") as file:
        return zoneinfo.ZoneInfo.from_file(file, key="local")


def deep(depth: int = 100_000) -> list[Any]:
    """A list in a list in a list."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def cyclic() -> list[Any]:
    """A list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


BAD: dict[str, Callable[[], Any]] = {
    "a zone from a file": lambda: {"at": datetime.now(tz=from_file())},
    "too deep": deep,
    "holds itself": cyclic,
    "a generator": lambda: (each for each in [1]),
    "an object": object,
    "an object that raises": lambda: Opaque(KeyError(SECRET)),
    "an object that ends everything": lambda: Opaque(Stop(SECRET)),
    "a dictionary that raises": lambda: Bag(LookupError(SECRET)),
    "an int too long for text": lambda: {"n": Raising(ValueError()), "m": 10**5_000},
    "a zone without memory": lambda: datetime.now(UTC).replace(tzinfo=Raising(MemoryError())),
    "a zone that raises": lambda: datetime.now(UTC).replace(tzinfo=Raising(RuntimeError(SECRET))),
    "not a number": lambda: {"a": Decimal("NaN"), "b": {1, object()}},
}
RESULTS: dict[str, Callable[[], Any]] = {**BAD, "a tuple that raises": lambda: Moody(1)}
# Those whose exception is no process's end.
ORDINARY = {name: make for name, make in RESULTS.items() if "everything" not in name}


def works(operation: Operation | None) -> None:
    """One business write and one message, if the effects are recorded."""
    if operation is not None and operation.records_effects:
        operation.transaction.put("rides", {"id": operation.operation_id})
        operation.outbox.publish("ride.made", {})


@pytest.mark.fault("K3.1")
@pytest.mark.parametrize("effects", EFFECTS)
@pytest.mark.parametrize("preset", [IETF, STRIPE], ids=["IETF", "STRIPE"])
@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
@pytest.mark.parametrize("where", ["bare", "body", "header", "beside"])
def test_an_answer_that_cannot_be_stored_settles_its_record(
    make: Callable[[], Any], effects: str, preset: Any, where: str
) -> None:
    """The author gets the error at the first call, the writes of the handler are applied, and a
    repeat is told that the answer cannot be given; nothing runs again.

    Red when an exception of the encoding frees the key, leaves it open, or discards the writes.
    """
    service = Protected(effects=effects, preset=preset, store=FaultyStore())

    def handler(_event: object, op: Operation) -> Any:
        works(op)
        answer: dict[str, Any] = {"statusCode": 201, "body": "made"}
        match where:
            case "bare":
                return make()
            case "body":
                return {**answer, "body": make()}
            case "header":
                return {**answer, "headers": {"X": make()}}
            case _:
                return {**answer, "more": make()}

    service.then = handler
    # Behind payload 2.0 a number that is too large is read by nobody here.
    with pytest.raises((TypeError, Stop)) as told:
        service.send(POST)
    for _ in range(2):
        assert service.send(POST)["statusCode"] == 500

    assert len(service.runs) == 1
    assert SECRET not in str(told.value) or isinstance(told.value, Stop)
    (record,) = records(service)
    assert (record.status, type(record.response)) == (Status.COMPLETED, NotKept)
    if effects == "recorded":
        assert (len(service.store.writes), len(service.store.messages)) == (1, 1)


@pytest.mark.fault("K3.1")
@pytest.mark.parametrize("effects", EFFECTS)
@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
def test_a_final_that_cannot_be_stored_ends_its_operation(
    make: Callable[[], Any], effects: str, is_committed: bool
) -> None:
    """`Final` ends the operation also where its body or a header cannot be stored; what was
    collected is applied if it says so.

    Red when a `Final` of a body without a stored form lets the operation run again.
    """
    service = Protected(effects=effects, store=FaultyStore())

    def handler(_event: object, op: Operation) -> None:
        works(op)
        raise Final(201, make(), commit=is_committed)

    service.then = handler
    with pytest.raises((TypeError, Stop)):
        service.send(POST)

    assert problem_of(service.send(POST)) == (500, "answer-unavailable", False)
    assert len(service.runs) == 1
    assert len(service.store.writes) == (is_committed and effects == "recorded")


class Unspeakable:
    """An object whose text raises."""

    def __str__(self) -> str:
        raise KeyError(SECRET)


@pytest.mark.fault("K3.1")
def test_a_final_whose_header_has_no_text_ends_its_operation() -> None:
    """The same of a header whose value raises as it is made text.

    Red when only what the encoder raises is expected.
    """
    service = Protected(effects="repeatable")

    def handler(_event: object, _op: object) -> None:
        raise Final(201, {}, headers={"X": Unspeakable()})  # type: ignore[dict-item]

    service.then = handler
    with pytest.raises(TypeError):
        service.send(POST)

    assert problem_of(service.send(POST)) == (500, "answer-unavailable", False)
    assert len(service.runs) == 1


@pytest.mark.fault("K3.1")
@pytest.mark.parametrize("effects", EFFECTS)
@pytest.mark.parametrize("error", [KeyError, RecursionError, MemoryError, Stop])
def test_a_hook_that_fails_on_its_way_to_the_store_settles_the_record(
    error: type[BaseException], effects: str
) -> None:
    """Where `before_store` raises, or makes what cannot be stored, the answer is not kept and the
    operation is done.

    Red when a hook that fails has the handler run again.
    """

    def hook(_answer: object) -> Any:
        raise error(SECRET)

    service = Protected(effects=effects, before_store=hook)
    with pytest.raises(error):
        service.send(POST)

    assert problem_of(service.send(POST)) == (500, "answer-unavailable", False)
    assert len(service.runs) == 1


@pytest.mark.fault("K3.1")
@pytest.mark.parametrize("effects", EFFECTS)
@pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)
def test_a_result_that_cannot_be_stored_settles_its_record(
    make: Callable[[], Any], effects: str
) -> None:
    """Of a function the same: its caller gets the error, what it has collected is applied, and a
    repeat is told that the result cannot be given.

    Red when an exception of the encoding is not expected.
    """
    calls = Calls(effects=effects, store=FaultyStore())

    def function(_record: object) -> Any:
        works(current_operation() if effects == "recorded" else None)
        return make()

    calls.then = function
    with pytest.raises((TypeError, Stop)) as told:
        calls.call({"id": "a"})
    for _ in range(2):
        with pytest.raises(ResultUnavailable):
            calls.call({"id": "a"})

    assert len(calls.runs) == 1
    assert SECRET not in str(told.value) or isinstance(told.value, Stop)
    assert len(calls.store.writes) == (effects == "recorded")


@pytest.mark.fault("K3.2")
@pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)
def test_a_recorded_functions_writes_are_applied_though_its_result_is_not(
    make: Callable[[], Any],
) -> None:
    """The writes and messages of a recorded function are applied with its completion, once, though
    its result cannot be encoded.

    Red when an exception of the encoding discards them.
    """
    function = Function()

    def body(op: Operation) -> Any:
        works(op)
        return make()

    for error in ((TypeError, Stop), ResultUnavailable, ResultUnavailable):
        with pytest.raises(error):
            function.calls(body)

    assert len(function.runs) == 1
    assert (len(function.store.writes), len(function.store.messages)) == (1, 1)
    assert function.only().status is Status.COMPLETED


@pytest.mark.fault("K3.1")
@pytest.mark.parametrize("is_idempotent", [True, False])
@pytest.mark.parametrize("make", ORDINARY.values(), ids=ORDINARY)
def test_a_steps_result_that_cannot_be_stored_is_on_record_as_done(
    make: Callable[[], Any], is_idempotent: bool
) -> None:
    """A step whose result cannot be encoded has happened: it is finished, its author gets the
    error, and no attempt runs it again.

    Red when an exception of the encoding leaves the step open.
    """
    function = Function()

    def body(_op: Operation) -> Any:
        return function.step("charge", make(), is_idempotent=is_idempotent)

    with pytest.raises(TypeError):
        function.calls(body)
    with pytest.raises(Exception):  # noqa: B017, PT011 -- it is lost, and says so
        function.calls(body)

    assert function.ran == ["charge"]
    assert function.only().steps.named("charge") is not None


@pytest.mark.fault("K3.1")
@pytest.mark.parametrize("make", ORDINARY.values(), ids=ORDINARY)
def test_what_cannot_be_published_or_written_is_told_at_once(make: Callable[[], Any]) -> None:
    """A payload that is no JSON, and an item that DynamoDB has no form for, are refused where they
    are given, so that the handler can answer.

    Red when an exception of the encoding comes out as it is, or later.
    """
    service = Steps()
    given: list[type] = []

    def handler(_event: object, op: Operation) -> Any:
        for collect in (
            lambda: op.outbox.publish("ride.made", make()),
            lambda: op.transaction.put("rides", {"id": "1", "at": make()}),
        ):
            with pytest.raises((TransactionInvalid, TypeError)) as told:
                collect()
            assert SECRET not in str(told.value)
            given.append(told.type)
        return {"statusCode": 422, "body": ""}

    service.then = handler

    assert service.send(POST)["statusCode"] == 422
    assert len(given) == 2
    assert service.record.status is Status.COMPLETED


@pytest.mark.fault("K3.1")
def test_a_commit_goes_before_an_answer_that_cannot_be_stored() -> None:
    """What `op.commit` has applied stays, and is not applied again.

    Red when an answer without a stored form frees the key, or commits again.
    """
    service = Steps()
    service.handles(commit("ordered"), ends={"statusCode": 201, "body": deep()})
    with pytest.raises(TypeError):
        service.send(POST)

    assert problem_of(service.send(POST))[1] == "answer-unavailable"
    assert len(service.store.writes) == 1


@pytest.mark.fault("K3.1")
@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
def test_a_job_whose_answer_cannot_be_stored_is_done(make: Callable[[], Any]) -> None:
    """A worker does a job once, whatever its handler answers.

    Red when an exception of the encoding leaves the job to be done again.
    """
    service = Accepted(effects="repeatable")
    service.send(POST)
    service.then = lambda _event, _op: {"statusCode": 201, "body": "", "more": make()}
    with pytest.raises((TypeError, Stop)):
        service.works()
    service.works()

    assert len(service.runs) == 1
    assert service.record.status is Status.COMPLETED


@pytest.mark.fault("K3.1")
@pytest.mark.parametrize("make", ORDINARY.values(), ids=ORDINARY)
def test_a_route_whose_answer_cannot_be_stored_runs_once(make: Callable[[], Any]) -> None:
    """The same of a route of Powertools whose own serialiser raises.

    Red when what the serialiser raises is taken for an exception of the route.
    """
    service = Service(serializer=json.dumps)

    @service.app.post("/payments", middlewares=[service.protect(effects="repeatable")])
    def create() -> Response[Any]:
        service.runs.append("create")
        return Response(201, content_type="application/json", body=make())

    for _ in range(3):
        try:
            answer = service.send(POST)
        except Exception:  # noqa: BLE001, S112 -- the author is told
            continue
        assert answer["statusCode"] == 500

    assert service.runs == ["create"]
    assert service.record.status is Status.COMPLETED


@pytest.mark.fault("K3.1")
def test_an_answer_for_which_there_is_no_memory_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where compressing an answer takes more memory than there is, the caller gets it, and the
    record says that it is not kept.

    Red when the record is left open.
    """

    def compress(_data: bytes) -> bytes:
        raise MemoryError

    monkeypatch.setattr("oncekey.record.stored_answer.zlib.compress", compress)
    service = Protected(effects="repeatable")
    service.then = lambda _event, _op: {"statusCode": 201, "body": "x" * 20_000}

    assert service.send(POST)["statusCode"] == 201
    assert problem_of(service.send(POST))[1] == "answer-unavailable"
    assert len(service.runs) == 1
