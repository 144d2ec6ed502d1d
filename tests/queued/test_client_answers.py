"""`mode="queued"` to its clients: what is accepted, and what a repeat gets at each moment."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import idempotent, single_tenant
from oncekey.queued.jobs import Jobs
from oncekey.record.record import Status
from oncekey.testing.memory import ManualClock
from tests.support.async_world import (
    HOUR_MS,
    OTHER,
    POST,
    Accepting,
    accepted,
    shown,
)
from tests.support.events import load, with_key
from tests.support.protected import (
    SHAPES,
    answers,
    headers_of,
    is_replay,
    problem_of,
    while_running,
)
from tests.support.steps import FaultyStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.protected import Answer


@pytest.mark.requirement("A12")
def test_a_request_is_accepted_with_its_operations_id(make: Callable[..., Accepting]) -> None:
    """The answer is 202 with `Location`, `Retry-After` and the id that the record holds; nothing
    has run, and one message tells a worker.

    Red when the handler runs at once, or the id that is told is not the record's.
    """
    service = make()

    status, wait_s, operation_id = accepted(service.send(POST))

    assert (status, wait_s) == ("pending", 5)
    assert service.runs == []
    assert service.record.status is Status.PENDING
    assert service.record.operation_id == service.message.operation_id == operation_id
    assert service.record.lease_until_ms is service.record.expires_at_s is None
    assert service.record.due is not None
    assert service.record.due.at_ms == service.clock.now_ms() + HOUR_MS


@pytest.mark.requirement("A12")
def test_repeats_get_the_same_id_and_can_poll(make: Callable[..., Accepting]) -> None:
    """Every repeat gets the one id, waiting or running, by which the operation is found; there is
    one message and one run.

    Red when a repeat draws an id of its own, writes a message, or runs the handler.
    """
    service = make()
    first = accepted(service.send(POST))
    seen: list[tuple[str, int, str]] = []

    def handler(_event: object, _op: object) -> Answer:
        seen.append(accepted(service.send(POST)))
        return {"statusCode": 201, "body": "made"}

    service.then = handler
    waiting = accepted(service.send(POST))
    found = shown(service.ask(first[2]))
    service.perform()

    assert waiting == first
    assert [(status, operation_id) for status, _, operation_id in seen] == [
        ("in_progress", first[2])
    ]
    assert (found["operation_id"], found["status"]) == (first[2], "pending")
    assert (len(service.messages), len(service.runs)) == (1, 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_accepted_and_carried_out(shape: str) -> None:
    """The worker's handler gets the event as it came, and its answer is replayed in its shape."""
    service = Accepting()
    events: list[Any] = []

    def handler(event: Any, _op: object) -> Answer:
        events.append(event)
        return {"statusCode": 201, "headers": {"Location": "/payments/1"}, "body": "made"}

    service.then = handler
    first = service.send(load(shape))
    service.perform()
    replay = service.send(load(shape))

    assert accepted(first)[0] == "pending"
    multi_value = shape == "alb_multi_value_post"
    assert ("headers" in first, "multiValueHeaders" in first) == (not multi_value, multi_value)
    assert events[0]["body"] == load(shape)["body"]
    assert (replay["statusCode"], replay["body"], is_replay(replay)) == (201, "made", True)
    assert headers_of(replay)["location"] == "/payments/1"


@pytest.mark.parametrize("state", ["waiting", "running", "answered"])
def test_the_same_key_with_another_body_is_refused(
    make: Callable[..., Accepting], state: str
) -> None:
    """It is 422 `key-reused` in every state, and neither record nor queue changes."""
    service = make()
    service.send(POST)
    seen: list[Answer] = []

    def refused() -> Answer:
        before = (service.record, service.messages)
        answer = service.send(OTHER)
        assert (service.record, service.messages) == before
        seen.append(answer)
        return answer

    if state == "running":
        service.then = lambda _event, _op: {"statusCode": refused()["statusCode"], "body": ""}
    if state != "waiting":
        service.perform()
    if state != "running":
        refused()

    assert [problem_of(answer) for answer in seen] == [(422, "key-reused", False)]


@pytest.mark.parametrize("status", [201, 303, 404, 422])
def test_the_stored_answer_is_given_once_it_is_there(
    make: Callable[..., Accepting], status: int
) -> None:
    """A final answer of the worker's, a refusal as well, is what every repeat gets from then on."""
    service = make()
    service.then = answers(status, '{"said": "so"}')
    service.send(POST)
    service.clock.advance(1_000)
    service.perform()
    completed_s = service.clock.now_ms() // 1000

    replay = service.send(POST)
    again = service.send(POST)

    assert (replay["statusCode"], replay["body"]) == (status, '{"said": "so"}')
    assert is_replay(replay)
    assert replay == again
    assert service.record.status is Status.COMPLETED
    # The retention counts from the end, not from the acceptance.
    assert service.record.expires_at_s == completed_s + 24 * 3600
    assert (len(service.messages), len(service.runs)) == (1, 1)


def test_another_key_is_another_operation() -> None:
    """The same body under two keys is accepted twice and carried out twice."""
    service = Accepting()
    first = accepted(service.send(POST))
    second = accepted(service.send(with_key(POST, "another-key-0123456789")))

    for message in service.messages:
        service.perform(message)

    assert first[2] != second[2]
    assert {op.operation_id for op in service.runs} == {first[2], second[2]}


