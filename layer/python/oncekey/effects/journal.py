"""The journal of one attempt of a recorded operation: its begun and finished steps and commits.

Its methods are flows, which `oncekey.effects.recorded_work` runs for the operation object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from oncekey.effects.disposition import is_proof, never_spent
from oncekey.effects.raised import is_exit
from oncekey.effects.run_order import RunOrder
from oncekey.effects.step_results import Found, found, kept
from oncekey.effects.stop import Stop, StopReason
from oncekey.effects.transaction import Collected
from oncekey.effects.usage_guard import UsageGuard
from oncekey.errors import EffectMisused, RunStopped, StoreError
from oncekey.flow import retry
from oncekey.flow.commands import Raised
from oncekey.flow.retry import Budget
from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable, claimed, error_of, token
from oncekey.record.rules import applied, has_landed
from oncekey.record.steps import FinishedStep, StartedStep
from oncekey.record.stored_answer import AnswerDamaged, has_room_for_step
from oncekey.record.transitions import ClearStep, FinishStep, StartStep, StepTransition
from oncekey.store.store import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

    from oncekey.clock import Clock
    from oncekey.record.record import Record
    from oncekey.store.store import Written

# Before a step has run, an early refusal costs the caller only a retry.
_MOST_START_FAILURES = 3


@dataclass(slots=True, kw_only=True)
class Journal:
    """One attempt, from its lease to its end.

    `record` is the record as it is known to be stored. `stopped` is set when the attempt must not
    continue.

    An exception can occur at any point: a signal handler can raise anywhere, and a cancelled task
    raises where it waits. So doubt is the default, and only confirmed writes end it. `is_in_doubt`
    is true from before a marked step may run until its end is confirmed. `is_certain` is false from
    before a write is sent until its answer has been handled.
    """

    record: Record
    clock: Clock
    until_ms: int
    call_timeout_ms: int
    has_bucket: bool
    is_not_executed: Callable[[BaseException], bool] = field(repr=False)
    is_spent: Callable[[BaseException], bool] = field(default=never_spent, repr=False)
    collected: Collected = field(default_factory=Collected)
    use: UsageGuard = field(default_factory=UsageGuard)
    order: RunOrder = field(default_factory=RunOrder)
    stopped: Stop | None = None
    # A marked step may have run, and its end is not on record.
    is_in_doubt: bool = False
    # False while a checkpoint or commit is not confirmed. It may already be on record.
    is_certain: bool = True
    # How many calls of step functions were permitted and not proven to have done nothing.
    unproven_calls: int = 0
    # The step that this attempt has done and whose result cannot be stored.
    result_lost_of: str | None = None
    commits_passed: int = 0
    # Idempotent steps that were ended by an exit or a cancellation, and have not finished since.
    _cut_off: set[str] = field(default_factory=set)
    # Whether the function of the current step may be called.
    _is_let_run: bool = False
    _commits_built: Iterator[int] = field(default_factory=count)
    _marks: Iterator[int] = field(default_factory=lambda: count(1))

    async def begin(self, name: str, *, is_idempotent: bool) -> Found | None:
        """Begin a step. Returns its result if it has finished before, or None if it may run.

        A step that may run and is not idempotent is then durably marked as started.

        Raises:
            RunStopped: this attempt must not continue, and the step must not run.
            EffectMisused: the name is used twice, or the record has no room for the step.
        """
        step = self._reached(name, is_commit=False)
        if step is not None:
            try:
                return await found(step, self.budget(), self.clock)
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
            await self._write(start, self.budget(_MOST_START_FAILURES))
            # The process may have been frozen meanwhile. If the lease is over, nothing was called,
            # and the mark is cleared.
            self._check_lease()
        self._is_let_run = True
        self.unproven_calls += 1
        self.is_in_doubt = not is_idempotent
        if self.use.is_over:
            # The handler ended in another thread, and had checked before this step was in doubt.
            self._never_called()
            self._stop(Stop(StopReason.INTERRUPTED, why="the handler has ended"))
        return None

    async def take_back(self, name: str) -> None:
        """Undo the beginning of a step whose function was not called.

        Raises:
            RunStopped: the write could not be confirmed, or this attempt has lost its record.
        """
        if self.stopped is not None or not self._is_let_run:
            # The step was not begun, or it had finished before, and its result was not returned.
            return
        self._never_called()
        await self._clear(name)
        self.use.untold = None

    async def finish(self, name: str, text: str | None, *, is_final: bool = False) -> None:
        """Record the result of a step that has run. `text` is None if it cannot be stored.

        Raises:
            RunStopped: the write could not be confirmed, or this attempt has lost its record.
        """
        position, now_ms = self.order.position_of(name), self.clock.now_ms()
        if text is None:
            self.result_lost_of = name
        try:
            result = await kept(
                text, name, self.record, self.budget(), self.clock, has_bucket=self.has_bucket
            )
        except StoreError as error:
            self._stop(Stop(StopReason.STORE, error=error))
        step = FinishedStep(
            name=name, position=position, at_ms=now_ms, result=result, is_final=is_final
        )
        await self._write(self._finishing(step), self.budget())
        self.order.finish(name)
        self._cut_off.discard(name)
        self.is_in_doubt = False

    async def fail(self, name: str, error: BaseException) -> None:
        """Record that the function of the step raised `error`.

        If the step is proven not to have been executed, it counts as never begun. Otherwise a
        marked step is in doubt. An idempotent step has no mark and may run again. But after an exit
        or a cancellation, the handler's answer is accepted only if the step finishes later.
        """
        if is_proof(Raised(error), self.is_not_executed, self.is_spent):
            self._never_called()
            await self._clear(name)
        elif not self.is_in_doubt and is_exit(error):
            self._cut_off.add(name)
        self.use.untold = None

    async def commit(self, name: str) -> None:
        """Apply the collected writes and messages once, together with the recovery point `name`.

        Raises:
            ConditionFailed: a condition of the author's did not hold; the run may continue.
            TransactionInvalid: DynamoDB refuses the transaction; the run may continue.
            RunStopped: the write could not be confirmed, or this attempt has lost its record.
        """
        if self._reached(name, is_commit=True) is None:
            self._check_lease()
            point = FinishedStep(
                name=name, position=self.order.position_of(name), at_ms=self.clock.now_ms()
            )
            await self._apply(self._finishing(point))
            self.order.finish(name)
        self.collected.take()
        self.commits_passed += 1

    def close(self) -> None:
        """The handler has ended. From now on, steps and commits are refused.

        If another thread still runs a step, or an exception left a step before the handler got its
        result, the attempt stops. The handler's answer cannot take that step into account.
        """
        self.use.is_over = True
        if self._was_interrupted and self.stopped is None:
            self.stopped = Stop(StopReason.INTERRUPTED, why=self.use.untold or "")

    @property
    def may_have_acted(self) -> bool:
        """Whether a step or commit of this operation may have taken effect.

        It may be one of this attempt, or one on record from an earlier attempt.
        """
        # The order matters: a write that another thread confirms meanwhile is on record by then.
        return not self.is_certain or bool(self.record.steps.finished) or self.unproven_calls > 0

    def budget(self, max_failures: int | None = None) -> Budget:
        """The time and the number of failures that a call of this attempt may use."""
        return Budget(
            until_ms=self.until_ms, call_timeout_ms=self.call_timeout_ms, max_failures=max_failures
        )

    def next_token(self) -> str:
        """The token of the attempt's next commit."""
        return token(self.record.operation_id, self.record.owner, next(self._commits_built))

    def stop_for_changed_steps(self, why: str) -> None:
        """Stop the attempt, because the code does not fit the steps on record."""
        self.stopped = Stop(StopReason.STEPS_CHANGED, why=why)

    def lose_result_of(self, name: str) -> None:
        """Stop the attempt, because the result of a step that it has done cannot be stored."""
        self.stopped = Stop(StopReason.RESULT_LOST, why=f"step {name!r} has no result to keep")

    def _reached(self, name: str, *, is_commit: bool) -> FinishedStep | None:
        if self.stopped is not None:
            raise RunStopped(str(self.stopped))
        if self.use.was_left or not self.is_certain:
            self._stop(Stop(StopReason.INTERRUPTED))
        self._is_let_run = False
        if self.is_in_doubt:
            self.use.untold = None
            raise RunStopped("a step may have happened, and nobody can say; nothing else begins")
        try:
            fault = self.order.reach(name, self.record.steps, is_commit=is_commit)
            step = self.record.steps.named(name)
            if fault is None and step is None:
                self._check_room(name)
        except EffectMisused:
            # The step has not been begun.
            self.use.untold = None
            raise
        if fault is not None:
            self.stop_for_changed_steps(fault)
            raise RunStopped(fault)
        return step

    def _check_room(self, name: str) -> None:
        if not has_room_for_step(self.record):
            raise EffectMisused(f"{name!r}: the record is full of steps; make several operations")

    @property
    def _was_interrupted(self) -> bool:
        return self.use.is_left or not self.is_certain or bool(self._cut_off)

    def _never_called(self) -> None:
        if self._is_let_run:
            self._is_let_run = False
            self.unproven_calls -= 1
        self.is_in_doubt = False

    async def _clear(self, name: str) -> None:
        started = self.record.steps.started
        if started is not None and started.name == name:
            clear = ClearStep(pk=self.record.pk, owner=self.record.owner, step=started)
            await self._write(clear, self.budget())

    def _check_lease(self) -> None:
        if self.record.is_lease_over(self.clock.now_ms()):
            self._stop(Stop(StopReason.NO_TIME))

    def _finishing(self, step: FinishedStep) -> FinishStep:
        started = self.record.steps.started
        is_its_own = (
            started is not None
            and not step.is_commit
            and (started.name, started.position) == (step.name, step.position)
        )
        mark = started.mark if started is not None and is_its_own else None
        return FinishStep(pk=self.record.pk, owner=self.record.owner, step=step, mark=mark)

    async def _apply(self, transition: FinishStep) -> None:
        taken = self.collected.take()
        if not taken:
            await self._write(transition, self.budget())
            return
        whole = Commit(
            transition=transition,
            token=self.next_token(),
            writes=tuple(taken.writes),
            messages=tuple(taken.messages),
        )
        try:
            for blob in claimed(taken.messages):
                await retry.save(blob, self.budget(), self.clock)
            self._about_to_write()
            reply = await retry.commit(
                whole, self.budget(), self.clock, lambda met: has_landed(transition, met)
            )
        except StoreError as error:
            self._stop(Stop(StopReason.STORE, error=error))
        if isinstance(reply, ConditionsFailed | Inapplicable):
            self.is_certain = True
            self.use.untold = None
            raise error_of(whole, reply)
        self._follow(transition, reply)

    async def _write(self, transition: StepTransition, budget: Budget) -> None:
        self._about_to_write()
        try:
            reply = await retry.write(transition, budget, self.clock)
        except StoreError as error:
            self._stop(Stop(StopReason.STORE, error=error))
        self._follow(transition, reply)

    def _about_to_write(self) -> None:
        self.is_certain = False
        if self.use.is_over:
            # The attempt is already ending, based on the state before this write.
            self._stop(Stop(StopReason.INTERRUPTED, why="the handler has ended"))

    def _follow(self, transition: StepTransition, reply: Written | Refused) -> None:
        if not isinstance(reply, Refused):
            self.record = applied(transition, self.record)
        elif reply.record is not None and has_landed(transition, reply.record):
            self.record = reply.record
        else:
            self.is_certain = True
            self._stop(Stop(StopReason.LOST, met=reply.record))
        self.is_certain = True

    def _stop(self, stop: Stop) -> NoReturn:
        if self.stopped is None or not self.use.is_over:
            self.stopped = stop
        raise RunStopped(str(stop))
