"""Protected functions in AWS's durable executions, run by its own SDK."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.config import Duration, StepConfig
from aws_durable_execution_sdk_python.exceptions import TimedSuspendExecution
from aws_durable_execution_sdk_python.retries import RetryStrategyConfig, create_retry_strategy

from oncekey import (
    ConfigurationError,
    InProgress,
    Operation,
    current_operation,
    idempotent,
    idempotent_function,
    single_tenant,
)
from oncekey.record.record import Status
from oncekey.settings import LEASE_MARGIN_MS, Settings
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.durable import Execution, Invoked
from tests.support.events import load
from tests.support.reconciled import Escalations, counts, reconciles

if TYPE_CHECKING:
    from collections.abc import Callable

AGAIN = StepConfig(
    retry_strategy=create_retry_strategy(
        RetryStrategyConfig(max_attempts=9, retryable_error_types=[InProgress])
    )
)


@dataclass
class World:
    """A store, a clock, and what was charged."""

    clock: ManualClock = field(default_factory=ManualClock)
    store: MemoryStore = field(default_factory=MemoryStore)
    charges: list[str] = field(default_factory=list)

    def protect(
        self, effects: str, **more: Any
    ) -> Callable[[Callable[..., object]], Callable[..., Any]]:
        """Our decorator for a function whose first argument is the order."""
        return idempotent_function(
            operation="charge",
            key=lambda order, *_: order["id"],
            tenant=single_tenant(),
            effects=effects,
            store=self.store,
            clock=self.clock,
            **more,
        )

    def context(self) -> Any:
        """The Lambda context of an invocation that begins now."""
        return Invoked(self.clock, self.clock.now_ms() + 10_000)

    @property
    def record(self) -> Any:
        """The only record."""
        (record,) = self.store.records.values()
        return record


def test_a_step_whose_checkpoint_was_lost_does_not_charge_again() -> None:
    """The function has completed its record when the process dies before the SDK's checkpoint; the
    next invocation runs the step again, and gets the first result.
    """
    world, execution = World(), Execution('{"id": "o-1"}')

    @world.protect("recorded")
    def charge(order: dict[str, str], context: Any, op: Operation) -> str:
        op.step("charge", lambda: world.charges.append(order["id"]))
        return op.operation_id

    dies = [True]

    @durable_execution
    def handler(order: Any, context: Any) -> Any:
        def step(_: Any) -> Any:
            result = charge(order, context.lambda_context)
            if dies and dies.pop():
                raise SystemExit
            return result

        return context.step(step, name="charge")

    with pytest.raises(SystemExit):
        execution.invoke(handler, world.context())
    output = execution.invoke(handler, world.context())

    assert output["Status"] == "SUCCEEDED"
    assert output["Result"] == f'"{world.record.operation_id}"'
    assert world.charges == ["o-1"]


def test_a_step_that_meets_its_own_running_record_waits_for_the_lease() -> None:
    """A retry of the same execution cannot know that its first attempt is dead: it gets
    `InProgress`, suspends, and takes over when the lease is over.

    Red when the execution may take its own record over at once.
    """
    world, execution = World(), Execution('{"id": "o-1"}')
    world.store.write = _killed_after(world.store.write)  # type: ignore[method-assign]

    @world.protect("repeatable")
    def charge(order: dict[str, str], context: Any) -> int:
        world.charges.append(order["id"])
        return current_operation().attempt

    @durable_execution
    def handler(order: Any, context: Any) -> Any:
        return context.step(lambda _: charge(order, context.lambda_context), config=AGAIN)

    with pytest.raises(SystemExit):
        execution.invoke(handler, world.context())
    waiting = execution.invoke(handler, world.context())
    world.clock.advance(10_000 + LEASE_MARGIN_MS + 1)
    execution.let_time_pass()
    output = execution.invoke(handler, world.context())

    assert (waiting["Status"], output["Status"], output["Result"]) == ("PENDING", "SUCCEEDED", "2")
    assert world.charges == ["o-1"]


def _killed_after(write: Any) -> Any:
    """A store whose first write is applied, and all later ones of that process are lost."""
    calls: list[int] = []

    def written(transition: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            write(transition)
        if len(calls) <= 2:
            raise SystemExit
        return write(transition)

    return written


@pytest.mark.parametrize("effects", ["recorded", "repeatable"])
def test_a_suspension_is_no_failure(effects: str) -> None:
    """A function that waits within its child context ends its attempt, and the next invocation goes
    on: recorded steps do not run again, and the SDK's wait is not repeated.
    """
    world, execution = World(), Execution('{"id": "o-1"}')

    @world.protect(effects)
    def charge(order: dict[str, str], context: Any) -> int:
        op = current_operation()

        def work() -> None:
            world.charges.append(order["id"])

        if effects == "recorded":
            op.step("charge", work)
        else:
            work()
        context.wait(Duration.from_days(1))
        return op.attempt

    @durable_execution
    def handler(order: Any, context: Any) -> Any:
        attempts = context.run_in_child_context(lambda child: charge(order, child))
        return [attempts, context.step(lambda _: "after")]

    suspended = execution.invoke(handler, world.context())
    between = world.record.status
    execution.let_time_pass()
    output = execution.invoke(handler, world.context())
    replay = Execution('{"id": "o-1"}').invoke(handler, world.context())

    assert (suspended["Status"], between) == ("PENDING", Status.FAILED_RETRYABLE)
    assert output["Result"] == replay["Result"] == '[2, "after"]'
    assert world.charges == ["o-1"] * (1 if effects == "recorded" else 2)


@pytest.mark.parametrize("remedy", ["none", "retention", "commit", "step"])
def test_a_wait_longer_than_the_retention_needs_more_retention_or_a_commit(
    remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A suspended attempt without finished steps is forgotten after its retention, with a warning.
    A longer retention, a commit or a step before the wait keeps the operation and its keys.

    Red when a resumed run charges under another key, and nothing has warned of it.
    """
    world, keys = World(), list[str]()
    resumes_at_s = world.clock.now_ms() / 1000 + 2 * 86_400

    @world.protect("recorded", retention=timedelta(days=3 if remedy == "retention" else 1))
    def charge(order: dict[str, str], op: Operation) -> None:
        if remedy == "commit":
            op.commit("begun")
        if remedy == "step":
            op.step("begin", lambda: None)
        keys.append(op.downstream_key("charge"))
        if len(keys) == 1:
            raise TimedSuspendExecution("a wait of two days", resumes_at_s)

    with pytest.raises(TimedSuspendExecution):
        charge({"id": "o-1"})
    world.clock.advance(2 * 86_400_000 + 1)
    charge({"id": "o-1"})

    assert len(set(keys)) == (2 if remedy == "none" else 1)
    assert ("forgotten-while-suspended" in caplog.text) is (remedy == "none")


