"""How a Powertools route may end, and what the next request gets: exceptions and validation."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from aws_lambda_powertools.event_handler import Depends, Response
from aws_lambda_powertools.event_handler.exceptions import (
    BadRequestError,
    InternalServerError,
    NotFoundError,
    RequestTimeoutError,
    ServiceError,
    ServiceUnavailableError,
)
from pydantic import BaseModel

from oncekey import STRIPE, Final, NotExecuted
from oncekey.record.record import Status
from tests.support.events import load, with_body, with_route
from tests.support.protected import headers_of, problem_of, without_ours
from tests.support.routes import RESOLVERS, Service

POST = load("apigw_http_v2_post")


class Declined(Exception):
    """What the routes of these tests raise of their own."""


class Asked(BaseModel):
    """A request's body."""

    amount: int


class Made(BaseModel):
    """An answer's body."""

    run: int
    amount: int


def raising(error: BaseException, shape: str = "apigw_http_v2_post", **options: Any) -> Service:
    """A service whose route raises `error`, whenever it runs."""
    service = Service(shape)

    @service.app.post("/payments", middlewares=[service.protect(**options)])
    def create() -> None:
        service.runs.append("create")
        raise error

    return service


@pytest.mark.parametrize("shape", RESOLVERS)
@pytest.mark.parametrize(
    "error", [BadRequestError("no"), NotFoundError("no"), ServiceError(422, {"a": 1})]
)
def test_an_exception_that_means_a_final_answer_is_one(shape: str, error: ServiceError) -> None:
    """A `ServiceError` with a final 4xx ends the operation with what Powertools answers for it, and
    that is replayed.
    """
    bare = Service(shape)

    @bare.app.post("/payments")
    def create() -> None:
        raise error

    service = raising(error, shape)
    first, is_replay = service.replays(load(shape))

    assert without_ours(first) == bare.send(load(shape))
    assert first["statusCode"] == error.status_code
    assert is_replay
    assert service.runs == ["create"]


@pytest.mark.parametrize(
    "error",
    [
        InternalServerError("x"),
        ServiceUnavailableError("x"),
        RequestTimeoutError("x"),
        ServiceError(429, "x"),
    ],
)
def test_an_exception_that_means_another_answer_is_not_final(error: ServiceError) -> None:
    """A 5xx and the 4xx that say "not now" reach the caller and leave the outcome unknown; where
    running again is harmless the route runs again.
    """
    unrecorded, repeatable = raising(error), raising(error, effects="repeatable")

    assert unrecorded.send(POST)["statusCode"] == error.status_code
    assert problem_of(unrecorded.send(POST)) == (409, "outcome-unknown", True)
    assert [repeatable.send(POST)["statusCode"] for _ in range(2)] == [error.status_code] * 2
    assert (unrecorded.runs, repeatable.runs) == (["create"], ["create", "create"])


@pytest.mark.parametrize(("status", "is_stored"), [(402, True), (502, False)])
def test_what_an_exception_handler_answers_is_an_answer(status: int, is_stored: bool) -> None:
    """An exception that the resolver has a handler for is answered by it, once, and its answer is
    judged by its status.
    """
    service = raising(Declined("card"), effects="repeatable")
    handled: list[str] = []

    def declined(error: Declined) -> Response[Any]:
        handled.append(str(error))
        return Response(status, "application/json", {"declined": str(error)}, headers={"X": "1"})

    service.app.exception_handler(Declined)(declined)
    first, is_replay = service.replays(POST)

    assert (first["statusCode"], first["body"]) == (status, '{"declined":"card"}')
    assert headers_of(first)["x"] == "1"
    assert is_replay is is_stored
    assert handled == ["card"] * (1 if is_stored else 2)


def test_an_exception_handler_that_raises_a_service_error_answers_by_it() -> None:
    """As without protection, a handler may translate an exception into Powertools' own."""
    service = raising(Declined())

    def declined(error: Declined) -> None:
        raise BadRequestError("declined") from error

    service.app.exception_handler(Declined)(declined)
    first, is_replay = service.replays(POST)

    assert (first["statusCode"], json.loads(first["body"])["message"]) == (400, "declined")
    assert is_replay


def test_an_exception_that_nothing_answers_is_recorded_and_raised() -> None:
    """The record is written first: the repeat is told that the outcome is unknown."""
    service = raising(Declined())

    with pytest.raises(Declined):
        service.send(POST)

    assert service.record.status is Status.UNKNOWN
    assert service.record.last_error == "Declined"
    assert problem_of(service.send(POST)) == (409, "outcome-unknown", True)


@pytest.mark.parametrize("is_handled", [False, True])
def test_final_ends_the_operation(is_handled: bool) -> None:
    """`Final` is the stored answer, whatever its status, and no exception handler gets it."""
    service = raising(Final(503, {"final": 1}, {"X": "1"}))
    if is_handled:
        service.app.exception_handler(Exception)(lambda _error: Response(400))

    first, is_replay = service.replays(POST)

    assert (first["statusCode"], first["body"], headers_of(first)["x"]) == (
        503,
        '{"final": 1}',
        "1",
    )
    assert is_replay


