"""Operations inside operations, and what passes between releases: no proof, no promise too many."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from decimal import Decimal
from email.utils import format_datetime, parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import (
    IETF,
    STRIPE,
    Final,
    KeyMissing,
    NotExecuted,
    OutcomeUnknown,
    idempotent,
    idempotent_function,
    single_tenant,
)
from oncekey.record.record import Status
from oncekey.testing.memory import MemoryStore
from tests.support.events import load, with_body, with_header
from tests.support.function_calls import Calls
from tests.support.protected import (
    SHAPES,
    Protected,
    headers_of,
    problem_of,
    records,
    while_running,
)

if TYPE_CHECKING:
    from collections.abc import Callable

POST = load("apigw_http_v2_post")


def raises(error: BaseException) -> Callable[..., Any]:
    """What raises `error`."""

    def handler(*_args: object) -> None:
        raise error

    return handler


def test_that_an_inner_call_did_nothing_says_nothing_of_its_caller() -> None:
    """A handler charges and then calls an idempotent function, which raises `NotExecuted`: the
    handler has charged, and never runs again.
    """
    service, inner = Protected(), Calls()
    inner.then = raises(NotExecuted("the mail server refused"))
    service.then = lambda _event, _op: inner.call({"id": "a"})

    with pytest.raises(NotExecuted):
        service.send(POST)

    assert records(service)[0].status is Status.UNKNOWN
    assert inner.only().status is Status.FAILED_RETRYABLE
    assert problem_of(service.send(POST))[1] == "outcome-unknown"
    assert len(service.runs) == 1


def test_an_author_who_knows_better_raises_it_anew() -> None:
    """A handler that did nothing but call the function may say so itself."""
    service, inner = Protected(), Calls()
    inner.then = raises(NotExecuted())

    def handler(_event: object, _op: object) -> None:
        try:
            inner.call({"id": "a"})
        except NotExecuted as error:
            raise NotExecuted("nothing was done here either") from error

    service.then = handler

    assert problem_of(service.send(POST)) == (503, "not-executed", True)
    assert records(service)[0].status is Status.FAILED_RETRYABLE


@pytest.mark.parametrize("preset", [IETF, STRIPE])
@pytest.mark.parametrize(
    "passed_on",
    [
        pytest.param(lambda answer: {**answer}, id="a copy"),
        pytest.param(
            lambda answer: {**answer, "headers": {**answer["headers"], "X": "1"}},
            id="a header more",
        ),
    ],
)
def test_a_not_now_that_is_copied_is_recognised(preset: Any, passed_on: Any) -> None:
    """A copy of the "still running" that a handler passes on is not the last word."""
    inner = Protected(operation="POST /inner", preset=preset)
    outer = Protected(operation="POST /outer")
    outer.then = lambda event, _op: passed_on(inner.send(event))

    while_running(inner, POST, lambda: outer.send(POST))

    assert records(outer)[0].status is Status.UNKNOWN


def test_a_problem_of_the_authors_own_is_final() -> None:
    """A 409 that merely looks alike is the handler's answer."""
    service = Protected()
    body = {"type": "https://example.com/out-of-stock", "title": "Out of stock", "status": 409}
    service.then = lambda _event, _op: {"statusCode": 409, "body": json.dumps(body)}
    service.send(POST)

    assert headers_of(service.send(POST))["idempotent-replayed"] == "true"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(402, {"error": {"code": ["card", "declined"]}}, id="a code that is no text"),
        pytest.param(402, {"error": {"code": "card_declined"}}, id="another error of Stripe's"),
        pytest.param(402, {"error": "declined"}, id="an error that is text"),
        pytest.param(
            202,
            {"operation_id": "7", "status": "queued", "retry_after_s": 5},
            id="a 202 of its own",
        ),
        pytest.param(200, [1, 2], id="a list"),
    ],
)
def test_answers_that_look_alike_are_stored(status: int, body: Any) -> None:
    """Members of the same names do not make an answer ours: it is final, and replayed."""
    service = Protected()
    service.then = lambda _event, _op: {"statusCode": status, "body": json.dumps(body)}
    service.send(POST)

    assert headers_of(service.send(POST))["idempotent-replayed"] == "true"
    assert len(service.runs) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_an_accepted_that_is_passed_on_is_not_final(shape: str) -> None:
    """The 202 of an inner operation that still runs is no last word, in any shape of event."""
    inner = Protected(operation="POST /inner", in_progress="accepted")
    outer = Protected(operation="POST /outer")
    # Each clock counts the ids that it draws, and no two operations have the same.
    inner.clock.new_operation_id()
    outer.then = lambda event, _op: dict(inner.send(event))

    answer = while_running(inner, load(shape), lambda: outer.send(load(shape)))

    assert answer["statusCode"] == 202
    assert records(outer)[0].status is Status.UNKNOWN


def test_the_expiry_that_is_promised_is_never_beyond_the_record() -> None:
    """A release with a longer retention does not promise what an older record cannot hold."""
    store = MemoryStore()
    older = Protected(
        store=store,
        retention=timedelta(hours=1),
        after_expiry="gone",
        gone_for=timedelta(hours=23),
    )
    newer = Protected(store=store, retention=timedelta(hours=72), after_expiry="gone")
    newer.clock = older.clock
    older.send(POST)

    promised = parsedate_to_datetime(headers_of(newer.send(POST))["idempotency-expires"])

    (record,) = records(newer)
    assert promised.timestamp() <= (record.expires_at_s or 0)


