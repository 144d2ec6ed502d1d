"""Pure verdicts: every refusal was true when it was given, for whoever it was given to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.record.outcome import Ran, Reason, Refusal, Replayed
from oncekey.record.record import Status
from tests.simulation.history import Answer, Asked, Died, Looked, Swept, Told, Wrote
from tests.simulation.story import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oncekey.record.record import Record
    from tests.simulation.history import Event, History

    Justifies = Callable[[Record | None, Told], bool]


def _is_running(record: Record | None, _told: Told) -> bool:
    return record is not None and record.status in {Status.IN_PROGRESS, Status.PENDING}


def _is_unknown(record: Record | None, _told: Told) -> bool:
    return record is not None and record.status in {Status.UNKNOWN, Status.IN_PROGRESS}


def _is_of_another(record: Record | None, told: Told) -> bool:
    return record is not None and record.fingerprint != told.fingerprint


def _was_settled(record: Record | None, _told: Told) -> bool:
    return record is not None and record.status in {Status.COMPLETED, Status.FAILED_RETRYABLE}


# In which state of the record a refusal is true. It must have been in one between the question and
# the answer. What is said of the store and of the run itself, no record shows.
_TRUE_WHERE: dict[Reason, Justifies] = {
    Reason.RUNNING: _is_running,
    Reason.OUTCOME_UNKNOWN: _is_unknown,
    Reason.KEY_REUSED: _is_of_another,
    Reason.KEY_EXPIRED: _was_settled,
}


def refusals_are_true(history: History) -> Iterator[Violation]:
    """Whoever is told that it runs, is unknown, or is another request's: it was so meanwhile.

    A sandbox that remembers answers may say "another request's" for a while after the answer was
    deleted on purpose.
    """
    stored: Record | None = None
    answered: list[Record] = []
    since: dict[str, tuple[Asked, list[Record | None]]] = {}
    for event in history.events:
        if isinstance(event, Asked):
            since[event.actor] = event, [stored]
        elif isinstance(event, Wrote) and event.permitted:
            stored = event.after
            if stored is not None and stored.status is Status.COMPLETED:
                answered.append(stored)
            for _, met in since.values():
                met.append(stored)
        elif isinstance(event, Swept):
            stored = None
        elif isinstance(event, Told) and isinstance(event.outcome, Refusal):
            asking, met = since.pop(event.actor, (None, []))
            is_true = _TRUE_WHERE.get(event.outcome.reason)
            if asking is None or is_true is None or event.outcome.is_outage:
                continue
            if history.circumstances.remembers and event.outcome.reason is Reason.KEY_REUSED:
                met.extend(answered)
            if _is_of_store(event) or any(is_true(record, event) for record in met):
                continue
            yield Violation(f"it was never so: {event.outcome.reason}", (asking, event))


def _is_of_store(told: Told) -> bool:
    # A commit that others contend for, and what a sandbox lost sight of, name no record.
    return isinstance(told.outcome, Refusal) and told.outcome.record is None


def pauses_are_true(history: History) -> Iterator[Violation]:
    """Whoever is told of a pause: somebody has read of one, of whatever key."""
    looked: list[Event] = []
    for event in history.events:
        if isinstance(event, Looked) and event.is_paused:
            looked.append(event)
        elif _is_of_a_pause(event) and not looked:
            yield Violation("a caller was told of a pause that nobody has read of", (event,))


def _is_of_a_pause(event: Event) -> bool:
    outcome = event.outcome if isinstance(event, Told) else None
    return isinstance(outcome, Refusal) and outcome.reason is Reason.PAUSED


def nobody_is_left_without_an_end(history: History) -> Iterator[Violation]:
    """Whoever has asked was told something, or is dead."""
    waiting: dict[str, Asked] = {}
    for event in history.events:
        if isinstance(event, Asked):
            waiting[event.actor] = event
        elif isinstance(event, Told | Died):
            waiting.pop(event.actor, None)
    for asked in waiting.values():
        yield Violation("a caller never got an end", (asked,))


def final_answers_agree(history: History) -> Iterator[Violation]:
    """All final answers that were told of one operation, of one life, are one."""
    told: dict[str, tuple[str, Told]] = {}
    for event in history.answers:
        match event.outcome:
            case Ran(value=Answer(is_final=True) as answer, expires_at_s=int()):
                operation_id, text = answer.operation_id, answer.stored
            case Replayed(record, text) if text:
                operation_id = record.operation_id
            case _:
                continue
        if operation_id in history.ids_reserved_again:
            continue
        first = told.setdefault(operation_id, (text, event))
        if first[0] != text:
            yield Violation("two callers were given two answers", (first[1], event))


STATEMENTS: tuple[Callable[[History], Iterator[Violation]], ...] = (
    refusals_are_true,
    nobody_is_left_without_an_end,
    final_answers_agree,
)