def test_the_reconciler_leaves_a_suspended_operation_alone_until_its_wait_is_over() -> None:
    """Its step is done, so its record is due once: the grace after the end of the wait. Until then
    no run visits, settles or escalates it. An execution that never resumes is found afterwards.
    """
    world = World()
    resumes_at_s = world.clock.now_ms() / 1000 + 3 * 86_400
    escalations = Escalations()

    @world.protect("recorded")
    def charge(order: dict[str, str], op: Operation) -> int:
        op.step("charge", lambda: world.charges.append(order["id"]))
        if op.attempt == 1 or order["id"] == "lost":
            raise TimedSuspendExecution("a wait of three days", resumes_at_s)
        return op.attempt

    for name in ("o-1", "lost"):
        with pytest.raises(TimedSuspendExecution):
            charge({"id": name})
    before = dict(world.store.records)
    runs = []
    for _ in range(3 * 24):
        runs.append(counts(reconciles(world, waits=False, escalations=escalations)))
        world.clock.advance(3_600_000)
    assert not any(runs)
    assert world.store.records == before
    assert charge({"id": "o-1"}) == 2

    found = [reconciles(world, escalations=escalations).visited for _ in range(11)]

    assert found == [1] * 11
    assert [each["status"] for each in escalations.bodies] == ["FAILED_RETRYABLE"]
    assert world.charges == ["o-1", "lost"]


