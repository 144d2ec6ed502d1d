"""How an attempt ends, for each kind of effects. The decision is one pure function."""

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
    """The default of `is_spent`: no `NotExecuted` came from an idempotent function below."""
    return False


class Disposition(StrEnum):
    """How the end of an attempt is recorded."""

    COMPLETED = "completed"
    NOT_EXECUTED = "not-executed"  # proven: nothing happened
    RETRYABLE = "retryable"  # harmless to repeat: declared so, or by its recorded steps
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

    A final answer completes the operation. Otherwise an attempt may run again only if it is proven
    not to have been executed, or declared harmless to repeat. Any other attempt is unknown: an
    exception proves nothing about the work before it. Recorded effects may run again, because their
    finished steps do not. If one of their steps `is_in_doubt`, the attempt is unknown, whatever the
    handler returned.
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

    `NotExecuted` proves it, and so does an error that the author's rule accepts. An error after the
    handler has done its work never proves it. In a group, every member must prove it. `is_spent`
    says whether a `NotExecuted` came from an idempotent function below. It then covers that
    function only, and not the work before the call.
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
    # A stop is raised by the library, and `Final` is an answer. The author's rule does not apply.
    return not isinstance(error, RunStopped | Final) and is_not_executed(error)


def reason(result: Result) -> str:
    """Why an attempt did not complete, for the record.

    It is the error's type and never its text, which may contain a payload.
    """
    return type(result.error).__name__ if isinstance(result, Raised) else "answer-not-final"