def test_a_request_first_sent_before_an_operation_ended_is_not_begun_again() -> None:
    """The retention was raised meanwhile: the record of the first time has expired, and says that
    it was there.
    """
    store = MemoryStore()
    older = Protected(store=store, retention=timedelta(hours=1))
    sent = parsedate_to_datetime("Tue, 14 Nov 2023 22:13:20 GMT")
    event = with_header(POST, "Repeatability-First-Sent", format_datetime(sent, usegmt=True))
    older.send(event)
    newer = Protected(store=store, retention=timedelta(hours=24))
    newer.clock.advance(2 * 3_600_000)

    assert problem_of(newer.send(event)) == (412, "request-too-old", False)
    assert newer.runs == []


def test_a_selection_that_stumbles_over_a_number_is_the_clients_mistake() -> None:
    """`Decimal` of what is none: 400, and nothing is written."""
    service = Protected(
        fingerprint=lambda request: str(Decimal(json.loads(request.body)["amount"]))
    )

    answer = service.send(with_body(POST, '{"amount": "abc"}'))

    assert problem_of(answer) == (400, "request-invalid", False)
    assert records(service) == []


def test_a_coroutine_that_nobody_awaits_is_no_work_done() -> None:
    """A plain function that returns a coroutine is the author's mistake; it is not recorded as
    carried out.
    """

    async def real() -> dict[str, Any]:
        return {"statusCode": 200}

    service, calls = Protected(), Calls()
    service.then = lambda _event, _op: real()
    calls.then = lambda _record: real()

    with pytest.raises(TypeError, match="decorate the coroutine function itself"):
        service.send(POST)
    with pytest.raises(TypeError, match="decorate the coroutine function itself"):
        calls.call({"id": "a"})

    assert records(service)[0].status is calls.only().status is Status.UNKNOWN


def test_an_object_with_an_async_call_is_awaited() -> None:
    """`async def __call__` makes a coroutine function of its object."""

    class Work:
        async def __call__(self, record: dict[str, str]) -> str:
            return record["id"]

    decorate: Any = idempotent_function(
        operation="object", key="id", tenant=single_tenant(), store=MemoryStore()
    )

    assert asyncio.run(decorate(Work())({"id": "a"})) == "a"


def test_a_composite_key_needs_all_its_parts() -> None:
    """Two calls that lack the same part are two calls, not one."""
    calls = Calls(key="[order_id, line]")

    with pytest.raises(KeyMissing, match="a part of what"):
        calls.call({"line": 1})


def test_key_tenant_and_fingerprint_see_one_call() -> None:
    """A default that is left out and one that is given are the same call to all of them."""
    seen: list[Any] = []

    @idempotent_function(
        operation="defaults",
        key=lambda order, tenant: order,
        tenant=lambda order, tenant: tenant,
        fingerprint=lambda order, tenant: [order, tenant],
        store=MemoryStore(),
    )
    def function(order: str, tenant: str = "acme") -> str:
        seen.append(order)
        return order

    assert function("k") == function("k", "acme") == function(order="k", tenant="acme") == "k"
    assert seen == ["k"]


@pytest.mark.parametrize("tenant", [7, ["a"], " ", "\ud800"])
def test_a_functions_tenant_is_a_name(tenant: Any) -> None:
    """What is no name names nobody."""
    with pytest.raises(KeyMissing, match="does not say whose key"):
        Calls(tenant=lambda _record: tenant).call({"id": "a"})


def test_a_rule_is_not_asked_about_exits() -> None:
    """An exit or a cancellation is raised, whatever a predicate would say of it."""
    service = Protected(not_executed=lambda _error: True)
    service.then = raises(KeyboardInterrupt())

    with pytest.raises(KeyboardInterrupt):
        service.send(POST)

    assert records(service)[0].status is Status.UNKNOWN


def test_a_task_that_outlives_its_handler_has_time_of_its_own() -> None:
    """A deadline that has passed binds nobody who is still alive."""
    service, calls = Protected(timeout_ms=1_000), Calls()
    calls.clock = service.clock

    @idempotent_function(
        operation="late", key="id", tenant=single_tenant(), store=calls.store, clock=service.clock
    )
    def late(record: dict[str, str]) -> str:
        return record["id"]

    def handler(_event: object, _op: object) -> dict[str, Any]:
        service.clock.advance(2_000)
        return {"statusCode": 200, "body": late({"id": "a"})}

    service.then = handler

    assert service.send(POST)["body"] == "a"


def test_a_rule_of_storing_cannot_change_the_answer() -> None:
    """`store_when` judges a copy: first answer and replay stay the same."""
    service = Protected(store_when=lambda answer: bool(answer.update(body="changed")) or True)

    assert service.send(POST)["body"] == service.send(POST)["body"] == '{"run": 1}'


def test_a_wrapper_that_supplies_the_third_argument_is_called_with_two() -> None:
    """What a wrapper takes counts, not what it wraps."""
    import functools

    def real(_event: Any, _context: Any, connection: str) -> dict[str, Any]:
        return {"statusCode": 200, "body": connection}

    @functools.wraps(real)
    def wrapper(event: Any, context: Any) -> dict[str, Any]:
        return real(event, context, "connected")

    handler = idempotent(operation="any", tenant=single_tenant(), store=MemoryStore())(wrapper)

    assert handler(POST, None)["body"] == "connected"


def test_a_final_raised_in_a_function_ends_the_handlers_operation() -> None:
    """`Final` is the handler's word; the function that it passes through is interrupted by it."""
    service, inner = Protected(), Calls()
    inner.then = raises(Final(402, "no"))
    service.then = lambda _event, _op: inner.call({"id": "a"})

    assert service.send(POST)["statusCode"] == 402
    inner.then = None
    with pytest.raises(OutcomeUnknown):
        inner.call({"id": "a"})
    assert records(service)[0].status is Status.COMPLETED
