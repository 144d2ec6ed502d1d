"""Pure verdicts over a history: what callers are told is true, is theirs, and comes at last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.record.outcome import Failed, Ran, Reason, Refusal, Replayed
from oncekey.record.record import Effects, Status
from oncekey.record.transitions import Reserve
from tests.simulation.history import Affected, Answer, Began, Event, Healed, Told, Wrote
from tests.simulation.story import (
    Violation,
    false_settlements,
    operations_with,
    outlived_denials,
    unrecorded_operations,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oncekey.record.record import Record
    from tests.simulation.history import History

# Once all is well: one that meets the dead attempt, one that meets the doubt, one that runs.
MOST_RETRIES = 3


def _first_stored(history: History) -> dict[str, list[tuple[Record, str]]]:
    """For each life of each operation, its record when it was completed, and its answer's text."""
    found: dict[str, list[tuple[Record, str]]] = {}
    is_open: set[str] = set()
    for write in history.applied:
        if write.after is None:
            continue
        if isinstance(write.transition, Reserve):
            is_open.add(write.after.operation_id)
        if write.after.status is Status.COMPLETED and write.after.operation_id in is_open:
            is_open.remove(write.after.operation_id)
            found.setdefault(write.after.operation_id, []).append((write.after, write.answer))
    return found


def replays_equal_the_first_answer(history: History) -> Iterator[Violation]:
    """Every replay is what was stored first, and who is promised a stored answer got that one."""
    stored = _first_stored(history)
    for told in history.answers:
        match told.outcome:
            case Replayed(record):
                first = stored.get(record.operation_id, ())
                if record.response not in [each.response for each, _ in first]:
                    yield Violation("a replay is not what was stored first", (told,))
            case Ran(value=Answer() as answer, expires_at_s=int(expires_at_s)):
                first = stored.get(answer.operation_id, ())
                promised = (answer.stored, expires_at_s)
                if promised not in [(text, each.expires_at_s) for each, text in first]:
                    yield Violation("an answer was promised that is not stored", (told,))


def answers_belong_to_their_request(history: History) -> Iterator[Violation]:
    """Nobody is given the answer of another request, or of another operation than it ran."""
    ran: dict[str, Began] = {}
    for event in history.events:
        if isinstance(event, Began):
            ran[event.actor] = event
        elif isinstance(event, Told):
            began = ran.get(event.actor)
            proof: tuple[Event, ...] = (event,) if began is None else (began, event)
            if isinstance(event.outcome, Replayed):
                record = event.outcome.record
                if record.fingerprint != event.fingerprint:
                    yield Violation("a caller was given another request's answer", proof)
                if began is not None and record.operation_id != began.operation_id:
                    yield Violation("a caller was given another operation's answer", proof)
            elif isinstance(event.outcome, Ran):
                value = event.outcome.value
                own = began is not None and (value.operation_id, value.by) == (
                    began.operation_id,
                    event.actor,
                )
                if not own:
                    yield Violation("a caller was given an answer that it did not make", proof)


def nothing_ran_where_it_was_said(history: History) -> Iterator[Violation]:
    """Told `key-reused` or `store-unavailable`: nothing ran. `not-executed`: it had no effect.

    A recorded run whose commit is not confirmed is told of the store, too.
    """
    recorded = operations_with(history, Effects.RECORDED)
    began: dict[str, Began] = {}
    affected: dict[str, Affected] = {}
    for event in history.events:
        if isinstance(event, Began):
            began[event.actor] = event
        elif isinstance(event, Affected):
            affected[event.actor] = event
    for told in history.answers:
        outcome, run = told.outcome, began.get(told.actor)
        if isinstance(outcome, Ran | Failed) and run is None:
            yield Violation("a caller was given the end of no run", (told,))
        reason = outcome.reason if isinstance(outcome, Refusal) else None
        is_recorded = run is not None and run.operation_id in recorded
        says_nothing_ran = reason is Reason.KEY_REUSED or (
            reason is Reason.STORE_UNAVAILABLE and not is_recorded
        )
        if run is not None and says_nothing_ran:
            yield Violation("a caller was told that nothing ran", (run, told))
        effect = affected.get(told.actor)
        if reason is Reason.NOT_EXECUTED and effect is not None:
            yield Violation("a caller was told of no effect", (effect, told))


def final_answers_are_kept(history: History) -> Iterator[Violation]:
    """Whoever got a final answer from its own run: it is stored, or its operation never runs again.

    That is, again without a false settlement, and unless it was declared repeatable. A settlement
    is false, too, if an attempt that it denied begins after it, whether or not it has an effect.
    """
    once = unrecorded_operations(history)
    once -= {effect.operation_id for _, effect in false_settlements(history)}
    once -= {began.operation_id for _, began in outlived_denials(history)}
    given: dict[str, Told] = {}
    left: dict[str, Status] = {}
    for event in history.events:
        if isinstance(event, Told) and isinstance(event.outcome, Ran):
            value = event.outcome.value
            if value.is_final and value.operation_id in once:
                given.setdefault(value.operation_id, event)
        elif isinstance(event, Began) and event.operation_id in given:
            yield Violation("an answered operation ran again", (given[event.operation_id], event))
        elif isinstance(event, Wrote) and event.permitted and event.after is not None:
            left[event.after.operation_id] = event.after.status
    for operation_id, told in given.items():
        if left.get(operation_id) is Status.FAILED_RETRYABLE:
            yield Violation("an answered operation may run again", (told,))


def answers_come_at_last(history: History) -> Iterator[Violation]:
    """After the faults, each request is answered finally within a few retries."""
    healed = False
    waiting: dict[str, list[Event]] = {}
    for event in history.events:
        healed = healed or isinstance(event, Healed)
        if not (healed and isinstance(event, Told)):
            continue
        asked = waiting.setdefault(event.fingerprint, [])
        asked.append(event)
        if _is_final(event.outcome):
            del waiting[event.fingerprint]
            if len(asked) > MOST_RETRIES:
                yield Violation("a final answer came too late", tuple(asked))
    for asked in waiting.values():
        yield Violation("no final answer came", tuple(asked))


def answers_come_in_time(history: History) -> Iterator[Violation]:
    """After the faults, each request is answered finally within the stated time."""
    limit_ms = history.circumstances.progress_ms
    healed: Healed | None = None
    for event in history.events:
        if isinstance(event, Healed):
            healed = event
        elif healed is None or limit_ms is None or event.at_ms - healed.at_ms <= limit_ms:
            continue
        elif isinstance(event, Told) and _is_final(event.outcome):
            rule = f"a final answer came later than {limit_ms} ms after the last fault"
            yield Violation(rule, (healed, event))


PROGRESS = (answers_come_at_last, answers_come_in_time)


def _is_final(outcome: Any) -> bool:
    match outcome:
        case Replayed():
            return True
        case Ran(value=Answer(is_final=is_final)):
            return is_final
        case Refusal(reason=reason):
            return reason is Reason.KEY_REUSED
        case _:
            return False


ANSWERS: tuple[Callable[[History], Iterator[Violation]], ...] = (
    replays_equal_the_first_answer,
    answers_belong_to_their_request,
    nothing_ran_where_it_was_said,
    final_answers_are_kept,
)
