"""Our refusals are known by identity: no answer is taken for one because it looks like one."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.event_handler import Response

from oncekey import IETF, STRIPE, Final, OutcomeUnknown
from oncekey.errors import JobUnfinished, TransactionInvalid
from oncekey.problem import PROBLEMS
from oncekey.record.record import Status
from tests.support.accepted import Accepted
from tests.support.events import load, with_key
from tests.support.function_calls import Calls
from tests.support.protected import Protected, is_replay, problem_of, records, while_running
from tests.support.routes import Service
from tests.support.steps import FaultyStore

if TYPE_CHECKING:
    from collections.abc import Callable

POST = load("apigw_http_v2_post")
EFFECTS = ["unrecorded", "repeatable", "recorded"]


def looks(status: int, answer: dict[str, Any]) -> dict[str, Any]:
    """An answer of the author's with this status that reads like `answer`."""
    return {**json.loads(json.dumps(answer)), "statusCode": status}


def of(preset: Any, code: str) -> dict[str, Any]:
    """What the preset says of `code`."""
    answer: dict[str, Any] = preset.refusal(code, base="urn:oncekey:problem:", retry_after_ms=1_000)
    return answer


LOOK_ALIKES: dict[str, dict[str, Any]] = {
    **{
        f"{name} {code} as {status}": looks(status, of(preset, code))
        for name, preset in (("IETF", IETF), ("STRIPE", STRIPE))
        for code, problem in PROBLEMS.items()
        if problem.retryable
        for status in (201, 409)
    },
    "what a handler echoes of the Stripe error": {
        "statusCode": 201,
        "body": '{"error": {"code": "idempotency_key_in_use"}}',
    },
    "a problem of another service's": {
        "statusCode": 422,
        "headers": {"Content-Type": "application/problem+json"},
        "body": json.dumps(
            {
                "type": "https://other.example/request-in-progress",
                "title": "",
                "status": 422,
                "detail": "",
                "retryable": True,
            }
        ),
    },
    "a 202 that leads to an operation": {
        "statusCode": 202,
        "headers": {"Location": "/operations/1"},
        "body": '{"operation_id": "1", "status": "pending", "retry_after_s": 1}',
    },
}


