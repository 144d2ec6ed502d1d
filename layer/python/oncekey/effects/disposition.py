"""How an attempt ends: the promise of each kind of effects, as one pure decision."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from oncekey.effects.raised import leaves
from oncekey.errors import Final, NotExecuted, RunStopped
from oncekey.flow.commands import Answered, Raised, Unserialisable
from oncekey.record.record import Effects

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.flow.commands import Result


def never_spent(_error: BaseException) -> bool:
    """Every `NotExecuted` speaks of the attempt itself."""
    return False


class Disposition(StrEnum):
    """What is recorded of an attempt that has ended."""

    COMPLETED = "completed"
    NOT_EXECUTED = "not-executed"  # proven: nothing happened
    RETRYABLE = "retryable"  # harmless to repeat: declared so, or on record
    UNKNOWN = "unknown"


def decide(
    result: Result,
    effects: Effects,
    is_not_executed: Callable[[BaseException], bool],
    *,
    is_in_doubt: bool = False,
    is_spent: Callable[[BaseException], bool] = never_spent,
) -> Disposition:
    """The disposition of an attempt that ended with `result`.

    A final answer completes. Otherwise only what is proven not to have been executed, or declared
    harmless to repeat, may run again; everything else is unknown: an exception proves nothing about
    what was done before it. Recorded effects may run again because their finished steps do not;
    `is_in_doubt`: one of their steps may have happened, so that nothing else can be said, whatever
    the handler made of it.
    """
    if is_in_doubt:
        return Disposition.UNKNOWN
    if isinstance(result, Unserialisable) or (isinstance(result, Answered) and result.is_final):
        return Disposition.COMPLETED
    if isinstance(result, Raised) and is_proof(result, is_not_executed, is_spent):
        return Disposition.NOT_EXECUTED
    if effects is not Effects.UNRECORDED:
        return Disposition.RETRYABLE
    return Disposition.UNKNOWN


def is_proof(
    raised: Raised,
    is_not_executed: Callable[[BaseException], bool],
    is_spent: Callable[[BaseException], bool] = never_spent,
) -> bool:
    """Whether an attempt that raised has proven that nothing happened.

    That is `NotExecuted`, or an error that the author's rule accepts; but nothing that went wrong
    after the handler had done its work, whatever its type. Of a group every member must prove it.
    `is_spent` says of a `NotExecuted` that it came out of an idempotent function below, and speaks
    of that one: what was done before the call is not undone by it.
    """
    if raised.has_returned:
        return False
    if raised.is_proof is not None:
        return raised.is_proof
    return all(_proves(each, is_not_executed, is_spent) for each in leaves(raised.error))


def _proves(
    error: BaseException,
    is_not_executed: Callable[[BaseException], bool],
    is_spent: Callable[[BaseException], bool],
) -> bool:
    if isinstance(error, NotExecuted):
        return not is_spent(error)
    # A stop is ours, and an answer is no error: no rule knows anything about them.
    return not isinstance(error, RunStopped | Final) and is_not_executed(error)


def reason(result: Result) -> str:
    """Why an attempt did not complete, for the record.

    This is the kind of error and never its text, which may hold a payload.
    """
    return type(result.error).__name__ if isinstance(result, Raised) else "answer-not-final"
