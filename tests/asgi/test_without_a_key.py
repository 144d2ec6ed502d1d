"""A route with recorded effects that runs without a key: what it collected, and what it answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import BackgroundTasks, HTTPException
from fastapi.responses import JSONResponse, Response, StreamingResponse

from oncekey import Final, current_operation
from tests.support.asgi_apps import Service
from tests.support.events import load
from tests.support.protected import Protected, while_running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def collecting(answer: Callable[[], Any], *, store_when: Any = None, **write: Any) -> Service:
    """A service whose route collects one write, and returns what `answer()` makes, or raises it."""
    service = Service(effects="recorded", required=False, store_when=store_when)

    @service.app.post("/payments", response_model=None)
    async def create() -> Any:
        op = current_operation()
        op.transaction.put("rides", {"id": op.operation_id}, **write)
        made = answer()
        if isinstance(made, BaseException):
            raise made
        return made

    return service


@pytest.mark.parametrize(
    ("answer", "writes"),
    [
        (lambda: JSONResponse({}, 201), 1),
        (lambda: JSONResponse({}, 402), 1),
        (lambda: JSONResponse({}, 500), 0),
        (lambda: JSONResponse({}, 429), 0),
        (lambda: HTTPException(402), 0),
        (lambda: HTTPException(503), 0),
    ],
    ids=["201", "402", "500", "429", "raised 402", "raised 503"],
)
def test_the_answer_decides_whether_the_writes_are_applied(
    answer: Callable[[], Any], writes: int
) -> None:
    """As with a key: a final answer applies them, and a failure or an exception discards them.

    Red when a client that is told of a failure is charged all the same.
    """
    service, made = collecting(answer), answer()

    sent = service.call({})

    assert sent["statusCode"] == made.status_code
    assert len(service.store.writes) == writes


@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize(
    ("status", "outcome", "writes"),
    [(201, "done", 1), (201, "none", 0), (404, "done", 1), (500, "done", 0)],
)
def test_the_authors_rule_decides_about_what_was_collected(
    status: int, outcome: str, writes: int, *, has_key: bool
) -> None:
    """`store_when=` gets the whole answer, with a key and without one.

    Red when a request without a key has written its data though its answer is not final.
    """
    service = collecting(
        lambda: JSONResponse({"outcome": outcome}, status),
        store_when=lambda answer: json.loads(answer["body"])["outcome"] == "done",
    )

    sent = service.call({"idempotency-key": "k" * 20} if has_key else {})

    assert (sent["statusCode"], json.loads(sent["body"])) == (status, {"outcome": outcome})
    assert len(service.store.writes) == writes


def test_a_rule_that_fails_applies_nothing() -> None:
    """Nobody knows then whether the answer is final. The author is told, and the client gets the
    app's own 500, and no success before it.
    """
    service = collecting(lambda: JSONResponse({}, 201), store_when=lambda answer: answer["outcome"])

    with pytest.raises(KeyError, match="outcome"):
        service.call({})

    assert [each["status"] for each in service.sent if "status" in each] == [500]
    assert service.store.writes == []


def test_no_success_is_sent_before_the_writes_are_applied() -> None:
    """If a condition does not hold, its `otherwise` is the answer, and the only one.

    Red when the client has got a 201 by then, for a write that was not made.
    """
    service = collecting(lambda: JSONResponse({}, 201), otherwise=Final(409, {"left": 0}))
    service.holds = False

    sent = service.call({})

    assert (sent["statusCode"], sent["body"]) == (409, '{"left": 0}')
    assert service.store.writes == []


def test_a_response_that_collects_nothing_is_sent_as_it_comes() -> None:
    """A route of the same options may stream, and what it streams is not held back."""
    service, told = Service(effects="recorded", required=False), list[int]()

    def parts() -> Iterator[bytes]:
        for number in range(3):
            told.append(len(service.sent))
            yield b"%d" % number

    service.app.post("/payments", response_model=None)(lambda: StreamingResponse(parts()))

    assert service.call({})["body"] == "012"
    assert told == [1, 2, 3]


def test_what_a_background_task_collects_is_applied_after_a_success() -> None:
    """Its route has answered by then."""
    service = Service(effects="recorded", required=False)

    @service.app.post("/payments")
    async def create(tasks: BackgroundTasks) -> Response:
        op = current_operation()
        tasks.add_task(lambda: op.transaction.put("rides", {"id": op.operation_id}))
        return Response(status_code=204, background=tasks)

    assert service.call({})["statusCode"] == 204
    assert len(service.store.writes) == 1


@pytest.mark.parametrize("has_key", [True, False])
def test_a_refusal_of_another_operation_commits_nothing(*, has_key: bool) -> None:
    """A route that passes on the "not now" of another operation has not done its own work.

    Red when its writes are applied, or the "not now" is stored and replayed as its last word.
    """
    inner, event = Protected(), load("apigw_http_v2_post")
    refusal = while_running(inner, event, lambda: inner.send(event))
    service = collecting(
        lambda: Response(refusal["body"], refusal["statusCode"], refusal["headers"])
    )

    headers = {"idempotency-key": "k" * 20} if has_key else {}
    for _ in range(2):
        sent = service.call(headers)
        assert (sent["statusCode"], sent["body"]) == (409, refusal["body"])
        assert "idempotent-replayed" not in sent["headers"]

    assert service.store.writes == []
