"""The promises that the plays check, and what a broken one most likely comes from."""

from __future__ import annotations

import copy
from collections import Counter
from typing import TYPE_CHECKING, Any

from oncekey.http.answer import is_final_status
from oncekey.record.policy import IETF_NAME
from oncekey.record.record import Effects, Status
from oncekey.record.stored_answer import NotKept
from oncekey.testing.checking import mistakes
from oncekey.testing.checking.answers import is_replay, said, shown, status_of
from oncekey.testing.checking.processes import OUTSIDE, STEP, Observed, Sent
from oncekey.testing.checking.runs import First, Subject, made_on, to_the_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncekey.record.record import Record
    from oncekey.testing.checking.mistakes import Mistake
    from oncekey.testing.checking.stage import Stage

ONCE = "one key takes effect once"
FINAL = "the first answer is final, and every retry gets it"
REPLAYED = "a retry gets the first answer, and has no effect"
# What the layer answers to an event that it does not reserve a key for.
_REFUSALS = {400, 403, 405}
_ACCEPTED, _REFUSED, _FAILED = 202, 400, 500
COMPLETED = "an interrupted operation is completed by a retry"


class Broken(Exception):  # noqa: N818 -- what a play found
    """A promise does not hold. `seen` says what happened instead."""

    def __init__(self, promise: str, seen: str, mistake: Mistake) -> None:
        super().__init__(promise)
        self.promise = promise
        self.seen = seen
        self.mistake = mistake
        # The exception of the handler, if it was the cause.
        self.cause: Exception | None = None
        # The seed of the interleaving, if several requests ran at once.
        self.seed: int | None = None


def first_run(subject: Subject) -> First:
    """The undisturbed run.

    Raises:
        Broken: it does not end with a final answer that can be replayed, the event was changed, or
            the test would not see the effects.
    """
    stage, event = subject.stage(), subject.request()
    before, equal = copy.deepcopy(event), copy.deepcopy(event)
    sent = to_the_end(stage, event)
    record = stage.record()
    if record is None:
        promise = "a request reserves its key before anything else"
        is_refused = status_of(sent[0].value) in _REFUSALS
        blamed = mistakes.REFUSED if is_refused else mistakes.NOT_PROTECTED
        raise _caused(sent[0], Broken(promise, f"it got {told(sent[0])}", blamed))
    if isinstance(record.response, NotKept) or _has_lost_result(record):
        seen = f"the work was done, and it got {told(sent[0])}"
        raise _caused(sent[0], Broken(FINAL, seen, mistakes.NOT_REPLAYABLE))
    if record.status is not Status.COMPLETED:
        seen = f"the record is {record.status}, after {told(sent[0])}"
        raise _caused(sent[0], Broken(FINAL, seen, mistakes.NO_SUCCESS))
    check_not_stored(record, sent[-1], FINAL)
    # An object without an equality of its own cannot be compared.
    if before == equal and event != before:
        promise = "a retry sends the same event"
        raise Broken(promise, "the event was changed during the call", mistakes.EVENT_CHANGED)
    first = First(
        record=record,
        grown={each.name: stage.grown(each) for each in subject.observed},
        made=made_on(stage),
        calls=stage.trap.calls.copy(),
        written=stage.written,
        stored=stage.stored(),
    )
    if subject.observed and not any(first.grown.values()) and not first.written:
        raise Broken("the test sees the effects", "no effect", mistakes.NOTHING_COUNTED)
    if subject.effects is not None:
        _check_steps(first, subject.effects)
    return first


def _caused(sent: Sent, broken: Broken) -> Broken:
    broken.cause = sent.error
    return broken


def _has_lost_result(record: Record) -> bool:
    return any(isinstance(step.result, NotKept) for step in record.steps.finished)


def _check_steps(first: First, effects: Observed) -> None:
    """A step that is not idempotent has one effect: its resolver can ask for only one."""
    marked = [call.removeprefix("start step ") for call in first.calls]
    for name in marked:
        place = STEP + repr(name)
        number = first.made[effects.name][place]
        if number > 1:
            seen = f"{number} effects {place}{effects.last(number)}"
            raise Broken("a step is done, or it is not", seen, mistakes.TWO_EFFECTS)


def check_not_stored(record: Record, sent: Sent, promise: str) -> None:
    """An answer that is not final was not stored, unless the preset says so."""
    status = status_of(sent.value)
    may_be_stored = record.policy is not None and record.policy.preset != IETF_NAME
    if status is None or is_final_status(status) or may_be_stored:
        return
    if record.status is Status.COMPLETED:
        raise Broken(promise, f"every retry gets {told(sent)}", mistakes.NON_FINAL_STORED)


def check_rows_after_crash(subject: Subject, first: First, stage: Stage) -> None:
    """With recorded effects, no row of the operation is there before its answer."""
    record, writes = stage.record(), subject.writes
    if writes is None or first.record.effects is not Effects.RECORDED:
        return
    is_open = record is None or record.status is not Status.COMPLETED
    outside = made_on(stage)[writes.name][OUTSIDE]
    if is_open and outside:
        seen = f"after the crash, the operation is not complete, and {outside} rows are there"
        promise = "rows and answer are written together, or not at all"
        seen += writes.last(outside)
        raise Broken(promise, seen, mistakes.OUTSIDE_THE_TRANSACTION)