def test_the_handler_gets_its_operation_in_the_worker() -> None:
    """Id, tenant and attempt are the record's, and the operation is protected."""
    service = Accepting()
    _, _, operation_id = accepted(service.send(POST))

    service.perform()

    (op,) = service.runs
    assert (op.operation_id, op.attempt, op.protected) == (operation_id, 1, True)
    assert (op.name, op.tenant) == ("POST /payments", single_tenant()())


def test_a_client_that_waits_gets_the_workers_answer() -> None:
    """With `in_progress="wait"` the request polls until a worker has answered, and replays that."""
    service = Accepting(in_progress="wait")
    service.store.before_call(3, service.perform)

    answer = service.send(POST)

    assert (answer["statusCode"], answer["body"], is_replay(answer)) == (201, '{"run": 1}', True)
    assert service.heard == []
    assert service.store.asked == [
        *("commit Reserve", "read", "read"),
        *("read", "Begin", "Complete"),
        "read",
    ]


def test_a_client_that_has_waited_long_enough_is_told_to_come_back() -> None:
    """After `wait_up_to` without an answer the request is a 202 like any other."""
    service = Accepting(in_progress="wait", wait_up_to=timedelta(seconds=2))
    began_ms = service.clock.now_ms()

    status, _, operation_id = accepted(service.send(POST))

    assert status == "pending"
    assert operation_id == service.record.operation_id
    assert service.clock.now_ms() - began_ms == 2_000


@pytest.mark.parametrize("shape", ["apigw_http_v2_post", "alb_multi_value_post"])
def test_requests_without_a_usable_key_are_not_accepted(shape: str) -> None:
    """They are 400, and leave neither record nor message."""
    service = Accepting()

    assert problem_of(service.send(with_key(load(shape))))[:2] == (400, "key-missing")
    assert problem_of(service.send(with_key(load(shape), "short")))[:2] == (400, "key-invalid")
    assert (service.store.records, service.store.messages) == ({}, [])


def test_after_its_expiry_the_same_key_is_accepted_afresh(make: Callable[..., Accepting]) -> None:
    """The next life of the key has another id, another message and a run of its own."""
    service = make(retention=timedelta(hours=1))
    first = accepted(service.send(POST))
    service.perform()
    service.clock.advance(HOUR_MS + 1_000)

    second = accepted(service.send(POST))
    service.perform()

    assert first[2] != second[2]
    assert len({message.id for message in service.messages}) == 2
    assert [op.operation_id for op in service.runs] == [first[2], second[2]]


class Coroutine:
    """An `async def` handler under `mode="queued"`, whose first run does what it is told."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.store = FaultyStore()
        self.clock = ManualClock()
        self.error = error
        self.runs = 0

        @idempotent(
            operation="POST /payments",
            tenant=single_tenant(),
            mode="queued",
            effects="repeatable",
            store=self.store,
            clock=self.clock,
        )
        async def handler(_event: dict[str, Any], _context: object) -> Any:
            self.runs += 1
            await asyncio.sleep(0)
            if self.runs == 1 and self.error is not None:
                raise self.error
            return {"statusCode": 201, "body": json.dumps({"run": self.runs})}

        self.handler = handler
        self.jobs = Jobs(handler)


def test_a_coroutine_handler_is_accepted_and_carried_out() -> None:
    """`async def` handlers are accepted, performed and replayed by awaiting, with no other calls of
    the store.
    """
    service = Coroutine()

    async def story() -> tuple[Any, Any]:
        first = await service.handler(POST, None)
        await service.jobs.perform_async(_only(service.store), None)
        return first, await service.handler(POST, None)

    first, replay = asyncio.run(story())

    assert accepted(first)[0] == "pending"
    assert (replay["statusCode"], replay["body"], is_replay(replay)) == (201, '{"run": 1}', True)
    assert service.store.asked == ["commit Reserve", "read", "Begin", "Complete", "commit Reserve"]


def test_a_coroutine_handler_that_fails_is_redelivered() -> None:
    """What it raised comes out of `perform_async`, and the next delivery resumes."""
    service = Coroutine(ValueError("it failed"))

    async def story() -> Any:
        await service.handler(POST, None)
        with pytest.raises(ValueError, match="it failed"):
            await service.jobs.perform_async(_only(service.store), None)
        await service.jobs.perform_async(_only(service.store), None)
        return await service.handler(POST, None)

    assert asyncio.run(story())["body"] == '{"run": 2}'


def test_perform_and_perform_async_are_for_their_own_handlers() -> None:
    """The wrong one says which is the right one, and nothing has been asked of the store."""
    service, coroutine = Accepting(), Coroutine()
    service.send(POST)
    asyncio.run(coroutine.handler(POST, None))
    asked = len(service.store.asked), len(coroutine.store.asked)

    with pytest.raises(TypeError, match="use perform_async"):
        coroutine.jobs.perform(_only(coroutine.store), None)
    assert service.jobs is not None
    with pytest.raises(TypeError, match="use perform$"):
        asyncio.run(service.jobs.perform_async(service.message, None))

    assert (len(service.store.asked), len(coroutine.store.asked)) == asked


def test_a_repeat_met_in_flight_by_a_sync_operation_is_unchanged() -> None:
    """`mode="sync"`, the default, answers its first caller at once and repeats with 409."""
    service = Accepting(mode="sync")

    answer = while_running(service, POST, lambda: service.send(POST))

    assert problem_of(answer) == (409, "request-in-progress", True)
    assert service.store.messages == []


def _only(store: FaultyStore) -> Any:
    service = Accepting(store=store)
    return service.message
