"""One worker handles the messages of several topics."""

from __future__ import annotations

import functools
import inspect
import json
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import idempotent, single_tenant
from oncekey.engine.job import TOPIC as JOB
from oncekey.errors import ConfigurationError, TopicUnknown
from oncekey.outbox import Delivered, Topics, Worker
from oncekey.outbox.envelope import sealed
from oncekey.queued import Jobs
from oncekey.testing.memory import MemoryStore
from tests.support.events import load
from tests.support.queue_events import delivery, failed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

Handled = list[tuple[str, Any]]


def body(topic: str, **changes: Any) -> str:
    """A message of this topic, as the relay sends it."""
    members = {
        "id": f"op-1-{topic}",
        "topic": topic,
        "operation_id": "op-1",
        "operation": "POST /orders",
        "tenant": "acme",
        "created_at_ms": 1,
        "payload": {"order_id": "ord_1"},
    }
    return json.dumps({**members, **changes})


def handled_by(handled: Handled, name: str) -> Any:
    """A handler that notes its name and the order."""

    def handle(message: Delivered, context: Any) -> None:
        handled.append((name, message.payload["order_id"]))
        assert context == "the context"

    return handle


def test_each_message_goes_to_the_handler_of_its_topic() -> None:
    """In one batch, messages of two topics reach their two handlers, with the worker's context.

    Red when topics are mixed up, or the context is not passed on, without which no lease ends.
    """
    handled: Handled = []
    worker = Worker(
        Topics({name: handled_by(handled, name) for name in ("order.placed", "order.cancelled")})
    )

    answer = worker(delivery(body("order.cancelled"), body("order.placed")), "the context")

    assert failed(answer) == []
    assert handled == [("order.cancelled", "ord_1"), ("order.placed", "ord_1")]


