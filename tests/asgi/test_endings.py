"""How a route of FastAPI may end, and what the next request gets: answers and exceptions."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from pydantic import BaseModel
from starlette.middleware.base import BaseHTTPMiddleware

from oncekey import STRIPE, Final, NotExecuted, current_operation, idempotent, single_tenant
from oncekey.record.record import Status
from tests.support.asgi_apps import Service
from tests.support.events import load, with_body, with_route
from tests.support.protected import SHAPES, headers_of, problem_of, without_ours

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

POST = load("apigw_http_v2_post")


class Declined(Exception):
    """What the routes of these tests raise of their own."""


class Asked(BaseModel):
    """A request's body."""

    amount: int


def answering(answer: Any, **options: Any) -> Service:
    """A service whose route returns what `answer()` makes, or raises it."""
    service = Service(**options)

    @service.app.post("/payments", response_model=None)
    def create() -> Any:
        service.runs.append("create")
        made = answer()
        if isinstance(made, BaseException):
            raise made
        return made

    return service


def cookies() -> Response:
    """An answer with two cookies and a header on two lines."""
    response = JSONResponse({"a": "é"}, 201, {"Location": "/payments/1"})
    response.set_cookie("one", "1")
    response.set_cookie("two", "2")
    response.headers.append("link", "<a>")
    response.headers.append("link", "<b>")
    return response


ANSWERS = [
    cookies,
    lambda: Response(b"\xff\x00\xfe", media_type="application/octet-stream"),
    lambda: RedirectResponse("/payments/1", 303),
    lambda: Response(status_code=204),
    lambda: StreamingResponse(iter([b"a", b"b"]), media_type="text/csv"),
    lambda: HTTPException(404, "no such order", {"X-Reason": "gone"}),
]


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "alb_post"])
@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_an_answer_is_the_apps_own_and_replayed_byte_for_byte(answer: Any, shape: str) -> None:
    """Protection changes no status, header or body, whatever the response class; a replay has the
    same body, binary or not.

    Red when a body is written anew, or a cookie or a header's second line is lost.
    """
    event = load(shape)
    service, bare = answering(answer), Service.__new__(Service)
    bare.app, bare.clock = FastAPI(openapi_url=None), service.clock
    route: Any = service.app.routes[-1]
    bare.app.post("/payments", response_model=None)(route.endpoint)
    plain, (first, is_replay) = bare.send(event), service.replays(event)

    expected = without_ours(plain)
    if "content-length" not in headers_of(plain) and plain["statusCode"] != 204:
        # A stream that was collected has a length.
        many = shape == "alb_multi_value_post"
        expected["multiValueHeaders" if many else "headers"]["content-length"] = (
            ["2"] if many else "2"
        )
    assert without_ours(first) == expected
    assert is_replay


@pytest.mark.parametrize(
    ("error", "is_stored"),
    [
        (HTTPException(402, "declined"), True),
        (HTTPException(404), True),
        (HTTPException(429), False),
        (HTTPException(503), False),
    ],
)
def test_the_status_of_an_http_exception_decides(error: HTTPException, is_stored: bool) -> None:
    """A final 4xx is stored and replayed. A 5xx, or a 4xx that means "not now", reaches the caller
    and leaves the outcome unknown; where running again is harmless the route runs again.
    """
    unrecorded = answering(lambda: error)
    repeatable = answering(lambda: error, effects="repeatable")

    assert unrecorded.replays(POST)[1] is is_stored
    assert repeatable.replays(POST)[1] is is_stored
    assert unrecorded.runs == ["create"]
    assert len(repeatable.runs) == (1 if is_stored else 2)
    assert unrecorded.record.status is (Status.COMPLETED if is_stored else Status.UNKNOWN)


def test_what_an_exception_handler_answers_is_an_answer() -> None:
    """An exception that the app has a handler for is answered by it, once."""
    service = answering(lambda: Declined("card"))
    handled: list[str] = []

    @service.app.exception_handler(Declined)
    async def declined(_request: Request, error: Declined) -> Response:
        handled.append(str(error))
        return JSONResponse({"declined": str(error)}, 402)

    first, is_replay = service.replays(POST)

    assert (first["statusCode"], first["body"]) == (402, '{"declined":"card"}')
    assert is_replay
    assert handled == ["card"]


@pytest.mark.parametrize("is_handled", [False, True])
def test_an_exception_that_nothing_answers_is_recorded_and_raised(is_handled: bool) -> None:
    """The record is written first, and the app's handler for `Exception` answers the caller; the
    repeat is told that the outcome is unknown.
    """
    service = answering(Declined)
    if is_handled:
        service.app.exception_handler(Exception)(lambda _r, _e: JSONResponse({"id": 1}, 500))

    first = service.send(POST)

    assert first["statusCode"] == 500
    assert ("id" in first["body"]) is is_handled
    assert (service.record.status, service.record.last_error) == (Status.UNKNOWN, "Declined")
    assert problem_of(service.send(POST)) == (409, "outcome-unknown", True)


