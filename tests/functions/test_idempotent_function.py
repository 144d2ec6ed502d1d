"""Functions that take effect once for each key: exceptions, deadlines, options."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import timedelta
from typing import Any

import pytest

from oncekey import (
    CallNotAnswered,
    ConfigurationError,
    InProgress,
    KeyMissing,
    KeyReused,
    NotExecuted,
    OutcomeUnknown,
    StoreUnavailable,
    current_operation,
    idempotent_function,
    single_tenant,
)
from oncekey.errors import StoreError
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.events import load
from tests.support.function_calls import Calls
from tests.support.protected import Context, Protected


def test_another_key_is_another_call() -> None:
    """Two keys, two runs, each with an id of its own."""
    calls = Calls()
    calls.call({"id": "a"})
    calls.call({"id": "b"})

    assert len({run.operation_id for run in calls.runs}) == 2


@pytest.mark.case(32)
@pytest.mark.parametrize("record", [{}, {"id": None}, {"id": ""}, {"id": "  "}, {"id": [None]}])
def test_a_call_without_a_key_does_not_run(record: dict[str, Any]) -> None:
    """A missing, blank or all-null key raises `KeyMissing`; nothing runs, nothing is written.

    Red when such calls share a record.
    """
    calls = Calls()

    with pytest.raises(KeyMissing):
        calls.call(record)

    assert calls.runs == []
    assert calls.store.records == {}


def test_a_call_without_a_tenant_does_not_run() -> None:
    """A tenant source that names nobody raises; nothing is written."""
    calls = Calls(tenant=lambda record: record.get("tenant"))

    with pytest.raises(KeyMissing, match="does not say whose key"):
        calls.call({"id": "a"})
    calls.call({"id": "a", "tenant": "acme"})
    calls.call({"id": "a", "tenant": "globex"})

    assert [run.tenant for run in calls.runs] == ["acme", "globex"]


@pytest.mark.parametrize("option", ["key", "tenant"])
def test_a_search_that_finds_nothing_is_no_key(option: str) -> None:
    """`next(...)` raises StopIteration where no argument fits, as a lookup raises LookupError.

    Red when the caller gets `coroutine raised StopIteration`, and not what is missing.
    """
    options: dict[str, Any] = {"key": "@", "tenant": single_tenant()}
    options[option] = lambda order: next(each for each in order if each == "wanted")
    function = idempotent_function(operation="search", store=MemoryStore(), **options)(len)

    with pytest.raises(KeyMissing):
        function(["other"])


def test_a_tenant_that_is_a_number_is_told_so() -> None:
    """A tenant is named by text; the message says which type was found, and never its value."""
    calls = Calls(tenant=lambda record: record["tenant"])

    with pytest.raises(KeyMissing, match=r"a value of the type int: give its text") as refused:
        calls.call({"id": "a", "tenant": 4711})
    assert "4711" not in str(refused.value)
    assert calls.runs == []


def test_a_repeat_while_the_first_runs_raises() -> None:
    """A call in flight: `InProgress`, with the operation and when to come back."""
    calls = Calls()
    raised: list[CallNotAnswered] = []

    def repeat(record: Any) -> None:
        calls.then = None
        with pytest.raises(InProgress) as error:
            calls.call(record)
        raised.append(error.value)

    calls.then = repeat
    calls.call({"id": "a"})

    (error,) = raised
    assert error.operation == "charge"
    assert error.operation_id == calls.runs[0].operation_id
    assert error.retryable
    assert error.retry_after_s is not None
    assert 1 <= error.retry_after_s <= 5


def test_other_arguments_under_a_key_raise_where_they_are_said_to_count() -> None:
    """With `fingerprint` another call under the key is `KeyReused`; without it is the same call."""
    strict = Calls(fingerprint=lambda record: record["amount"])
    loose = Calls()
    for calls in (strict, loose):
        calls.call({"id": "a", "amount": 1})

    with pytest.raises(KeyReused) as error:
        strict.call({"id": "a", "amount": 2})
    loose.call({"id": "a", "amount": 2})

    assert not error.value.retryable
    assert len(strict.runs) == len(loose.runs) == 1


def test_an_exception_leaves_the_outcome_unknown() -> None:
    """What raised is raised; a repeat is `OutcomeUnknown`, and nothing runs twice."""
    calls = Calls()

    def fails(_record: Any) -> None:
        raise LookupError("no such row")

    calls.then = fails
    with pytest.raises(LookupError, match="no such row"):
        calls.call({"id": "a"})
    with pytest.raises(OutcomeUnknown):
        calls.call({"id": "a"})

    assert len(calls.runs) == 1


def test_what_is_proven_not_executed_is_raised_and_runs_again() -> None:
    """`NotExecuted`, or an error that the rule accepts, is raised as it is and frees the key."""
    calls = Calls(not_executed=ConnectionRefusedError)
    for error in (NotExecuted("refused"), ConnectionRefusedError("refused")):
        failure: Exception = error

        def fails(_record: Any, failure: Exception = failure) -> None:
            raise failure

        calls.then = fails
        with pytest.raises(type(error), match="refused"):
            calls.call({"id": "a"})
    calls.then, calls.result = None, "done"

    assert calls.call({"id": "a"}) == "done"
    assert [run.attempt for run in calls.runs] == [1, 2, 3]


def test_a_store_that_is_down_raises_before_anything_runs() -> None:
    """Store down: `StoreUnavailable`; the function does not run."""

    class Down(MemoryStore):
        def write(self, transition: Any) -> Any:
            raise StoreError("down", transient=True)

    calls = Calls(store=Down())

    with pytest.raises(StoreUnavailable) as error:
        calls.call({"id": "a"})

    assert error.value.retryable
    assert calls.runs == []


def test_waiting_calls_get_the_first_result() -> None:
    """With `in_progress="wait"` a repeat waits for at most `wait_up_to`."""
    calls = Calls(in_progress="wait", wait_up_to=timedelta(seconds=2))

    def repeat(record: Any) -> str:
        calls.then = None
        began_ms = calls.clock.now_ms()
        with pytest.raises(InProgress):
            calls.call(record)
        assert calls.clock.now_ms() - began_ms == 2_000
        return "first"

    calls.then = repeat

    assert calls.call({"id": "a"}) == "first"


@pytest.mark.case(15)
def test_the_lease_is_that_of_the_context_among_the_arguments() -> None:
    """A Lambda context passed to the function bounds the lease; without one the default does.

    Red when a batch function that registered no context is locked for the whole retention.
    """
    clock, store = ManualClock(), MemoryStore()
    leases: list[int] = []

    @idempotent_function(
        operation="with context",
        key="event.id",
        tenant=single_tenant(),
        store=store,
        clock=clock,
    )
    def function(event: dict[str, str], context: object) -> None:
        leases.extend(record.lease_until_ms or 0 for record in store.records.values())
        store.records.clear()

    function({"id": "a"}, Context(clock, clock.now_ms() + 3_000))
    function({"id": "b"}, None)

    now_ms = clock.now_ms()
    assert leases == [now_ms + 3_000 + 5_000, now_ms + 60_000 + 5_000]
    with pytest.raises(NotExecuted, match="no time was left"):
        function({"id": "c"}, Context(clock, clock.now_ms()))


def test_a_call_below_a_protected_handler_has_its_deadline_and_an_operation_of_its_own() -> None:
    """Inside a handler the function's lease is that of the handler's invocation; each has its own
    operation, and the handler's is current again afterwards.
    """
    service = Protected(timeout_ms=7_000)
    calls = Calls()
    calls.clock = service.clock
    seen: list[Any] = []

    @idempotent_function(
        operation="inner",
        key="id",
        tenant=single_tenant(),
        store=calls.store,
        clock=service.clock,
    )
    def inner(record: dict[str, str]) -> str:
        seen.append((record["id"], current_operation(), calls.only().lease_until_ms))
        return "inner"

    def handler(_event: object, op: Any) -> dict[str, Any]:
        inner({"id": "a"})
        assert current_operation() is op
        return {"statusCode": 200, "body": json.dumps(op.operation_id)}

    service.then = handler
    answer = service.send(load("apigw_http_v2_post"))

    ((key, operation, lease_until_ms),) = seen
    assert (key, operation.name) == ("a", "inner")
    assert json.loads(answer["body"]) != operation.operation_id
    assert lease_until_ms == service.clock.now_ms() + 7_000 + 5_000


def test_a_method_is_keyed_without_its_instance() -> None:
    """`self` is no argument that callers give."""
    runs = []

    class Worker:
        @idempotent_function(
            operation="method", key="id", tenant=single_tenant(), store=MemoryStore()
        )
        def work(self, record: dict[str, str]) -> str:
            runs.append(self)
            return record["id"]

    assert Worker().work({"id": "a"}) == Worker().work({"id": "a"}) == "a"
    assert len(runs) == 1


def test_a_wrong_option_is_refused_when_the_function_is_decorated() -> None:
    """All faults at once; a generator and a key that fits no parameter too."""
    with pytest.raises(ConfigurationError) as refused:
        idempotent_function(
            operation="",
            key="id",
            tenant=None,  # type: ignore[arg-type]
            effects="none",
            in_progress="accepted",
            wait_up_to=timedelta(seconds=5),
            fingerprint="id",  # type: ignore[arg-type]
        )
    assert len(refused.value.faults) == 6

    decorator = idempotent_function(operation="x", key="other", tenant=single_tenant())
    with pytest.raises(ConfigurationError, match="other"):
        decorator(lambda record, context: None)

    def generator(record: dict[str, str]) -> Any:
        yield record

    with pytest.raises(ConfigurationError, match="a generator has no result"):
        decorator(generator)


def test_switched_off_it_runs_bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ONCEKEY_DISABLED=1 the function runs each time, with an operation of its own."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    calls = Calls()
    calls.call({"id": "a"})
    calls.call({"id": "a"})

    assert [run.protected for run in calls.runs] == [False, False]
    assert calls.store.records == {}


class ThreadNotingStore(MemoryStore):
    """A store that notes in which thread it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def write(self, transition: Any) -> Any:
        """Note the thread."""
        self.threads.add(threading.get_ident())
        return super().write(transition)


def test_an_async_function_is_awaited_and_the_event_loop_stays_free() -> None:
    """A coroutine function runs once, and no call of the store is made on the loop's own thread."""
    store = ThreadNotingStore()
    runs = []

    @idempotent_function(operation="async", key="id", tenant=single_tenant(), store=store)
    async def function(record: dict[str, str]) -> tuple[str]:
        await asyncio.sleep(0)
        runs.append(current_operation().name)
        return (record["id"],)

    async def twice() -> list[tuple[str]]:
        return [await function({"id": "a"}), await function({"id": "a"})]

    assert asyncio.run(twice()) == [("a",), ("a",)]
    assert runs == ["async"]
    assert threading.get_ident() not in store.threads