def test_a_foreign_topic_fails_its_message_only(caplog: pytest.LogCaptureFixture) -> None:
    """A message of a topic without a handler stays in the queue, so that it becomes a dead letter;
    the others of its batch are handled. The log names the topic, its operation and what to add.

    Red when such a message is acknowledged and lost, or fails the batch.
    """
    handled: Handled = []
    worker = Worker(Topics({"order.placed": handled_by(handled, "order.placed")}))

    answer = worker(delivery(body("ride.ordered"), body("order.placed")), "the context")

    assert failed(answer) == ["record-0"]
    assert handled == [("order.placed", "ord_1")]
    (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "topic 'ride.ordered', published by 'POST /orders', has no handler" in line.message
    assert "add it to Topics({...}), and move the dead letters back" in line.message
    assert "ord_1" not in line.message


def accepting(store: MemoryStore) -> Any:
    """A handler whose requests are accepted for a worker."""

    @idempotent(
        operation="POST /reports",
        tenant=single_tenant(),
        effects="recorded",
        mode="queued",
        store=store,
    )
    def create_report(event: Mapping[str, Any], context: Any, op: Any) -> dict[str, Any]:
        op.transaction.put("reports", {"id": op.operation_id})
        return {"statusCode": 201, "body": "a report"}

    return create_report


def test_a_job_goes_to_the_jobs() -> None:
    """An accepted request is run by `jobs=`, beside the topics of the same worker.

    Red when jobs are looked for among the topics.
    """
    store = MemoryStore()
    create_report = accepting(store)
    create_report(load("apigw_http_v2_post"), None)
    (job,) = store.messages
    topics = Topics({"order.placed": handled_by([], "")}, jobs=Jobs(create_report))

    answer = Worker(topics)(delivery(sealed(job)), None)

    assert failed(answer) == []
    assert create_report(load("apigw_http_v2_post"), None)["body"] == "a report"


@pytest.mark.parametrize("jobs", [None, Jobs(accepting(MemoryStore()))])
def test_a_job_that_nothing_runs_says_where_to_name_its_handler(jobs: Jobs | None) -> None:
    """A job of another handler, or of any without `jobs=`, fails with the operation to name."""
    topics = Topics({"order.placed": handled_by([], "")}, jobs=jobs)
    message = delivery(body(JOB, operation="POST /invoices"))["Records"][0]

    with pytest.raises(
        TopicUnknown, match=r"requests of 'POST /invoices': name it in Jobs\(\.\.\.\)"
    ):
        topics(message, None)


async def _later(message: Delivered, context: Any) -> None:
    """An async handler."""


class _Later:
    """An object that is called like an async function."""

    async def __call__(self, message: Delivered, context: Any) -> None:
        """Do nothing."""


def _pieces(message: Delivered, context: Any) -> Iterator[None]:
    """A generator function."""
    yield


async def _later_pieces(message: Delivered, context: Any) -> AsyncIterator[None]:
    """An async one."""
    yield


@pytest.mark.parametrize(
    ("handlers", "complaint"),
    [
        ({}, "name a handler for each topic, or pass jobs="),
        ({"order.placed": "handle"}, "the handler of 'order.placed' is a str: pass a function"),
        ({"order.placed": _later}, "'order.placed' is an async def function"),
        ({"order.placed": _Later()}, "'order.placed' is an async def function"),
        ({"order.placed": functools.partial(_later)}, "'order.placed' is an async def function"),
        ({"order.placed": _pieces}, "'order.placed' is a generator function"),
        ({"order.placed": _later_pieces}, "'order.placed' is a generator function"),
        ({"order.placed": _Later}, "'order.placed' is the class _Later: pass a function, or an"),
        ({JOB: print}, "accepted requests: pass jobs=Jobs(...) instead"),
        ({5: print}, "5 is no topic: a topic is a text"),
        ({"": print}, "'' is no topic: a topic is a text"),
        (None, "the handlers are a NoneType: pass a dictionary of them by topic"),
        ([print], "the handlers are a list: pass a dictionary of them by topic"),
    ],
)
def test_wrong_topics_are_refused_when_the_worker_is_made(handlers: Any, complaint: str) -> None:
    """A handler that a worker cannot call, or no handler at all, is refused at import.

    Red when it is found out by the first message.
    """
    with pytest.raises(ConfigurationError) as raised:
        Topics(handlers)

    assert complaint in str(raised.value)


@pytest.mark.parametrize("jobs", [Jobs, 5, "POST /reports"])
def test_jobs_that_are_none_are_refused_when_the_worker_is_made(jobs: Any) -> None:
    """The class that was not called, for example.

    Red when every message of the queue fails on it, those of other topics too.
    """
    with pytest.raises(ConfigurationError, match=r"jobs= is no Jobs\(\.\.\.\)"):
        Topics({"order.placed": print}, jobs=jobs)


def test_a_worker_refuses_a_class_as_its_work() -> None:
    """A call of a class makes an object, and does nothing with the message.

    Red when a worker acknowledges each message, and runs none.
    """
    work: Any = dict
    with pytest.raises(ConfigurationError, match=r"its work is the class dict: pass a function"):
        Worker(work)


@pytest.mark.parametrize("work", [_later, _Later(), _pieces, _later_pieces])
def test_a_worker_refuses_work_that_a_call_does_not_run(work: Any) -> None:
    """A coroutine or generator function is refused at import, and the message says so.

    Red when a worker acknowledges each message, and runs none.
    """
    with pytest.raises(ConfigurationError, match=r"Worker.*its work is an? (async def|generator)"):
        Worker(work)


@pytest.mark.parametrize(
    "made_with",
    [Worker, lambda work: Worker(Topics({"order.placed": work}))],
    ids=["Worker", "Topics"],
)
@pytest.mark.parametrize("handler", [_later, _pieces, _later_pieces])
def test_a_message_whose_work_did_not_run_fails(
    made_with: Any, handler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A function that returns a coroutine or a generator has done nothing: its message stays, and
    the log names the reason.

    Red when the message is acknowledged and lost.
    """

    def forgets(*given: Any) -> Any:
        return handler(*given)

    worker = made_with(forgets)

    assert failed(worker(delivery(body("order.placed")), None)) == ["record-0"]
    assert "record-0: WorkNotRun at receive" in caplog.text


def test_a_coroutine_that_a_function_returned_is_closed() -> None:
    """Python has nothing to warn of beside the error."""
    unread: Any = None
    made = _later(unread, None)

    assert failed(Worker(lambda *_: made)(delivery(body("order.placed")), None)) == ["record-0"]
    assert inspect.getcoroutinestate(made) == inspect.CORO_CLOSED


def test_a_worker_of_jobs_alone_needs_no_topics() -> None:
    """What is refused is a worker that has nothing to do."""
    Topics({}, jobs=Jobs(accepting(MemoryStore())))

    with pytest.raises(ConfigurationError, match="name a handler for each topic, or pass jobs="):
        Topics({})


def test_a_failed_message_is_logged_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    """The worker logs which message failed, at which receive, and the error's type; nothing that
    the error says, because that may repeat the message.
    """

    def refuse(message: Delivered, context: Any) -> None:
        raise ValueError(message.payload)

    answer = Worker(Topics({"order.placed": refuse}))(
        delivery(body("order.placed"), receives=3), None
    )

    assert failed(answer) == ["record-0"]
    (line,) = [each.message for each in caplog.records if "message-failed" in each.message]
    assert line == "oncekey message-failed: record-0: ValueError at receive 3"


def test_an_async_job_is_refused_when_the_topics_are_made() -> None:
    """`Topics` calls plain functions, so no delivery of it could run.

    Red when each accepted request becomes a dead letter, and the log says no more than `TypeError`.
    """

    @idempotent(
        operation="POST /reports", tenant=single_tenant(), mode="queued", store=MemoryStore()
    )
    async def create_report(event: Any, context: Any) -> dict[str, Any]:
        return {"statusCode": 201}

    with pytest.raises(ConfigurationError, match="jobs= has the async def handler of 'POST /repor"):
        Topics({}, jobs=Jobs(create_report))
