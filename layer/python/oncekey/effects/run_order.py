"""The order of an attempt's steps and recovery points, compared with the record.

A resumed run must reach its finished steps with the same names at the same places. Otherwise the
code has changed between releases, and the results on record may belong to other steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oncekey.errors import EffectMisused

if TYPE_CHECKING:
    from oncekey.record.steps import Steps

LONGEST_NAME = 64


@dataclass(slots=True)
class RunOrder:
    """The names reached so far, in their order. `done` are those that have ended."""

    _names: list[str] = field(default_factory=list)
    _done: set[str] = field(default_factory=set)

    def reach(self, name: str, steps: Steps, *, is_commit: bool) -> str | None:
        """Reach the step or commit `name`. Returns why it does not fit the record, or None.

        A step that has not finished may be reached again and keeps its place.

        Raises:
            EffectMisused: the name is invalid, or the step has already been done in this run.
        """
        if not _is_name(name):
            raise EffectMisused(
                f"a step or commit needs a name of 1 to {LONGEST_NAME} characters, as text"
            )
        if name in self._done:
            raise EffectMisused(
                f"{name!r} is done twice in one run: give each step and commit a name of its own"
            )
        if name not in self._names:
            self._names.append(name)
        position = self.position_of(name)
        recorded, here = steps.named(name), steps.at(position)
        if recorded is not None and recorded.position != position:
            return (
                f"the run came to {name!r} at place {position}, and it is on record at place"
                f" {recorded.position}: steps must keep their order between releases"
            )
        if here is not None and here.name != name:
            return (
                f"the run came to {name!r} at place {position}, where {here.name!r} is on record:"
                " steps must keep their names and their order between releases"
            )
        later = [step for step in steps.finished if step.position > position]
        if recorded is None and any(step.name not in self._done for step in later):
            return (
                f"the run came to {name!r} at place {position}, which an earlier attempt passed"
                " over on its way to later ones: it must not be done now. Let a step return that it"
                " was refused, rather than raise it and go on"
            )
        if recorded is not None and recorded.is_commit != is_commit:
            kind = "commit" if recorded.is_commit else "step"
            return f"{name!r} is on record as a {kind}: a step and a commit cannot change places"
        if recorded is not None:
            self._done.add(name)
        return None

    def finish(self, name: str) -> None:
        """The step has ended in this run."""
        self._done.add(name)

    def position_of(self, name: str) -> int:
        """The place of a step that was reached, from 0."""
        return self._names.index(name)

    def missed(self, steps: Steps) -> str | None:
        """A sentence that names the steps on record that this run did not reach; None if none."""
        names = [step.name for step in steps.finished if step.name not in self._names]
        if not names:
            return None
        return (
            f"the run ended without coming to {', '.join(map(repr, names))}, which is on record:"
            " what was done there would be missing from the answer"
        )


def _is_name(name: object) -> bool:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        return False
    # A name with a lone surrogate could not be read back.
    return not any("\ud800" <= letter <= "\udfff" for letter in name)