@pytest.mark.parametrize(("raises", "writes"), [(True, 0), (False, 1)])
def test_after_an_exception_nothing_collected_is_applied(raises: bool, writes: int) -> None:
    """A recorded route that raises an `HTTPException` completes and commits nothing; one
    that returns the same answer commits.

    Red when an answer to an exception counts as the route's own.
    """
    service = Service(effects="recorded")

    @service.app.post("/payments", response_model=None)
    async def create() -> Response:
        op = current_operation()
        op.transaction.put("rides", {"id": op.operation_id})
        if raises:
            raise HTTPException(402, "declined")
        return JSONResponse({"detail": "declined"}, 402)

    first, is_replay = service.replays(POST)

    assert (first["statusCode"], first["body"]) == (402, '{"detail":"declined"}')
    assert is_replay
    assert len(service.store.writes) == writes


def test_final_ends_the_operation() -> None:
    """`Final` is the stored answer, whatever its status, raised anywhere below the route."""
    service = answering(lambda: Final(503, {"final": 1}, {"X-One": "1"}))
    first, is_replay = service.replays(POST)

    assert (first["statusCode"], json.loads(first["body"])) == (503, {"final": 1})
    assert headers_of(first)["x-one"] == "1"
    assert is_replay


@pytest.mark.parametrize("error", [NotExecuted, Declined])
def test_what_proves_that_nothing_happened_frees_the_key(error: type[Exception]) -> None:
    """`NotExecuted`, and what `not_executed` accepts, are answered 503, and the key may run again
    at once, also where the app has a handler for `Exception`.
    """
    service = answering(error, not_executed=Declined)
    service.app.exception_handler(Exception)(lambda _r, _e: Response(status_code=400))
    answers = [service.send(POST), service.send(POST)]

    assert [problem_of(answer) for answer in answers] == [(503, "not-executed", True)] * 2
    assert service.runs == ["create", "create"]
    assert service.record.status is Status.FAILED_RETRYABLE


def test_what_a_dependency_raises_counts_like_the_routes_own() -> None:
    """`Final` and `NotExecuted` mean the same in a dependency."""
    for error, status in ((Final(402), 402), (NotExecuted(), 503)):
        service = Service()

        def dependency(error: Exception = error) -> None:
            raise error

        service.app.post("/payments", dependencies=[Depends(lambda d=dependency: d())])(lambda: 1)
        assert service.send(POST)["statusCode"] == status


def test_a_dependency_that_fails_after_its_yield_fails_the_attempt() -> None:
    """A commit after `yield` that fails is no success, although the route has returned 200.

    Red when the record is completed before the app has ended.
    """
    service = Service()

    def session() -> Iterator[None]:
        yield
        raise Declined("the commit failed")

    service.app.post("/payments", dependencies=[Depends(session)])(lambda: {"paid": True})

    assert service.send(POST)["statusCode"] == 500
    assert service.record.status is Status.UNKNOWN


def test_background_tasks_belong_to_the_operation() -> None:
    """The answer is stored once they have ended, and a repeat does not run them again."""
    service = Service()

    @service.app.post("/payments")
    def create(tasks: BackgroundTasks) -> dict[str, Any]:
        tasks.add_task(lambda: service.runs.append(service.record.status))
        return {}

    assert service.replays(POST)[1]
    assert service.runs == [Status.IN_PROGRESS]


def test_a_body_that_the_route_does_not_accept_is_refused_once() -> None:
    """FastAPI's 422 is a final answer: the route has not run, and a corrected body needs a new key.
    With `fingerprint=Model` the body is refused before anything is written.
    """
    bodies = [with_body(POST, text) for text in ('{"amount": "x"}', '{"amount": 5}')]
    plain = Service()
    checked = Service(routes={"POST /payments": {"fingerprint": Asked}})
    for service in (plain, checked):

        @service.app.post("/payments")
        def create(asked: Asked) -> int:
            return asked.amount

    assert [plain.send(body)["statusCode"] for body in bodies] == [422, 422]
    assert problem_of(checked.send(bodies[0]))[:2] == (400, "request-invalid")
    assert checked.send(bodies[1])["body"] == "5"


async def slowly() -> AsyncIterator[bytes]:
    """A body in two parts, with time in between for a server to notice things."""
    yield b"first,"
    await asyncio.sleep(0.01)
    yield b"second"


@pytest.mark.parametrize("is_between", [False, True])
def test_a_client_that_leaves_cuts_no_answer_short(is_between: bool) -> None:
    """Its retry gets the whole body, with or without a `BaseHTTPMiddleware` within.

    Red when the app hears that the client has gone, and Starlette ends the stream.
    """
    app = FastAPI(openapi_url=None)
    if is_between:

        async def passes(request: Request, call_next: Any) -> Any:
            return await call_next(request)

        app.add_middleware(BaseHTTPMiddleware, dispatch=passes)
    service = Service(app)
    app.post("/payments", response_model=None)(lambda: StreamingResponse(slowly()))
    key = {"Idempotency-Key": "one-key-of-a-test-0001"}

    for leaves in (True, False):
        assert service.call(key, leaves=leaves)["body"] == "first,second"
    assert service.record.status is Status.COMPLETED