def check_end(subject: Subject, first: First, stage: Stage) -> None:
    """After a disturbance, the effects are those of the first run, or unknown for a good reason."""
    record = stage.record()
    assert record is not None
    is_complete = record.status is Status.COMPLETED
    for each in subject.observed:
        grown, expected = stage.grown(each), first.grown[each.name]
        seen = f"{grown} {each.name}, expected {expected}"
        if grown > expected:
            blamed = _repeated(subject, first, stage, each)
            raise Broken(ONCE, seen + each.last(grown), blamed)
        if grown < expected and is_complete:
            promise = "what the answer reports has happened"
            raise Broken(promise, f"{seen}, and the answer is stored", mistakes.AFTER_THE_ANSWER)
    _check_fresh_values(stage)
    is_unknown = record.status is Status.UNKNOWN
    is_truly_unknown = is_unknown and (record.is_in_doubt or record.effects is Effects.UNRECORDED)
    if not is_complete and not is_truly_unknown:
        is_stopped = is_unknown and record.effects is Effects.RECORDED
        blamed = mistakes.STEPS_DIFFER if is_stopped else mistakes.UNCLEAR
        raise Broken(COMPLETED, f"it stays {record.status}: {record.last_error}", blamed)
    if stage.written > first.written or (is_complete and stage.written < first.written):
        seen = f"{stage.written} rows and messages in transactions, expected {first.written}"
        raise Broken(ONCE, seen, mistakes.UNCLEAR)


def _check_fresh_values(stage: Stage) -> None:
    """Two attempts that come to the same commit or end write the same there."""
    known: dict[tuple[str, str, int], tuple[Any, ...]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for intended in stage.intended:
        counts[intended.owner, intended.call] += 1
        place = (intended.pk, intended.call, counts[intended.owner, intended.call])
        content = (intended.answer, intended.writes, intended.messages)
        earlier = known.setdefault(place, content)
        if earlier != content:
            pairs = zip(earlier, content, strict=True)
            old, new = next((old, new) for old, new in pairs if old != new)
            seen = f"two attempts wrote different things at {intended.call!r}\n    {old}\n    {new}"
            raise Broken("a retry makes what the first run made", seen, mistakes.FRESH_VALUES)


def check_replay(
    subject: Subject, first: First, stage: Stage, event: Any, *, answered: Sent
) -> None:
    """The same event again gets the same answer as `answered`, and has no effect."""
    retries = [stage.send(event), stage.send(event)]
    for sent in retries:
        check_no_more(subject, first, stage, sent, REPLAYED)
        if sent.error is not None:
            raise Broken(REPLAYED, f"it raises {told(sent)}", mistakes.NOT_REPLAYABLE)
        if sent.process.reserved:
            raise Broken(REPLAYED, f"it ran again: {told(sent)}", mistakes.KEY_ELSEWHERE)
        if subject.is_http and not is_replay(sent.value):
            raise Broken(REPLAYED, f"it is no replay: {told(sent)}", mistakes.UNCLEAR)
    one, two = (said(sent.value) for sent in retries)
    # NaN is not equal to itself, and is replayed all the same.
    if one != two and repr(one) != repr(two):
        seen = f"two retries got\n    {told(retries[0])}\n    {told(retries[1])}"
        raise Broken(REPLAYED, seen, mistakes.NOT_REPLAYABLE)
    given = said(answered.value)
    # `before_store` may have changed the answer that is stored.
    if one not in (given, said(stage.stored())) and repr(given) != repr(one):
        seen = f"the first answer was {told(answered)}\n    and a retry got {told(retries[0])}"
        raise Broken(REPLAYED, seen, mistakes.ANSWER_AROUND)


def check_stored_failure(subject: Subject, first: First, stage: Stage) -> None:
    """What was stored while the provider failed reports what has happened."""
    stored = stage.stored()
    status = status_of(stored)
    promise = "what the answer reports has happened"
    if status is None:
        # A function's result may say that the provider refused. The first one said success.
        reports_success, is_refusal = stored == first.stored, False
    else:
        # A 202 only says that something will happen.
        reports_success = status < _REFUSED and status != _ACCEPTED
        is_refusal = _REFUSED <= status < _FAILED
    for each in subject.observed if reports_success else []:
        grown, expected = stage.grown(each), first.grown[each.name]
        if grown < expected:
            seen = f"{grown} {each.name}, expected {expected}, and the stored answer is "
            raise Broken(promise, seen + shown(stored, None), mistakes.FAILURE_SWALLOWED)
    if reports_success:
        check_end(subject, first, stage)
    effects = subject.effects
    if is_refusal and effects is not None and (grown := stage.grown(effects)):
        seen = f"{grown} effects, and the stored answer is {shown(stored, None)}"
        raise Broken(promise, seen + effects.last(grown), mistakes.FAILURE_AS_REFUSAL)


def check_one_reserved(subject: Subject, sent: Sequence[Sent]) -> None:
    """Of several requests at once, one reserved the key, or each of the keys of a batch."""
    first = 1 if subject.is_http else None
    keys = [record.pk for each in sent for record in each.process.reserved[:first]]
    if len(keys) > (1 if subject.is_http else len({*keys})):
        blamed = mistakes.STORE_RACES if len({*keys}) == 1 else mistakes.KEY_ELSEWHERE
        raise Broken(ONCE, f"{len(keys)} of {len(sent)} requests reserved a key", blamed)


def check_no_more(subject: Subject, first: First, stage: Stage, sent: Sent, promise: str) -> None:
    """This request had no effect."""
    for each in subject.observed:
        number = sent.grown(each.name)
        if number:
            blamed = _repeated(subject, first, stage, each)
            seen = f"it made {number} more {each.name}{each.last(number)}"
            raise Broken(promise, seen, blamed)


def _repeated(subject: Subject, first: First, stage: Stage, kind: Observed) -> Mistake:
    made, expected = made_on(stage)[kind.name], first.made[kind.name]
    is_write = kind is subject.writes
    return mistakes.repeated(made, expected, first.record.effects, is_write=is_write)


def told(sent: Sent) -> str:
    """What came of a request, for a message."""
    return shown(sent.value, sent.error)