@pytest.mark.parametrize("is_handled", [False, True])
@pytest.mark.parametrize("error", [NotExecuted(), Declined()])
def test_what_proves_that_nothing_happened_comes_first(error: Exception, is_handled: bool) -> None:
    """`NotExecuted`, and what `not_executed` accepts, are answered 503 and the key may run again at
    once, also where an exception handler would take them.
    """
    service = raising(error, not_executed=Declined)
    if is_handled:
        service.app.exception_handler(Exception)(lambda _error: Response(400))

    answers = [service.send(POST), service.send(POST)]

    assert [problem_of(answer) for answer in answers] == [(503, "not-executed", True)] * 2
    assert service.runs == ["create", "create"]
    assert service.record.status is Status.FAILED_RETRYABLE


@pytest.mark.parametrize(
    ("error", "status"),
    [(Final(402), 402), (NotExecuted(), 503), (Declined(), 503), (BadRequestError("x"), 400)],
)
def test_what_a_dependency_raises_counts_like_the_routes_own(error: Exception, status: int) -> None:
    """`Depends()` wraps an exception; it means what it would mean unwrapped."""
    service = Service()

    def dependency() -> None:
        raise error

    def create(_needed: None) -> None:
        service.runs.append("never")

    # As text, the annotation could not name what is local to this test.
    create.__annotations__["_needed"] = Annotated[None, Depends(dependency)]
    service.app.post("/payments", middlewares=[service.protect(not_executed=Declined)])(create)

    assert service.send(POST)["statusCode"] == status
    retryable = status == 503
    assert service.record.status is (Status.FAILED_RETRYABLE if retryable else Status.COMPLETED)


@pytest.mark.parametrize(("error", "status"), [(Final(402, "x"), 402), (NotExecuted(), 503)])
def test_final_and_not_executed_are_answers_of_an_unprotected_route_too(
    error: Exception, status: int
) -> None:
    """Code below a route need not know whether its method is protected."""
    service = Service()
    service.app.use(middlewares=[service.protect()])

    @service.app.get("/payments")
    def read() -> None:
        raise error

    assert service.send(with_route(POST, "GET", "/payments"))["statusCode"] == status
    assert service.operations == []


def test_other_exceptions_of_an_unprotected_route_are_powertools_own() -> None:
    """Without protection an exception goes through to the middlewares before, and to Powertools."""
    service = Service()
    seen: list[str] = []

    def before(app: Any, next_middleware: Any) -> Any:
        try:
            return next_middleware(app)
        except Declined as error:
            seen.append(str(error))
            raise

    service.app.use(middlewares=[before, service.protect()])
    service.app.exception_handler(Declined)(lambda error: Response(418, body=str(error)))

    @service.app.get("/payments")
    def read() -> None:
        raise Declined("no")

    answer = service.send(with_route(POST, "GET", "/payments"))

    assert (answer["statusCode"], answer["body"], seen) == (418, "no", ["no"])


def test_with_the_stripe_preset_any_answer_and_any_failure_is_stored() -> None:
    """`STRIPE` stores what has begun: a 5xx of Powertools as it is, another exception as a 500."""
    unavailable, failing = (
        raising(error, preset=STRIPE) for error in (ServiceUnavailableError("x"), Declined())
    )

    assert (unavailable.replays(POST)[0]["statusCode"], unavailable.runs) == (503, ["create"])
    assert (failing.replays(POST)[0]["statusCode"], failing.runs) == (500, ["create"])


def validated(**options: Any) -> Service:
    """A service whose route takes and returns models; the amount 666 makes an answer that does not
    fit.
    """
    service = Service(enable_validation=True, **options)
    service.app.use(middlewares=[service.protect()])

    @service.app.post("/payments")
    def create(asked: Asked) -> Made:
        service.runs.append("create")
        if asked.amount == 666:
            return {"run": "none"}  # type: ignore[return-value]
        return Made(run=len(service.runs), amount=asked.amount)

    return service


def test_models_are_validated_and_their_answers_replayed() -> None:
    """With validation on, a route gets its model, and its model is the answer."""
    service = validated()

    first, is_replay = service.replays(with_body(POST, '{"amount": 5}'))

    assert first["body"] == '{"run":1,"amount":5}'
    assert is_replay


def test_a_request_that_does_not_fit_its_model_reserves_nothing() -> None:
    """Powertools refuses it before any middleware, and the same key may be used for a right one."""
    service = validated()

    wrong = service.send(with_body(POST, '{"amount": "x"}'))
    right = service.send(with_body(POST, '{"amount": 5}'))

    assert (wrong["statusCode"], right["statusCode"]) == (422, 200)
    assert service.runs == ["create"]


@pytest.mark.parametrize(
    ("options", "status", "kind"),
    [
        ({}, 422, "RequestValidationError"),
        ({"response_validation_error_http_code": 409}, 409, "ResponseValidationError"),
    ],
)
def test_an_answer_that_does_not_fit_its_model_is_not_the_last_word(
    options: dict[str, Any], status: int, kind: str
) -> None:
    """The caller gets what Powertools says of it; the outcome is unknown, because that answer says
    nothing of what was done.
    """
    service = validated(**options)
    event = with_body(POST, '{"amount": 666}')

    assert service.send(event)["statusCode"] == status
    assert problem_of(service.send(event)) == (409, "outcome-unknown", True)
    assert service.record.last_error == kind
    assert service.runs == ["create"]