class Hinting(Response):
    """A response that uses what the server offers, as Starlette's template responses do."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send a message of each extension first."""
        for name in scope["extensions"]:
            await send({"type": name})
        await super().__call__(scope, receive, send)


@pytest.mark.parametrize("name", ["debug", "early_hint", "pathsend", "push", "trailers"])
def test_what_a_server_offers_for_a_response_fails_no_attempt(name: str) -> None:
    """An answer that is stored has a body and headers and no more, so nothing more is offered:
    Starlette's TestClient offers `http.response.debug`, and hypercorn early hints.

    Red when an app is offered a message that then fails its attempt.
    """
    service = answering(lambda: Hinting(b"made", 201))
    key = {"Idempotency-Key": "one-key-of-a-test-0001"}

    answer = service.call(key, offers=[f"http.response.{name}"])

    assert (answer["statusCode"], answer["body"]) == (201, "made")
    assert service.record.status is Status.COMPLETED


class Half(Response):
    """A response whose end is never sent."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send a part of the body."""
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})


def test_half_an_answer_is_not_stored(caplog: pytest.LogCaptureFixture) -> None:
    """A response without its end is no answer, for whatever reason the app broke it off."""
    service = answering(Half)

    assert service.send(POST)["statusCode"] == 500
    assert "before the end of its response's body" in caplog.text
    assert service.record.status is Status.UNKNOWN


def test_a_stream_of_events_is_refused_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    """A `text/event-stream` has no end that could be stored; the log says what to do."""
    service = answering(lambda: StreamingResponse(iter([b"x"]), media_type="text/event-stream"))

    assert service.send(POST)["statusCode"] == 500
    assert "a stream of events cannot be stored" in caplog.text


def test_an_unprotected_stream_of_events_passes() -> None:
    """A GET is sent on as the app sends it."""
    service = Service()
    service.app.get("/payments", response_model=None)(
        lambda: StreamingResponse(iter([b"x"]), media_type="text/event-stream")
    )

    assert service.send(with_route(POST, "GET", "/payments"))["body"] == "x"


def test_middlewares_between_see_the_request_and_the_answer() -> None:
    """An `@app.middleware("http")` that was added before runs within the operation, and finds it;
    what it changes is stored. One that was added after changes every answer.
    """
    app = FastAPI(openapi_url=None)

    async def stamp(request: Request, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["x-stamp"] = f"{len(stamps)}"
        stamps.append("")
        return response

    stamps: list[str] = []
    app.add_middleware(BaseHTTPMiddleware, dispatch=stamp)
    service = Service(app)
    app.post("/payments")(lambda: {"made": 1})
    first, second = service.send(POST), service.send(POST)

    assert [headers_of(answer)["x-stamp"] for answer in (first, second)] == ["0", "0"]
    assert len(stamps) == 1


def test_the_stripe_preset_stores_failures() -> None:
    """With the preset a raised exception is stored as a 500 and replayed."""
    service = answering(Declined, preset=STRIPE)
    answers = [service.send(POST) for _ in range(2)]

    assert [answer["statusCode"] for answer in answers] == [500, 500]
    assert service.runs == ["create"]


def test_a_final_after_an_unprotected_route_began_to_send_is_an_error() -> None:
    """Two answers to one request cannot both be sent, so the connection is broken off."""
    service = Service()

    def body() -> Iterator[bytes]:
        yield b"x"
        raise Final(402)

    service.app.get("/payments", response_model=None)(lambda: StreamingResponse(body()))

    assert service.send(with_route(POST, "GET", "/payments"))["statusCode"] == 500


def test_an_answer_that_a_plain_handler_stored_is_replayed_by_a_route() -> None:
    """A release that moves a handler to FastAPI gets the headers as the gateway sent them: numbers
    as text, without those that have no value, and with all lines of one name, once.
    """
    service = Service()
    stored = {
        "statusCode": 201,
        "headers": {"X-Both": "1", "X-None": None, "X-Number": 5},
        "multiValueHeaders": {"x-both": ["1", "2"], "X-Many": [3, None], "X-No": [], "X-Nil": None},
        "body": "{}",
    }
    given: dict[str, Any] = {"operation": "POST /payments", "tenant": single_tenant()}
    plain = idempotent(store=service.store, clock=service.clock, **given)
    plain(lambda event, context: stored)(POST, None)

    @service.app.post("/payments")
    def create() -> None:
        raise AssertionError("it has run before")

    sent = headers_of(service.send(POST))

    assert sent.pop("idempotent-replayed") == "true"
    assert {name: value for name, value in sent.items() if name.startswith("x-")} == {
        "x-both": "1,2",
        "x-number": "5",
        "x-many": "3",
    }
