"""The journal of one attempt at a recorded operation: what it has begun, finished and committed.

Its methods are flows; `oncekey.recorded_work` carries them out for the operation object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from oncekey import retry
from oncekey.commands import Raised
from oncekey.commit import Commit, ConditionsFailed, Inapplicable, claimed, error_of, token
from oncekey.effect_use import Use
from oncekey.errors import StoreError
from oncekey.fate import is_proof
from oncekey.recorded_errors import EffectMisused, RunStopped
from oncekey.retry import Budget
from oncekey.run_order import RunOrder
from oncekey.step_results import Found, found, kept
from oncekey.step_transitions import ClearStep, FinishStep, StartStep, StepTransition
from oncekey.steps import FinishedStep, StartedStep
from oncekey.stop import Stop, StopReason
from oncekey.store import Refused
from oncekey.stored_answer import AnswerDamaged, has_room_for_step
from oncekey.transaction import Collected
from oncekey.transition_rules import applied, has_landed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

    from oncekey.clock import Clock
    from oncekey.commands import Flow
    from oncekey.record import Record
    from oncekey.store import Written

# Before a step has run the caller loses nothing by an early refusal: it sends the request again.
_MOST_START_FAILURES = 3


@dataclass(slots=True, kw_only=True)
class Journal:
    """One attempt, from its lease to its end.

    `record` is what is known to be stored. `stopped` is set once the attempt must not go on,
    `is_in_doubt` once a step may have happened and nobody can say.
    """

    record: Record
    clock: Clock
    until_ms: int
    call_timeout_ms: int
    has_bucket: bool
    is_not_executed: Callable[[BaseException], bool] = field(repr=False)
    collected: Collected = field(default_factory=Collected)
    use: Use = field(default_factory=Use)
    order: RunOrder = field(default_factory=RunOrder)
    stopped: Stop | None = None
    is_in_doubt: bool = False
    # False once a checkpoint or commit was not confirmed: it may be on record all the same.
    is_certain: bool = True
    # Whether the function of any step has been let run by this attempt.
    has_called: bool = False
    commits_passed: int = 0
    _commits_built: Iterator[int] = field(default_factory=count)
    _marks: Iterator[int] = field(default_factory=lambda: count(1))

    def begin(self, name: str, *, is_idempotent: bool) -> Flow[Found | None]:
        """Begin a step: what is on record of it if it has finished, else None, and it may run.

        Unless it is idempotent, it is then marked as started, durably.

        Raises:
            RunStopped: this attempt must not go on; the step must not run.
            EffectMisused: the step is named twice, or the record has no room for it.
        """
        step = self._reached(name, is_commit=False)
        if step is not None:
            try:
                return (yield from found(step, self.budget(), self.clock))
            except StoreError as error:
                self._stop(Stop(StopReason.STORE, error=error))
            except AnswerDamaged as damage:
                self._stop(Stop(StopReason.RESULT_LOST, why=f"step {name!r}: {damage}"))
        self._check_lease()
        if not is_idempotent:
            mark = StartedStep(
                name=name,
                position=self.order.position_of(name),
                mark=next(self._marks),
                at_ms=self.clock.now_ms(),
            )
            start = StartStep(pk=self.record.pk, owner=self.record.owner, step=mark)
            yield from self._write(start, self.budget(_MOST_START_FAILURES))
            # The process may have been frozen meanwhile. Nothing was called: the mark is cleared.
            self._check_lease()
        self.has_called = True
        return None

    def finish(self, name: str, text: str | None, *, is_final: bool = False) -> Flow[None]:
        """Record the result of a step that has run; None where it has no stored form.

        Raises:
            RunStopped: it could not be confirmed, or this attempt has lost its record.
        """
        started = self.record.steps.started
        position, now_ms = self.order.position_of(name), self.clock.now_ms()
        try:
            result = yield from kept(
                text, name, self.record, self.budget(), self.clock, has_bucket=self.has_bucket
            )
        except StoreError as error:
            self.is_in_doubt = started is not None
            self._stop(Stop(StopReason.STORE, error=error))
        step = FinishedStep(
            name=name, position=position, at_ms=now_ms, result=result, is_final=is_final
        )
        yield from self._write(self._finishing(step), self.budget())
        self.order.finish(name)

    def fail(self, name: str, error: BaseException) -> Flow[None]:
        """Record what `error`, raised inside the step, says of it.

        What is proven not to have been executed is as if it had never begun. Anything else leaves a
        started step in doubt. An idempotent step has no mark, and may simply run again.
        """
        started = self.record.steps.started
        if started is None or started.name != name:
            return
        if is_proof(Raised(error), self.is_not_executed):
            clear = ClearStep(pk=self.record.pk, owner=self.record.owner, mark=started.mark)
            yield from self._write(clear, self.budget())
        else:
            self.is_in_doubt = True

    def commit(self, name: str) -> Flow[None]:
        """Apply what is collected, together with the recovery point `name`; once.

        Raises:
            ConditionFailed: a condition of the author's did not hold; the run may go on.
            TransactionInvalid: DynamoDB refuses what was collected; the run may go on.
            RunStopped: it could not be confirmed, or this attempt has lost its record.
        """
        if self._reached(name, is_commit=True) is None:
            self._check_lease()
            point = FinishedStep(
                name=name, position=self.order.position_of(name), at_ms=self.clock.now_ms()
            )
            yield from self._apply(self._finishing(point))
            self.order.finish(name)
        self.collected.take()
        self.commits_passed += 1

    def interrupt(self) -> None:
        """Something came in between the attempt and its store: nobody knows how far it got."""
        self.is_certain = False
        self.is_in_doubt = self.record.steps.started is not None
        if self.stopped is None:
            self.stopped = Stop(StopReason.STORE, why="interrupted")

    def close(self) -> None:
        """The handler has ended: nothing more is asked for, and nothing is left under way."""
        if self.use.open_step is not None and self.stopped is None:
            self.interrupt()
        self.use.is_over = True

    def budget(self, max_failures: int | None = None) -> Budget:
        """How long calls of this attempt may be tried."""
        return Budget(
            until_ms=self.until_ms, call_timeout_ms=self.call_timeout_ms, max_failures=max_failures
        )

    def next_token(self) -> str:
        """The token of the attempt's next commit."""
        return token(self.record.operation_id, self.record.owner, next(self._commits_built))

    def stop_for_changed_steps(self, why: str) -> None:
        """The attempt ends, because the code does not fit what is on record."""
        self.stopped = Stop(StopReason.STEPS_CHANGED, why=why)

    def _reached(self, name: str, *, is_commit: bool) -> FinishedStep | None:
        if self.stopped is not None:
            raise RunStopped(str(self.stopped))
        if self.is_in_doubt:
            raise RunStopped("a step may have happened, and nobody can say; nothing else begins")
        fault = self.order.reach(name, self.record.steps, is_commit=is_commit)
        if fault is not None:
            self.stop_for_changed_steps(fault)
            raise RunStopped(fault)
        step = self.record.steps.named(name)
        if step is None and not has_room_for_step(self.record):
            raise EffectMisused(f"{name!r}: the record is full of steps; make several operations")
        return step

    def _check_lease(self) -> None:
        if self.record.is_lease_over(self.clock.now_ms()):
            self._stop(Stop(StopReason.NO_TIME))

    def _finishing(self, step: FinishedStep) -> FinishStep:
        started = self.record.steps.started
        mark = started.mark if started is not None else None
        return FinishStep(pk=self.record.pk, owner=self.record.owner, step=step, mark=mark)

    def _apply(self, transition: FinishStep) -> Flow[None]:
        taken = self.collected.take()
        if not taken:
            yield from self._write(transition, self.budget())
            return
        whole = Commit(
            transition=transition,
            token=self.next_token(),
            writes=tuple(taken.writes),
            messages=tuple(taken.messages),
        )
        try:
            for blob in claimed(taken):
                yield from retry.keep(blob, self.budget(), self.clock)
            reply = yield from retry.commit(
                whole, self.budget(), self.clock, lambda met: has_landed(transition, met)
            )
        except StoreError as error:
            self.is_certain = False
            self._stop(Stop(StopReason.STORE, error=error))
        if isinstance(reply, ConditionsFailed | Inapplicable):
            raise error_of(whole, reply)
        self._follow(transition, reply)

    def _write(self, transition: StepTransition, budget: Budget) -> Flow[None]:
        try:
            reply = yield from retry.write(transition, budget, self.clock)
        except StoreError as error:
            self.is_certain = False
            # What has not begun is not in doubt; whether its mark has landed, the store says.
            self.is_in_doubt = isinstance(transition, FinishStep) and transition.mark is not None
            self._stop(Stop(StopReason.STORE, error=error))
        self._follow(transition, reply)

    def _follow(self, transition: StepTransition, reply: Written | Refused) -> None:
        if not isinstance(reply, Refused):
            self.record = applied(transition, self.record)
        elif reply.record is not None and has_landed(transition, reply.record):
            self.record = reply.record
        else:
            self._stop(Stop(StopReason.LOST, met=reply.record))

    def _stop(self, stop: Stop) -> NoReturn:
        self.stopped = stop
        raise RunStopped(str(stop))
