"""Hand-written histories of recorded effects: more words for the checkers' own tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.record.message import Message
from oncekey.record.outcome import Ran, Replayed
from oncekey.record.record import Effects, Status
from oncekey.record.steps import FinishedStep, StartedStep, Steps
from oncekey.record.transitions import FinishStep, SettleStep, StartStep
from tests.simulation.histories import (
    AT_MS,
    COMPLETE,
    COMPLETED,
    DUE,
    EXPIRES_AT_S,
    RESERVE,
    RETRY,
    RUNNING,
    UNKNOWN,
    wrote,
)
from tests.simulation.history import Affected, Answer, StepBegan, Told
from tests.support.replacing import replace

if TYPE_CHECKING:
    from oncekey.record.record import Record
    from oncekey.record.transitions import Transition
    from tests.simulation.history import Wrote

MARK = StartedStep(name="charge", position=0, mark=1, at_ms=AT_MS)
DONE = FinishedStep(name="charge", position=0, at_ms=AT_MS, result='"charge by A"')
POINT = FinishedStep(name="created", position=0, at_ms=AT_MS)
RECORDED = replace(RUNNING, effects=Effects.RECORDED)
IN_STEP = replace(RECORDED, rev=2, steps=Steps(started=MARK))
AFTER_STEP = replace(RECORDED, rev=3, steps=Steps(finished=(DONE,)))
AFTER_POINT = replace(RECORDED, rev=2, steps=Steps(finished=(POINT,)))
IN_DOUBT = replace(UNKNOWN, rev=3, effects=Effects.RECORDED, steps=IN_STEP.steps)
HALF_DONE = replace(
    AFTER_STEP, status=Status.FAILED_RETRYABLE, rev=4, owner="S/1", lease_until_ms=None, due=DUE
)
ANSWER = Answer(
    operation_id="op", attempt=1, by="A", effects=("charge by A",), writes=("op/final",)
)
ENDED = replace(
    COMPLETED, effects=Effects.RECORDED, rev=4, steps=AFTER_STEP.steps, response=ANSWER.stored
)
START = StartStep(pk="pk", owner="A/1", step=MARK)
FINISH = FinishStep(pk="pk", owner="A/1", step=DONE, mark=1)
REACH = FinishStep(pk="pk", owner="A/1", step=POINT, mark=None)
FINDING = SettleStep(pk="pk", seen_owner="A/1", new_owner="S/1", retry=RETRY, finished=DONE)
DENYING = SettleStep(pk="pk", seen_owner="A/1", new_owner="S/1", retry=RETRY, cleared="charge")
DENIED = replace(HALF_DONE, steps=Steps(), due=None, expires_at_s=EXPIRES_AT_S)

RESERVED = wrote("A", RESERVE, None, RECORDED)
STARTED = wrote("A", START, RECORDED, IN_STEP)
FINISHED = wrote("A", FINISH, IN_STEP, AFTER_STEP)


def message(point: str, number: int = 0) -> Message:
    """A message of the operation."""
    return Message(
        id=f"{point}.{number}",
        topic=point,
        payload="{}",
        operation_id="op",
        operation="POST /payments",
        tenant="tenant",
        created_at_ms=AT_MS,
    )


def committed(
    transition: Transition, before: Record | None, after: Record | None, *points: str
) -> Wrote:
    """A transaction of A's with the business writes and messages of these points."""
    return replace(
        wrote("A", transition, before, after),
        writes=tuple(f"op/{point}" for point in points),
        messages=tuple(map(message, points)),
    )


def began_step(actor: str, attempt: int = 1, *, is_idempotent: bool = False) -> StepBegan:
    """A step's function is called."""
    return StepBegan(
        at_ms=AT_MS,
        actor=actor,
        operation_id="op",
        attempt=attempt,
        step="charge",
        is_idempotent=is_idempotent,
    )


def charged(actor: str, attempt: int = 1) -> Affected:
    """The effect of a step."""
    return Affected(
        at_ms=AT_MS,
        actor=actor,
        operation_id="op",
        attempt=attempt,
        step="charge",
        result=f"charge by {actor}",
    )


def told(answer: Answer = ANSWER, actor: str = "A") -> Told:
    """A caller gets the answer of its own run."""
    outcome = Ran(value=answer, record=RECORDED, expires_at_s=EXPIRES_AT_S)
    return Told(at_ms=AT_MS, actor=actor, fingerprint="f1:a", outcome=outcome)


def given_again(text: str = ANSWER.stored, actor: str = "B") -> Told:
    """A caller gets the answer of the record."""
    outcome = Replayed(ENDED, text)
    return Told(at_ms=AT_MS, actor=actor, fingerprint="f1:a", outcome=outcome)


COMPLETION = committed(COMPLETE, AFTER_STEP, ENDED, "final")
REACHED = committed(REACH, RECORDED, AFTER_POINT, "created")
