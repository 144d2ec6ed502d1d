"""What is done is done, though its result could not be kept: its message is acknowledged."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
from typing import Any

import pytest

from oncekey import ResultUnavailable, idempotent_function, single_tenant
from oncekey.errors import CallNotAnswered, InProgress
from oncekey.outbox import Topics, Worker
from oncekey.outbox.envelope import sealed
from oncekey.record.record import Status
from oncekey.testing.memory import MemoryStore
from tests.outbox.test_worker import Line
from tests.support.async_world import POST, Accepting
from tests.support.queue_events import delivery, failed, message

# More than an item holds, compressed or not.
INCOMPRESSIBLE = b"".join(hashlib.sha256(str(n).encode()).digest() for n in range(20_000))


class WithoutBucket(MemoryStore):
    """A store that cannot keep what no item holds."""

    has_bucket = False


@pytest.mark.fault("K11.6")
@pytest.mark.parametrize("effects", ["unrecorded", "repeatable", "recorded"])
@pytest.mark.parametrize("result", ["too large", "of no kind that is stored"])
def test_a_worker_can_tell_that_a_message_is_done(effects: str, result: str) -> None:
    """A repeat of what was done without a result that can be given again does not run, and raises
    what says that the work is completed; no other exception says so.

    Red when it looks like any failure, and its message is delivered until it is a dead letter.
    """
    runs: list[str] = []
    value = INCOMPRESSIBLE if result == "too large" else object()

    @idempotent_function(
        operation="without a result",
        key="@",
        tenant=single_tenant(),
        store=WithoutBucket(),
        effects=effects,
    )
    def function(message: str) -> Any:
        runs.append(message)
        return value

    if result == "too large":
        assert function("a") == value
    else:
        with pytest.raises(TypeError):
            function("a")
    for _ in range(2):
        with pytest.raises(ResultUnavailable) as done:
            function("a")
        assert done.value.completed
        assert not done.value.retryable
    assert runs == ["a"]


@pytest.mark.fault("K11.6")
def test_only_a_completed_call_says_so() -> None:
    """Of all that a call may raise, `ResultUnavailable` alone means that the work is done.

    Red when a worker would acknowledge what is not.
    """
    kinds = [kind for kind in CallNotAnswered.__subclasses__() if kind.completed]

    assert kinds == [ResultUnavailable]
    assert not pickle.loads(pickle.dumps(InProgress(operation="x"))).completed  # noqa: S301
    assert pickle.loads(pickle.dumps(ResultUnavailable(operation="x"))).completed  # noqa: S301


@pytest.mark.fault("K11.6")
@pytest.mark.parametrize("effects", ["unrecorded", "recorded"])
def test_a_job_whose_answer_was_not_kept_is_acknowledged(effects: str) -> None:
    """An accepted request that was carried out is done for its worker, at the first delivery and at
    every other, though its answer could not be kept.

    Red when each delivery fails, and the message becomes a dead letter.
    """
    service = Accepting(effects=effects)
    service.store.has_bucket = False
    service.then = lambda _event, _op: {"statusCode": 201, "body": INCOMPRESSIBLE.hex()}
    service.send(POST)

    assert [service.work(), service.work()] == ["done", "done"]
    assert service.record.status is Status.COMPLETED
    assert len(service.runs) == 1


@pytest.mark.fault("K11.6")
@pytest.mark.parametrize("effects", ["unrecorded", "recorded"])
def test_it_is_done_too_if_the_answer_of_the_store_was_lost(effects: str) -> None:
    """The completion was applied and its answer lost: the job is as done as with that answer.

    Red when its worker is told that it is unfinished, and reports a failure.
    """
    service = Accepting(effects=effects)
    service.store.has_bucket = False
    service.then = lambda _event, _op: {"statusCode": 201, "body": INCOMPRESSIBLE.hex()}
    service.send(POST)
    service.store.lose("Complete")

    assert (service.work(), service.record.status) == ("done", Status.COMPLETED)


def inner(store: MemoryStore) -> Any:
    """A function that is done, and whose result nobody can have."""

    @idempotent_function(operation="inner", key="@", tenant=single_tenant(), store=store)
    def function(_message: str) -> object:
        return object()

    with pytest.raises(TypeError):
        function("a")
    return function


@pytest.mark.parametrize("effects", ["unrecorded", "repeatable", "recorded"])
def test_a_part_of_the_work_that_is_done_does_not_complete_it(effects: str) -> None:
    """An operation that another one cannot go on from is not done: its message must come again.

    Red when a worker takes the result of the part for the whole, and the rest is never done.
    """
    store = MemoryStore()
    part = inner(store)

    @idempotent_function(
        operation="outer",
        key=lambda record, _context: record["messageId"],
        tenant=single_tenant(),
        store=store,
        effects=effects,
    )
    def outer(_record: Any, _context: Any) -> None:
        part("a")

    with pytest.raises(ResultUnavailable) as raised:
        outer({"messageId": "a"}, None)
    assert not raised.value.completed
    event = delivery(message())
    assert failed(Worker(outer, queue=Line())(event, None)) == ["record-0"]  # type: ignore[arg-type]  # a line is a queue here


def test_a_part_of_a_coroutine_that_is_done_does_not_complete_it() -> None:
    """The same for an `async def` function, also if its parts are tasks of a group."""
    store = MemoryStore()
    part = inner(store)

    @idempotent_function(operation="outer", key="@", tenant=single_tenant(), store=store)
    async def outer(_message: str) -> None:
        async def one() -> None:
            part("a")

        async with asyncio.TaskGroup() as parts:
            parts.create_task(one())

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(outer("a"))

    (error,) = raised.value.exceptions
    assert isinstance(error, ResultUnavailable)
    assert not error.completed


def test_a_part_of_a_job_that_is_done_does_not_complete_it() -> None:
    """The same for an accepted request."""
    service = Accepting(effects="repeatable")
    part = inner(MemoryStore())
    service.then = lambda _event, _op: part("a")
    service.send(POST)
    topics = Topics({}, jobs=service.jobs)
    body = sealed(service.store.messages[0])
    worker = Worker(topics, queue=Line(), clock=service.clock)  # type: ignore[arg-type]  # as above

    assert failed(worker(delivery(body), service.context())) == ["record-0"]
    assert service.record.status is Status.FAILED_RETRYABLE


def test_a_worker_acknowledges_what_is_done_without_a_result() -> None:
    """The message of the function itself is done."""
    part = inner(MemoryStore())
    worker = Worker(lambda _record, _context: part("a"), queue=Line())  # type: ignore[arg-type]  # as above

    assert failed(worker(delivery(message()), None)) == []
