"""Routes of Powertools of recorded effects: steps below them, and how their answers commit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.exceptions import (
    BadRequestError,
    InternalServerError,
    NotFoundError,
)

from oncekey import ConfigurationError, Final, NotExecuted, RunStopped, current_operation
from oncekey.record.record import Status
from tests.support.events import load, with_key, with_route
from tests.support.protected import Protected, is_replay, problem_of, while_running
from tests.support.routes import RESOLVERS, Service

if TYPE_CHECKING:
    from collections.abc import Callable


class Declined(Exception):
    """What a provider says no with."""


class Route(Service):
    """A route of recorded effects that does `then`; `ran` names the functions of its steps."""

    def __init__(self, shape: str = "apigw_http_v2_post", **options: Any) -> None:
        super().__init__(shape)
        self.ran: list[str] = []
        self.then: Callable[[], Any] = dict
        self.app.use(middlewares=[self.protect(effects="recorded", **options)])

        @self.app.post("/payments")
        def create() -> Any:
            return self.then()

        def declined(error: Declined) -> Response[Any]:
            return Response(status_code=402, content_type="text/plain", body=str(error))

        self.app.exception_handler(Declined)(declined)

    def sends(self, then: Callable[[], Any], shape: str = "apigw_http_v2_post") -> dict[str, Any]:
        """One request, whose route does this."""
        self.then = then
        return self.send(load(shape))

    def step(
        self, gives: Any = None, *, raises: BaseException | None = None, name: str = "charge"
    ) -> Any:
        """Do a step."""

        def function() -> Any:
            self.ran.append(name)
            if raises is not None:
                raise raises
            return gives

        return current_operation().step(name, function)

    def writes(self) -> None:
        """Collect a business write and a message."""
        op = current_operation()
        op.transaction.put("rides", {"id": op.operation_id})
        op.outbox.publish("ride.ordered", {})

    @property
    def committed(self) -> tuple[int, int]:
        """How many business writes and messages are there."""
        return len(self.store.writes), len(self.store.messages)


@pytest.mark.requirement("E1")
@pytest.mark.parametrize("shape", RESOLVERS)
def test_a_route_resumes_after_its_finished_steps(shape: str) -> None:
    """Behind every gateway: an answer that is not final leaves the work half done, and the next
    request resumes, commits with its answer, and is replayed.

    Red when a step below a route is not recorded, or an answer of 5xx commits.
    """
    route = Route(shape)

    def order(status: int) -> Callable[[], tuple[dict[str, Any], int]]:
        def then() -> tuple[dict[str, Any], int]:
            charge = route.step("c-1")
            route.writes()
            return {"charge": charge, "attempt": current_operation().attempt}, status

        return then

    first = route.sends(order(503), shape)
    assert (first["statusCode"], route.committed) == (503, (0, 0))
    assert (route.record.status, route.record.expires_at_s) == (Status.FAILED_RETRYABLE, None)
    second = route.sends(order(201), shape)
    third = route.sends(order(500), shape)

    assert (second["statusCode"], third["statusCode"]) == (201, 201)
    assert second["body"] == third["body"] == '{"charge":"c-1","attempt":2}'
    assert (is_replay(second), is_replay(third)) == (False, True)
    assert (route.ran, route.committed) == (["charge"], (1, 1))
    assert route.operations == ["POST /payments"]


ERRORS: dict[str, tuple[Exception, int]] = {
    "an exception with a handler": (Declined("no funds"), 402),
    "BadRequestError": (BadRequestError("amount"), 400),
    "NotFoundError": (NotFoundError("no such car"), 404),
    "Final": (Final(409, {"error": "no seat"}), 409),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_an_exception_that_has_an_answer_completes_and_commits_nothing(kind: str) -> None:
    """Powertools makes an answer of it, which is final; what the route had collected is not
    applied.
    """
    error, status = ERRORS[kind]
    route = Route()

    def then() -> None:
        route.writes()
        raise error

    first, second = route.sends(then), route.sends(then)

    assert (first["statusCode"], second["statusCode"]) == (status, status)
    assert is_replay(second)
    assert route.committed == (0, 0)
    assert route.record.status is Status.COMPLETED


def test_an_answer_raised_to_commit_does() -> None:
    """`Final(..., commit=True)` applies what was collected together with it."""
    route = Route()

    def then() -> None:
        route.writes()
        raise Final(202, "accepted", commit=True)

    assert route.sends(then)["statusCode"] == 202
    assert route.committed == (1, 1)


@pytest.mark.parametrize("error", [InternalServerError("down"), ValueError("of the route")])
def test_an_exception_after_a_finished_step_lets_it_resume(error: Exception) -> None:
    """With an answer of 5xx, or raised: half done, nothing committed, resumed."""
    route = Route()

    def then() -> None:
        route.step("c-1")
        route.writes()
        raise error

    if isinstance(error, InternalServerError):
        assert route.sends(then)["statusCode"] == 500
    else:
        with pytest.raises(ValueError, match="of the route"):
            route.sends(then)
    assert (route.record.status, route.committed) == (Status.FAILED_RETRYABLE, (0, 0))
    assert route.sends(lambda: {"charge": route.step()})["body"] == '{"charge":"c-1"}'

    assert route.ran == ["charge"]


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("error", [Declined("it says"), TimeoutError("t")], ids=["mapped", "not"])
def test_a_step_in_doubt_is_not_answered_for(error: Exception) -> None:
    """An exception of a step that Powertools has a final answer for does not complete either, nor
    does a route that catches it.

    Red when the answer of an exception handler is stored over a step in doubt.
    """
    route, other = Route(), Route()

    def catches() -> tuple[dict[str, Any], int]:
        with pytest.raises(type(error)):
            other.step(raises=error)
        return {}, 201

    if isinstance(error, Declined):
        assert problem_of(route.sends(lambda: route.step(raises=error)))[:2] == (
            409,
            "outcome-unknown",
        )
    else:
        with pytest.raises(TimeoutError):
            route.sends(lambda: route.step(raises=error))
    assert problem_of(other.sends(catches))[:2] == (409, "outcome-unknown")

    for each in (route, other):
        assert each.record.status is Status.UNKNOWN
        assert problem_of(each.sends(each.step))[:2] == (409, "outcome-unknown")
        assert each.ran == ["charge"]


def test_a_proof_of_a_step_frees_the_key() -> None:
    """`NotExecuted`, and what `not_executed=` names even where it has an exception handler."""
    route = Route(not_executed=Declined)

    for error in (NotExecuted("refused"), Declined("refused")):
        answer = route.sends(lambda error=error: route.step(raises=error))  # type: ignore[misc]
        assert problem_of(answer) == (503, "not-executed", True)
    assert route.sends(lambda: {"charge": route.step("c-3")})["statusCode"] == 200

    assert route.ran == ["charge"] * 3
    assert route.record.attempt == 3


def test_a_stop_passes_through_powertools() -> None:
    """Neither Powertools nor an exception handler for everything catches `RunStopped`: the step was
    renamed, and the client is told that the outcome is unknown.
    """
    route = Route()
    caught: list[Exception] = []

    def everything(error: Exception) -> Response[Any]:
        caught.append(error)
        return Response(status_code=422, content_type="text/plain", body="caught")

    route.app.exception_handler(Exception)(everything)
    assert route.sends(lambda: ({"charge": route.step("c-1")}, 503))["statusCode"] == 503
    answer = route.sends(lambda: route.step(name="pay"))

    assert problem_of(answer)[:2] == (409, "outcome-unknown")
    assert caught == []
    assert not issubclass(RunStopped, Exception)
    assert route.record.escalated_at_ms is not None


def test_a_middleware_behind_it_belongs_to_the_attempt() -> None:
    """What a middleware of the route does with the operation is collected like the route's own, and
    what it makes of the answer decides whether it commits.
    """
    route = Route()

    def fails(app: Any, next_middleware: Callable[[Any], Any]) -> Response[Any]:
        route.writes()
        response: Response[Any] = next_middleware(app)
        if current_operation().attempt == 1:
            response.status_code = 500
        return response

    @route.app.post("/others", middlewares=[fails])
    def others() -> dict[str, Any]:
        return {"charge": route.step("c-1")}

    event = with_route(load("apigw_http_v2_post"), "POST", "/others")

    assert route.send(event)["statusCode"] == 500
    assert route.committed == (0, 0)
    assert route.send(event)["statusCode"] == 200
    assert (route.ran, route.committed) == (["charge"], (1, 1))


@pytest.mark.parametrize("has_key", [True, False], ids=["with a key", "without a key"])
@pytest.mark.parametrize("shape", RESOLVERS)
@pytest.mark.parametrize(
    ("status", "outcome", "writes"),
    [(201, "done", 1), (201, "none", 0), (404, "done", 1), (500, "done", 0)],
)
def test_the_authors_rule_decides_about_what_was_collected(
    status: int, outcome: str, writes: int, shape: str, *, has_key: bool
) -> None:
    """`store_when=` gets the answer as the resolver sends it, with a key and without one.

    Red when a request without a key has written its data though its answer is not final.
    """
    route = Route(
        shape,
        required=False,
        store_when=lambda answer: json.loads(answer["body"])["outcome"] == "done",
    )

    def then() -> tuple[dict[str, Any], int]:
        route.writes()
        return {"outcome": outcome}, status

    route.then = then
    event = load(shape)
    sent = route.send(event if has_key else with_key(event))

    assert (sent["statusCode"], json.loads(sent["body"])) == (status, {"outcome": outcome})
    assert route.committed == (writes, writes)


@pytest.mark.parametrize("has_key", [True, False], ids=["with a key", "without a key"])
def test_a_refusal_of_another_operation_commits_nothing(*, has_key: bool) -> None:
    """A route that returns the "not now" of another operation has not done its own work.

    Red when a request without a key has written its data, and its client gets a 200.
    """
    inner, route, event = Protected(), Route(required=False), load("apigw_http_v2_post")

    def then() -> Any:
        route.writes()
        return inner.send(event)

    route.then = then
    sent = while_running(inner, event, lambda: route.send(event if has_key else with_key(event)))

    assert problem_of(sent) == (409, "request-in-progress", True)
    assert route.committed == (0, 0)


def test_a_coroutine_that_a_plain_route_returns_was_not_carried_out() -> None:
    """A plain wrapper around an async function returns a coroutine, which `resolve` never awaits.

    Red when the record says that the work is done, though it never ran.
    """
    route = Route(required=False)

    async def charge() -> dict[str, Any]:
        raise AssertionError("nobody awaits this")

    def then() -> Any:
        route.writes()
        return charge()

    route.then = then
    for event in (load("apigw_http_v2_post"), with_key(load("apigw_http_v2_post"))):
        with pytest.raises(TypeError, match="awaitable, which nobody awaits"):
            route.send(event)

    assert route.record.status is Status.FAILED_RETRYABLE
    assert route.committed == (0, 0)


def test_a_generator_as_a_route_is_refused_before_its_key_is_reserved() -> None:
    """A call of it runs nothing, so no record may say that it was carried out."""
    route = Route()

    def create() -> Any:
        yield {}

    route.app.post("/refunds")(create)

    with pytest.raises(ConfigurationError, match="generator has no answer to store"):
        route.send(with_route(load("apigw_http_v2_post"), "POST", "/refunds"))

    assert route.operations == []