@pytest.mark.fault("K1.1")
@pytest.mark.parametrize("effects", EFFECTS)
@pytest.mark.parametrize("preset", [IETF, STRIPE], ids=["IETF", "STRIPE"])
@pytest.mark.parametrize("answer", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
def test_an_answer_that_reads_like_a_refusal_is_stored_and_replayed(
    answer: dict[str, Any], preset: Any, effects: str
) -> None:
    """Whatever an author's answer says, it is the answer: what the handler has collected is
    applied with it, it is given again, and nothing runs a second time.

    Red when a refusal is recognised by what it says.
    """
    service = Protected(preset=preset, effects=effects, store=FaultyStore())

    def handler(_event: object, op: Any) -> dict[str, Any]:
        if effects == "recorded":
            op.transaction.put("orders", {"id": op.operation_id})
            op.outbox.publish("order.made", {})
        return dict(answer)

    service.then = handler
    first, second = service.send(POST), service.send(POST)

    assert first["statusCode"] == second["statusCode"] == answer["statusCode"]
    assert first["body"] == second["body"] == answer["body"]
    assert is_replay(second)
    assert len(service.runs) == 1
    if effects == "recorded":
        assert (len(service.store.writes), len(service.store.messages)) == (1, 1)


@pytest.mark.fault("K1.1")
@pytest.mark.parametrize("answer", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
def test_an_answer_of_a_job_that_reads_like_a_refusal_ends_the_job(answer: dict[str, Any]) -> None:
    """A worker acknowledges a job whose handler gave such an answer, and the client gets it.

    Red when a refusal is recognised by what it says.
    """
    service = Accepted()
    service.sends(ends=answer)

    service.works()

    assert service.record.status is Status.COMPLETED
    assert service.send(POST)["body"] == answer["body"]


@pytest.mark.fault("K1.1")
@pytest.mark.parametrize("answer", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
def test_an_answer_of_a_route_that_reads_like_a_refusal_is_stored(answer: dict[str, Any]) -> None:
    """The same of a route of Powertools, which makes a response of it.

    Red when a refusal is recognised by what it says.
    """
    service = Service()

    @service.app.post("/payments", middlewares=[service.protect(effects="repeatable")])
    def create() -> Response[str]:
        service.runs.append("create")
        return Response(
            status_code=answer["statusCode"],
            body=answer["body"],
            headers={**answer.get("headers", {})},
        )

    first, second = service.send(POST), service.send(POST)

    assert first["body"] == second["body"] == answer["body"]
    assert service.runs == ["create"]
    assert service.record.status is Status.COMPLETED


PASSED_ON: dict[str, Callable[[dict[str, Any]], Any]] = {
    "itself": lambda answer: answer,
    "a copy": lambda answer: {**answer},
    "a deep copy": copy.deepcopy,
    "with a header more": lambda answer: {**answer, "headers": {**answer["headers"], "X": "1"}},
}


@pytest.mark.fault("K1.1")
@pytest.mark.parametrize("effects", EFFECTS)
@pytest.mark.parametrize("outer_preset", [IETF, STRIPE], ids=["IETF", "STRIPE"])
@pytest.mark.parametrize("inner_preset", [IETF, STRIPE], ids=["IETF", "STRIPE"])
@pytest.mark.parametrize("how", ["conflict", "accepted"])
@pytest.mark.parametrize("passed_on", PASSED_ON.values(), ids=PASSED_ON)
def test_a_refusal_that_is_passed_on_stays_one(
    passed_on: Any, how: str, inner_preset: Any, outer_preset: Any, effects: str
) -> None:
    """A handler that returns the refusal of an operation which it called has not ended, through any
    number of operations.

    Red when the refusal is taken for the answer of whoever passes it on.
    """
    inner = Protected(operation="POST /inner", preset=inner_preset, in_progress=how)
    middle = Protected(operation="POST /middle", preset=outer_preset, effects=effects)
    outer = Protected(operation="POST /outer", preset=outer_preset, effects=effects)
    # Each clock counts the ids that it draws, and no two operations have the same.
    inner.clock.new_operation_id()
    middle.then = lambda event, _op: passed_on(inner.send(event))
    outer.then = lambda event, _op: passed_on(middle.send(event))

    answer = while_running(inner, POST, lambda: outer.send(POST))

    assert answer["statusCode"] == (202 if how == "accepted" else 409)
    for service in (middle, outer):
        assert records(service)[0].status is not Status.COMPLETED
    if effects != "unrecorded":
        assert outer.send(POST)["statusCode"] == 201


@pytest.mark.fault("K1.1")
@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda answer: json.loads(json.dumps(answer)), id="over HTTP"),
        pytest.param(lambda answer: {**answer, "statusCode": 201}, id="under another status"),
        pytest.param(lambda answer: {**answer, "body": answer["body"] + " "}, id="another body"),
        pytest.param(lambda answer: {**answer, "body": str(answer["body"])}, id="as plain text"),
    ],
)
def test_what_an_author_makes_of_a_refusal_is_the_authors_answer(changed: Any) -> None:
    """A copy by way of text, and one under another status, says what its author says.

    Red when text is enough to be taken for ours.
    """
    inner = Protected(operation="POST /inner")
    outer = Protected(operation="POST /outer")
    outer.then = lambda event, _op: changed(inner.send(event))

    while_running(inner, POST, lambda: outer.send(POST))

    assert records(outer)[0].status is Status.COMPLETED
    assert is_replay(outer.send(POST))


@pytest.mark.fault("K1.1")
def test_a_final_with_our_words_is_final() -> None:
    """`Final` is the last word of whoever raises it, whatever it says.

    Red when the body of a `Final` is asked whose it is.
    """
    inner = Protected(operation="POST /inner")
    outer = Protected(operation="POST /outer")

    def handler(event: Any, _op: object) -> None:
        refusal = inner.send(event)
        raise Final(refusal["statusCode"], refusal["body"])

    outer.then = handler
    while_running(inner, POST, lambda: outer.send(POST))

    assert is_replay(outer.send(POST))


@pytest.mark.fault("K1.1")
def test_a_job_that_passes_a_refusal_on_is_not_done() -> None:
    """A worker leaves a job in its queue whose handler returned another operation's refusal.

    Red when the refusal is stored as the answer of the job.
    """
    inner = Protected(operation="POST /inner")
    service = Accepted(effects="repeatable")
    service.send(POST)
    service.then = lambda event, _op: inner.send(event)

    with pytest.raises(JobUnfinished):
        while_running(inner, POST, service.works)

    assert service.record.status is Status.FAILED_RETRYABLE


@pytest.mark.fault("K1.1")
@pytest.mark.parametrize("form", ["a response", "as it is", "validated"])
def test_a_route_that_passes_a_refusal_on_has_not_ended(form: str) -> None:
    """A route of Powertools that answers with the refusal of an operation which it called, as a
    response or as it is, has not ended; its client gets the refusal.

    Red when the refusal is no longer known once Powertools has made a response of it.
    """
    inner = Protected(operation="POST /inner")
    service = Service(enable_validation=form == "validated")

    @service.app.post("/payments", middlewares=[service.protect(effects="repeatable")])
    def create():  # type: ignore[no-untyped-def]
        refusal = inner.send(POST)
        if form == "as it is":
            return refusal
        return Response(refusal["statusCode"], body=refusal["body"], headers=refusal["headers"])

    answer = while_running(inner, POST, lambda: service.send(POST))

    assert problem_of(answer)[:2] == (409, "request-in-progress")
    assert service.record.status is Status.FAILED_RETRYABLE


