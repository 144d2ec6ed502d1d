"""What checkers read out of a history, and how they tell what they found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.record.record import Effects, Record, Status
from oncekey.record.transitions import (
    Begin,
    ExpireLease,
    Reserve,
    Resume,
    Retry,
    Settle,
    SettleStep,
    TakeOver,
)
from tests.simulation.history import Affected, Asked, Began, Event, Kept, Told, Wrote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.history import History

# What waits for somebody, so that somebody must look at it.
IN_DOUBT = frozenset({Status.PENDING, Status.IN_PROGRESS, Status.UNKNOWN})

GRANTS = (Begin, Reserve, Resume, TakeOver)


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a history breaks, and the events that prove it."""

    rule: str
    story: tuple[Event, ...]

    def __str__(self) -> str:
        return "\n".join([self.rule, *(f"    {told(event)}" for event in self.story)])


def told(event: Event) -> str:
    """One event in one line."""
    text = f"{event.at_ms} {event.actor} {type(event).__name__}"
    match event:
        case Wrote():
            late = " late" if event.late else ""
            verdict = "applied" if event.permitted else "refused"
            name = type(event.transition).__name__
            states = f"{_state(event.before)} -> {_state(event.after)}"
            added = f", {' and '.join(event.writes)}" if event.writes else ""
            return f"{text} {name} {verdict}{late}: {states}{added}"
        case Told():
            return f"{text} {event.outcome}"
        case Asked():
            return f"{text} {event.fingerprint}"
        case Kept():
            return f"{text} {event.name}"
        case _:
            number = getattr(event, "attempt", None)
            step = f" of {name}" if (name := getattr(event, "step", "")) else ""
            return text if number is None else f"{text}{step} attempt {number}"


def _state(record: Record | None) -> str:
    if record is None:
        return "absent"
    text = f"{record.status} rev {record.rev} of {record.owner}"
    done = ", ".join(step.name for step in record.steps.finished)
    text += f" after {done}" if done else ""
    started = record.steps.started
    return text if started is None else f"{text} in {started.name}"


def is_half_done(record: Record) -> bool:
    """Whether the operation has failed after a finished step: evidence that must not be lost."""
    return record.status is Status.FAILED_RETRYABLE and bool(record.steps.finished)


def is_grant(write: Wrote) -> bool:
    """Whether this write gives its sender the lease."""
    is_held = write.after is not None and write.after.status is Status.IN_PROGRESS
    return is_held and write.permitted and isinstance(write.transition, GRANTS)


def unrecorded_operations(history: History) -> set[str]:
    """The operations of one life all of whose attempts said `unrecorded`."""
    return operations_with(history, Effects.UNRECORDED) - history.ids_reserved_again


def operations_with(history: History, effects: Effects) -> set[str]:
    """The operations all of whose attempts said that their effects are of this kind."""
    kinds = history.kinds_of_effects
    return {name for name, found in kinds.items() if found == {effects}}


def false_settlements(history: History) -> Iterator[tuple[Wrote, Affected]]:
    """Settlements as not executed, each with an effect that an attempt up to then had all the same.

    An attempt that ended by itself is not meant: its own word is its author's affair.
    """
    effects = history.effects
    for write in history.applied if effects else ():
        record, step = write.after, _denied(write)
        if record is None or step is None or record.operation_id in history.ids_reserved_again:
            continue
        for effect in effects:
            same = (effect.operation_id, effect.step) == (record.operation_id, step)
            if same and effect.attempt <= record.attempt:
                yield write, effect


def outlived_denials(history: History) -> Iterator[tuple[Wrote, Began]]:
    """Settlements as not executed, each with an attempt up to then that began all the same."""
    denials: list[Wrote] = []
    for event in history.events:
        if isinstance(event, Wrote) and event.permitted and _denied(event) is not None:
            denials.append(event)
        elif isinstance(event, Began) and denials:
            for denial in denials:
                record = denial.after
                is_same = record is not None and record.operation_id == event.operation_id
                if is_same and record is not None and event.attempt <= record.attempt:
                    yield denial, event


def _denied(write: Wrote) -> str | None:
    """The step that a settlement calls not executed, empty for all that a handler did."""
    transition, record = write.transition, write.after
    if isinstance(transition, SettleStep):
        return transition.cleared
    is_denial = isinstance(transition, Settle | ExpireLease) and isinstance(transition.to, Retry)
    is_unrecorded = record is not None and record.effects is Effects.UNRECORDED
    return "" if is_denial and is_unrecorded else None
