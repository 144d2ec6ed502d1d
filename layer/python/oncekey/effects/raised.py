"""The meaning of an exception, alone or in a group. `asyncio.TaskGroup` raises groups."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from oncekey.errors import Final, NotExecuted, RunStopped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.record.outcome import Reason

# These end the process, the coroutine or the generator, and do not tell what was done.
_EXITS = (KeyboardInterrupt, SystemExit, GeneratorExit)


class RefusedBelow(NotExecuted):
    """Raised below a handler: another store's protection refuses this request, and always will.

    The caller is refused for `reason`. The record is not kept unless an attempt before may have
    acted, so that the right request may still use the key.
    """

    def __init__(self, reason: Reason, detail: str | None = None) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(reason, detail)


def exits() -> tuple[type[BaseException], ...]:
    """The exits, and asyncio's cancellation if asyncio has been imported."""
    cancelled = getattr(sys.modules.get("asyncio.exceptions"), "CancelledError", None)
    return _EXITS if cancelled is None else (*_EXITS[:2], cancelled, *_EXITS[2:])


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The exception `error` itself, or all members of a group and of the groups in it."""
    groups = [error]
    while groups:
        each = groups.pop()
        if isinstance(each, BaseExceptionGroup):
            groups += reversed(each.exceptions)
        else:
            yield each


def final_in(error: BaseException) -> Final | None:
    """The answer that `error` ends the operation with.

    A group gives an answer only if all its members give the same one. With another failure or
    another answer in it, the answer would be ambiguous.
    """
    if isinstance(error, Final):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    finals = [each for each in leaves(error) if isinstance(each, Final)]
    if len(finals) != sum(1 for _ in leaves(error)):
        return None
    first = finals[0]
    return first if all(_says(each) == _says(first) for each in finals) else None


def is_exit(error: BaseException) -> bool:
    """Whether an exit or a cancellation is in `error`."""
    return any(isinstance(each, exits()) for each in leaves(error))


def is_cancelled(error: BaseException) -> bool:
    """Whether `error` has a cancellation in it, and apart from that only exceptions."""
    # Its type comes after the exits of the process. It is missing if asyncio was not imported.
    cancelled = exits()[2:-1]
    others = [each for each in leaves(error) if not isinstance(each, Exception)]
    return bool(others) and all(isinstance(each, cancelled) for each in others)


def is_stop(error: BaseException) -> bool:
    """Whether `error` is `RunStopped`, and nothing else."""
    return all(isinstance(each, RunStopped) for each in leaves(error))


def ends_all(error: BaseException) -> bool:
    """Whether `error` ends more than the handler, as an exit or a cancellation does.

    Such an error is passed on. `RunStopped` is answered instead.
    """
    return bool(_ending_all(error))


def passed_on(error: BaseException) -> BaseException:
    """`error` as it leaves the protected handler.

    Lambda's runtime handles any `Exception` and single exits, but a group of exits would end the
    sandbox. Such a group is replaced by its first member that is not an `Exception`.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    others = _ending_all(error)
    if others:
        return min(others, key=_rank)
    # Stops are answered, so only the other members count, unless there are none. A group of
    # exceptions alone is its own subgroup.
    exceptions = error.subgroup(Exception)
    return next(leaves(error)) if exceptions is None else exceptions


def _ending_all(error: BaseException) -> list[BaseException]:
    answered = (Exception, RunStopped)
    return [each for each in leaves(error) if not isinstance(each, answered)]


def _rank(error: BaseException) -> int:
    # First the exits of the process, then those of a task, then other types.
    kinds = [isinstance(error, kind) for kind in exits()]
    return kinds.index(True) if any(kinds) else len(kinds)


def _says(final: Final) -> tuple[object, ...]:
    return (final.status, final.body, final.headers, final.commit)
