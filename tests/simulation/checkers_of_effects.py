"""Pure verdicts over a history: what is promised of recorded effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.engine.job import TOPIC
from oncekey.record.outcome import Ran, Replayed
from oncekey.record.record import Effects, Record, Status
from oncekey.record.transitions import (
    Complete,
    FinishStep,
    LateEffect,
    Settle,
    SettleStep,
    StartStep,
    TimeOut,
)
from tests.simulation.history import Affected, Answer, StepBegan, Told, Wrote, claims_of
from tests.simulation.story import (
    Violation,
    false_settlements,
    is_grant,
    operations_with,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.history import Event, History


def business_writes_are_made_once(history: History) -> Iterator[Violation]:
    """A business write is applied at most once, and so is a message, by its id."""
    made: dict[str, Wrote] = {}
    again = history.ids_reserved_again
    for event in history.events:
        if not isinstance(event, Wrote):
            continue
        if again and event.after is not None and event.after.operation_id in again:
            continue
        for name in (*event.writes, *(f"message {message.id}" for message in event.messages)):
            if name in made:
                yield Violation("what was committed is applied again", (made[name], event))
            made.setdefault(name, event)


def business_writes_come_with_the_record(history: History) -> Iterator[Violation]:
    """What is committed is applied with its recovery point or with the completion, or not at all.

    Messages stand by their topic for the business writes that were collected with them.
    """
    for event in history.events:
        if not isinstance(event, Wrote):
            continue
        # What tells of an accepted request has rules of its own.
        messages = [message for message in event.messages if message.topic != TOPIC]
        if not (event.writes or messages):
            continue
        point = _point(event)
        names = {f"{message.operation_id}/{message.topic}" for message in messages}
        if point is None:
            yield Violation("something was committed without the record", (event,))
        elif {*event.writes} != {point}:
            yield Violation("something was committed at another point than its own", (event,))
        elif names != {point}:
            yield Violation("business writes and messages were not applied together", (event,))


def _point(event: Wrote) -> str | None:
    if not event.permitted or event.before is None:
        return None
    match event.transition:
        case Complete():
            return f"{event.before.operation_id}/final"
        case FinishStep(step=step):
            return f"{event.before.operation_id}/{step.name}"
    return None


def completions_tell_the_truth(history: History) -> Iterator[Violation]:
    """What a completed operation's answer says has happened: its effects, and its business writes.

    Business writes that the answer says nothing of were not made with it.
    """
    made: dict[str, Event] = {}
    for event in history.events:
        if isinstance(event, Affected):
            made.setdefault(event.result, event)
        elif isinstance(event, Wrote):
            made.update(dict.fromkeys(event.writes, event))
            if not _completes(event):
                continue
            effects, writes = claims_of(event.answer)
            if not isinstance(event.transition, Complete | TimeOut):
                yield Violation("a recorded operation was completed without its run", (event,))
            if not made.keys() >= {*writes}:
                yield Violation("a completion lacks business writes", (event,))
            if not made.keys() >= {*effects}:
                yield Violation("an answer tells of an effect that never was", (event,))
            if {*event.writes} - {*writes}:
                yield Violation("what the answer discards was committed", (event,))


def _completes(event: Wrote) -> bool:
    before, after = event.before, event.after
    return (
        after is not None
        and after is not before
        and after.status is Status.COMPLETED
        and after.effects is Effects.RECORDED
    )


def answers_are_on_record(history: History) -> Iterator[Violation]:
    """Whoever is told a final answer of a recorded run: it is stored, with all that it claims."""
    stored: dict[str, str] = {}
    for event in history.events:
        if isinstance(event, Wrote) and _completes(event) and event.after is not None:
            stored.setdefault(event.after.operation_id, event.answer)
        elif isinstance(event, Told):
            given = _given(event.outcome)
            if given is None or given[0] in history.ids_reserved_again:
                continue
            if stored.get(given[0]) != given[1]:
                yield Violation("a final answer was told that is not on record", (event,))


def _given(outcome: Any) -> tuple[str, str] | None:
    match outcome:
        case Ran(value=Answer(is_final=True) as answer):
            return answer.operation_id, answer.stored
        case Replayed(record, text):
            return record.operation_id, text
        case _:
            return None


def steps_have_one_effect(history: History) -> Iterator[Violation]:
    """A step has one effect at most, unless a settlement denied it falsely."""
    recorded = operations_with(history, Effects.RECORDED) - history.ids_reserved_again
    denied = {(effect.operation_id, effect.step) for _, effect in false_settlements(history)}
    effects: dict[tuple[str, str], Affected] = {}
    for event in history.events:
        if isinstance(event, Affected) and event.operation_id in recorded:
            step = (event.operation_id, event.step)
            if step in effects and step not in denied:
                yield Violation("a step had more than one effect", (effects[step], event))
            effects.setdefault(step, event)


def steps_begin_under_a_lease(history: History) -> Iterator[Violation]:
    """A step begins in the attempt that has the record, marked unless it is idempotent.

    One that is idempotent is held back by the clock alone: it may begin late where clocks differ.
    """
    is_exact = history.circumstances.leases_are_exact
    stored: Record | None = None
    granted_to = ""
    for event in history.events:
        if isinstance(event, Wrote) and event.permitted:
            stored = event.after
            granted_to = event.actor if is_grant(event) else granted_to
        elif isinstance(event, StepBegan) and (is_exact or not event.is_idempotent):
            if not _has_lease(stored, event) or granted_to != event.actor:
                yield Violation("a step began without the lease", (event,))
            elif not event.is_idempotent and _started(stored) != event.step:
                yield Violation("a step began without its mark", (event,))


def _has_lease(stored: Record | None, event: StepBegan) -> bool:
    return (
        stored is not None
        and stored.status is Status.IN_PROGRESS
        and stored.operation_id == event.operation_id
        and stored.attempt == event.attempt
    )


def _started(record: Record | None) -> str | None:
    started = None if record is None else record.steps.started
    return None if started is None else started.name


def finished_steps_never_run_again(history: History) -> Iterator[Violation]:
    """A step that is on record as finished is neither marked nor called again."""
    finished: dict[tuple[str, str], Wrote] = {}
    is_exact = history.circumstances.leases_are_exact
    again = history.ids_reserved_again
    for event in history.events:
        if isinstance(event, Wrote) and event.permitted and event.after is not None:
            operation_id, transition = event.after.operation_id, event.transition
            if operation_id in again:
                continue
            if isinstance(transition, StartStep):
                before = finished.get((operation_id, transition.step.name))
                if before is not None:
                    yield Violation("a finished step was marked again", (before, event))
            for step in event.after.steps.finished:
                finished.setdefault((operation_id, step.name), event)
        elif isinstance(event, StepBegan) and (is_exact or not event.is_idempotent):
            before = finished.get((event.operation_id, event.step))
            if before is not None:
                yield Violation("a finished step was called again", (before, event))


def nothing_in_doubt_goes_on(history: History) -> Iterator[Violation]:
    """With a step in doubt nothing is taken over, completed, or free to run again."""
    for write in history.applied:
        before, after = write.before, write.after
        if before is not None and before.is_in_doubt and is_grant(write):
            yield Violation("a step in doubt was taken over", (write,))
        if after is None or not after.is_in_doubt:
            continue
        if after.status is Status.COMPLETED:
            yield Violation("an operation was completed with a step in doubt", (write,))
        if after.status is Status.FAILED_RETRYABLE:
            yield Violation("an operation may run again with a step in doubt", (write,))


def settlements_write_a_fresh_owner(history: History) -> Iterator[Violation]:
    """What was settled is no longer the late owner's."""
    for write in history.applied:
        before, after = write.before, write.after
        settles = isinstance(write.transition, Settle | SettleStep | LateEffect)
        if settles and before is not None and after is not None and before.owner == after.owner:
            yield Violation("a settlement left the owner", (write,))


RECORDED: tuple[Callable[[History], Iterator[Violation]], ...] = (
    business_writes_are_made_once,
    business_writes_come_with_the_record,
    completions_tell_the_truth,
    answers_are_on_record,
    steps_have_one_effect,
    steps_begin_under_a_lease,
    finished_steps_never_run_again,
    nothing_in_doubt_goes_on,
    settlements_write_a_fresh_owner,
)
