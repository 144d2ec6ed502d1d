"""The steps of a recorded operation, as its record stores them.

A *finished* step has its result on record and never runs again. A step that is *started* and not
finished is in doubt. Steps run one after the other, so at most one is in doubt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.value import Value, field, replace

if TYPE_CHECKING:
    from oncekey.record.stored_answer import StoredAnswer


class StartedStep(Value, kw_only=True):
    """A step that is running, or was running when its owner died: it is in doubt.

    `position` is its place in the order of the run, from 0. `mark` is a number that differs between
    the calls of one attempt: a late write must not clear the mark of another call of the step.
    """

    name: str
    position: int
    mark: int
    at_ms: int


class FinishedStep(Value, kw_only=True):
    """A step that is done, or the recovery point of a commit, which has no `result`.

    `is_final`: the step ended the operation with `Final`, and its result is that answer.
    """

    name: str
    position: int
    at_ms: int
    result: StoredAnswer | None = field(default=None, repr=False)
    is_final: bool = False

    @property
    def is_commit(self) -> bool:
        """Whether this is the recovery point of a commit."""
        return self.result is None


class Steps(Value, kw_only=True):
    """The steps of one record, the finished ones in the order of the run."""

    started: StartedStep | None = None
    finished: tuple[FinishedStep, ...] = ()

    def named(self, name: str) -> FinishedStep | None:
        """The finished step of this name."""
        return next((step for step in self.finished if step.name == name), None)

    def at(self, position: int) -> FinishedStep | None:
        """The finished step at this place of the run."""
        return next((step for step in self.finished if step.position == position), None)

    def starting(self, step: StartedStep) -> Steps:
        """These steps with `step` started."""
        return replace(self, started=step)

    def finishing(self, step: FinishedStep) -> Steps:
        """These steps with `step` finished, and none started."""
        finished = sorted((*self.finished, step), key=lambda each: (each.position, each.name))
        return Steps(finished=tuple(finished))

    def cleared(self) -> Steps:
        """These steps with none started."""
        return replace(self, started=None)


NO_STEPS = Steps()