@pytest.mark.fault("K1.1")
def test_a_refusal_through_a_whole_resolver_is_still_one() -> None:
    """A handler that calls a resolver of Powertools, and returns the refusal of one of its routes,
    has not ended.

    Red when the refusal is no longer known in the answer that a resolver builds.
    """
    inner, outer = Service(), Protected(operation="POST /outer", effects="repeatable")

    @inner.app.post("/payments", middlewares=[inner.protect()])
    def create() -> dict[str, Any]:
        outer.then = lambda event, _op: inner.send(event)
        seen.append(outer.send(POST))
        return {}

    seen: list[Any] = []
    inner.send(POST)

    assert problem_of(seen[0])[:2] == (409, "request-in-progress")
    assert records(outer)[0].status is Status.FAILED_RETRYABLE


@pytest.mark.fault("K1.1")
@pytest.mark.parametrize("effects", ["unrecorded", "repeatable"])
def test_a_function_that_passes_a_refusal_on_has_not_ended(effects: str) -> None:
    """A function that returns the refusal of an HTTP operation which it called has no result yet.

    Red when the refusal is stored as its result.
    """
    inner = Protected(operation="POST /inner")
    calls = Calls(effects=effects)
    calls.then = lambda _record: inner.send(POST)

    answer = while_running(inner, POST, lambda: calls.call({"id": "a"}))

    assert answer["statusCode"] == 409
    assert calls.only().status is not Status.COMPLETED
    if effects == "repeatable":
        assert calls.call({"id": "a"})["statusCode"] == 201
    else:
        with pytest.raises(OutcomeUnknown):
            calls.call({"id": "a"})


@pytest.mark.fault("K1.1")
def test_a_refusal_within_a_result_is_text() -> None:
    """A refusal that is part of a result is stored as what it says.

    Red when the type of its body has no stored form.
    """
    inner, calls = Protected(operation="POST /inner"), Calls()
    calls.then = lambda _record: [inner.send(POST)]

    (given,) = while_running(inner, POST, lambda: calls.call({"id": "a"}))

    assert calls.call({"id": "a"}) == [given]
    assert type(given["body"]) is str


@pytest.mark.fault("K1.1")
def test_a_refusal_goes_over_http_as_it_always_did() -> None:
    """What the Lambda runtime makes of a refusal is the JSON of a plain answer.

    Red when the mark of a refusal changes what is sent.
    """
    inner = Protected(operation="POST /inner")

    answer = while_running(inner, POST, lambda: inner.send(POST))
    sent = json.loads(json.dumps(answer))

    assert sent == answer
    assert sent["body"] == str(answer["body"])


@pytest.mark.fault("K1.1")
def test_a_refusal_passed_on_by_a_coroutine_stays_one() -> None:
    """An `async def` handler that passes a refusal on has not ended either.

    Red when coroutines judge their answers otherwise.
    """
    from oncekey import idempotent, single_tenant

    inner = Protected(operation="POST /inner")
    outer = Protected(operation="POST /outer")

    @idempotent(
        operation="POST /outer",
        tenant=single_tenant(),
        store=outer.store,
        clock=outer.clock,
        effects="repeatable",
    )
    async def handler(event: Any, _context: object) -> Any:
        return inner.send(event)

    event = with_key(POST, "the-key-of-another-client")
    answer = while_running(inner, event, lambda: asyncio.run(handler(event, outer.context())))

    assert problem_of(answer)[1] == "request-in-progress"
    assert records(outer)[0].status is Status.FAILED_RETRYABLE


@pytest.mark.fault("K1.1")
@pytest.mark.parametrize("topic", ["oncekey.job", "oncekey.escalated", "oncekey.anything"])
def test_an_authors_message_cannot_pass_for_one_of_ours(topic: str) -> None:
    """A topic of the layer's own is refused where it is published: a worker would take the payload
    for an accepted request.

    Red when any topic can be published.
    """
    service = Protected(effects="recorded", store=FaultyStore())
    told: list[Exception] = []

    def handler(_event: object, op: Any) -> dict[str, Any]:
        with pytest.raises(TransactionInvalid, match="the layer's own messages") as caught:
            op.outbox.publish(topic, {"record": "v1#x", "owner": "o", "event": {}})
        told.append(caught.value)
        return {"statusCode": 201, "body": ""}

    service.then = handler

    assert service.send(POST)["statusCode"] == 201
    assert (len(told), service.store.messages) == (1, [])
