"""A recorded handler: a coroutine on the real operation object, that stops at each command."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey.effects.binding import bind_effects
from oncekey.errors import Final, NotExecuted, RunStopped, StoreError
from oncekey.flow.commands import Answered, Invoke, Raised
from tests.simulation.history import Affected, Answer
from tests.simulation.provider import Call, large
from tests.simulation.scenario import Plan, Step, Work
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.effects.operation import Operation
    from oncekey.flow.commands import Flow, Result
    from oncekey.record.outcome import Outcome
    from oncekey.store.store import Store

# A table whose writes meet a condition that does not hold.
TAKEN = "taken"
_TABLE = "payments"
_NEVER_EXECUTED = frozenset({Plan.NOT_EXECUTED, Plan.DECLINED, Plan.AGAIN})


@dataclass(frozen=True, slots=True)
class Entered:
    """The handler tells that the function of a step was called. Nobody is waited for."""

    operation_id: str
    attempt: int
    step: Step


@dataclass(frozen=True, slots=True)
class Ended:
    """The handler tells that it has ended. Nobody is waited for."""


Telling = Entered | Ended
Steps = Generator[Any, Any, Any]


def with_handler(
    engine: Flow[Outcome], begin: Callable[[Invoke], RecordedHandler]
) -> Generator[Any, Any, Outcome]:
    """The engine's flow and that of the handler inside it, as one."""
    try:
        command: Any = engine.send(None)
        while True:
            try:
                reply = yield command
                if isinstance(command, Invoke):
                    reply = yield from begin(command).run()
            except StoreError as error:
                command = engine.throw(error)
            else:
                command = engine.send(reply)
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome


class RecordedHandler:
    """One run of the handler."""

    def __init__(
        self, invoke: Invoke, store: Store, clock: Clock, *, by: str, plan: Plan, work: Work
    ) -> None:
        assert invoke.journal is not None
        operation = bind_effects(invoke.operation, invoke.journal, lambda: store, clock)
        assert operation._work is not None
        carried = replace(operation._work, drive_async=self._carried)
        self._op: Operation = replace(operation, _work=carried)
        self._by = by
        self._plan = plan
        self._work = work
        self._is_dead = False

    def run(self) -> Generator[Any, Any, Result]:
        """Run to the end, stopping at each command; then tell that it has ended."""
        try:
            result = yield from self._handle().__await__()
        except (Exception, RunStopped) as error:  # noqa: BLE001 -- as the library's own invocation does
            result = self.result_of(error)
        yield Ended()
        return result

    def result_of(self, error: BaseException) -> Result:
        """What an exception comes to, of the handler or of its commit."""
        if not isinstance(error, Final):
            if isinstance(error, RunStopped) and self._plan is Plan.STUBBORN:
                return self._answered(201)
            return Raised(error)
        effects = (str(error.body),) if error.body is not None else ()
        return replace(self._answered(error.status, effects), commits=error.commit)

    async def _handle(self) -> Result:
        if self._work.commits:
            self._collect("created")
            await self._op.commit_async("created")
        effects: list[str] = []
        for step in self._work.steps:
            plan = self._plan if step is self._work.steps[-1] else Plan.SUCCEED
            try:
                effects.append(await self._step(step, plan))
            except NotExecuted:
                if plan is Plan.DECLINED:
                    return self._answered(402)
                if plan is not Plan.AGAIN:
                    raise
                effects.append(await self._step(step, Plan.SUCCEED))
            except (RuntimeError, TimeoutError):
                if plan is not Plan.CAUGHT:
                    raise
        if self._plan is Plan.FAIL_AT_LAST:
            raise RuntimeError("the handler failed")
        if self._plan is Plan.UNAVAILABLE:
            return self._answered(503)
        self._collect("final")
        if self._plan is Plan.FINAL:
            raise Final(422)
        if self._plan is Plan.FINAL_COMMIT:
            raise Final(200, commit=True)
        return self._answered(201, tuple(effects))

    async def _step(self, step: Step, plan: Plan) -> str:
        async def function() -> str:
            await _Carried(self, self._telling(step))
            if plan is Plan.FAIL_BEFORE:
                raise RuntimeError("the step failed")
            if plan in _NEVER_EXECUTED:
                raise NotExecuted
            result: str = await _Carried(self, self._call(step, plan))
            if plan is Plan.FINAL_IN_STEP:
                raise Final(402, result)
            if plan in {Plan.FAIL_AFTER, Plan.CAUGHT, Plan.TIME_OUT}:
                raise RuntimeError("the step failed")
            return result

        return await self._op.step_async(step.name, function, idempotent=step.is_idempotent)

    def _collect(self, point: str) -> None:
        conflicts = self._plan is Plan.CONFLICT and point == "final"
        self._op.transaction.put(
            TAKEN if conflicts else _TABLE,
            {"id": self._item(point)},
            otherwise=Final(409) if conflicts else None,
        )
        self._op.outbox.publish(point, self._op.operation_id)

    def _item(self, point: str) -> str:
        return f"{self._op.operation_id}/{point}"

    def _answered(self, status: int, effects: tuple[str, ...] = ()) -> Answered[Answer]:
        points = ["created"] * self._work.commits + ["final"] * (status < 300)
        answer = Answer(
            operation_id=self._op.operation_id,
            attempt=self._op.attempt,
            by=self._by,
            is_final=status < 500,
            status=status,
            effects=effects,
            writes=tuple(map(self._item, points)),
        )
        return Answered(
            value=answer,
            stored=answer.stored,
            is_final=answer.is_final,
            commits=answer.is_final,
        )

    def _telling(self, step: Step) -> Steps:
        yield Entered(self._op.operation_id, self._op.attempt, step)

    def _call(self, step: Step, plan: Plan) -> Steps:
        key = self._op.downstream_key(step.name)
        result = f"{step.name} by {self._by}"
        effect = Affected(
            at_ms=0,
            actor=self._by,
            operation_id=self._op.operation_id,
            attempt=self._op.attempt,
            step=step.name,
            key=key if step.is_idempotent else "",
            result=large(result) if self._work.has_large_results else result,
        )
        return (yield Call(effect, is_awaited=plan is not Plan.TIME_OUT))

    def _carried(self, flow: Flow[Any]) -> _Carried:
        return _Carried(self, flow.__await__())


@dataclass(frozen=True, slots=True)
class _Carried:
    """A flow to be awaited, whose commands go to whoever runs the coroutine."""

    handler: RecordedHandler
    flow: Steps

    def __await__(self) -> Steps:
        # Whoever is dead does nothing more: a coroutine that is closed would go on to record that.
        if self.handler._is_dead:
            raise GeneratorExit
        try:
            return (yield from self.flow)
        except GeneratorExit:
            self.handler._is_dead = True
            raise