class Planned(Exception):
    """An error of an author's that tells a time, such as one that its client has asked for."""

    def __init__(self, at_s: float) -> None:
        super().__init__()
        self.scheduled_timestamp = at_s


@pytest.mark.parametrize("error", [Planned, partial(TimedSuspendExecution, "a wait")])
def test_no_other_time_keeps_the_reconciler_away(error: Callable[[float], BaseException]) -> None:
    """A half-done operation is due after the grace if its error is no suspension, or tells a time
    that no durable execution can wait for.
    """
    world = World()

    @world.protect("recorded")
    def charge(order: dict[str, str], op: Operation) -> None:
        op.step("charge", lambda: world.charges.append(order["id"]))
        raise error(world.clock.now_ms() / 1000 + 70 * 365 * 86_400)

    with pytest.raises((Planned, TimedSuspendExecution)):
        charge({"id": "o-1"})

    assert world.record.due.at_ms == world.clock.now_ms() + Settings().reconcile_grace_ms


def test_unrecorded_work_may_not_be_suspended() -> None:
    """Neither a freed key nor an unknown outcome would be right, so nothing is reserved, and the
    message says what to do.
    """
    world, execution = World(), Execution('{"id": "o-1"}')

    @world.protect("unrecorded")
    def charge(order: dict[str, str], context: Any) -> None:
        world.charges.append(order["id"])
        context.wait(Duration.from_days(1))

    @durable_execution
    def handler(order: Any, context: Any) -> None:
        with pytest.raises(ConfigurationError, match=r"context\.step"):
            charge(order, context)

    execution.invoke(handler, world.context())

    assert (world.charges, world.store.records) == ([], {})


def test_an_unrecorded_http_handler_may_not_be_suspended() -> None:
    """The context of an HTTP handler may be a durable one, too: recorded effects are accepted, the
    default is refused.
    """
    world = World()
    event = json.dumps(load("apigw_http_v2_post"))
    options: Any = {"operation": "POST /payments", "tenant": single_tenant()}

    def handler(event: Any, context: Any) -> dict[str, Any]:
        world.charges.append("o-1")
        context.wait(Duration.from_days(1))
        return {"statusCode": 201}

    def output(execution: Execution, **more: Any) -> Any:
        protected = idempotent(store=world.store, clock=world.clock, **options, **more)(handler)
        return execution.invoke(durable_execution(protected), world.context())

    refused = output(Execution(event))
    execution = Execution(event)
    suspended = output(execution, effects="repeatable")
    execution.let_time_pass()
    done = output(execution, effects="repeatable")

    assert (refused["Status"], suspended["Status"], done["Status"]) == (
        *("FAILED", "PENDING", "SUCCEEDED"),
    )
    assert "context.step" in refused["Error"]["ErrorMessage"]
    assert json.loads(done["Result"])["statusCode"] == 201
    assert world.charges == ["o-1"] * 2


def test_the_lease_is_that_of_the_lambda_context_in_the_durable_one() -> None:
    """A durable context among the arguments gives the deadline of its invocation."""
    world, execution = World(), Execution('{"id": "o-1"}')
    leases: list[int] = []

    @world.protect("repeatable")
    def charge(order: dict[str, str], context: Any) -> None:
        leases.append(world.record.lease_until_ms)

    handler = durable_execution(charge)
    execution.invoke(handler, world.context())

    assert leases == [world.clock.now_ms() + 10_000 + LEASE_MARGIN_MS]
