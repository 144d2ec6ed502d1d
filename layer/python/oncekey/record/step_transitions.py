"""The transitions of a running operation's steps, by its own owner.

```
 from               by           to
 IN_PROGRESS        StartStep    IN_PROGRESS, the step in doubt
 IN_PROGRESS        FinishStep   IN_PROGRESS, the step on record
 IN_PROGRESS        ClearStep    IN_PROGRESS, the step as if never started
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey.steps import FinishedStep, StartedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStep:
    """The step is about to run: in doubt from now on. It and every other mark are absent."""

    pk: str
    owner: str
    step: StartedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishStep:
    """The step is done, or a commit has reached its recovery point; it is absent so far.

    `mark` is that of its start, or None if it was never marked: then no step is. A step that was
    marked is ended only if the mark on record is its own, by name, place and number.
    """

    pk: str
    owner: str
    step: FinishedStep
    mark: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearStep:
    """The step is proven not to have been executed; the mark on record is the very one."""

    pk: str
    owner: str
    step: StartedStep


StepTransition = StartStep | FinishStep | ClearStep
