"""How the operation object is used in one run: whether at all, and what is under way."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oncekey.recorded_errors import EffectMisused

if TYPE_CHECKING:
    from collections.abc import Generator


@dataclass(slots=True)
class Use:
    """What the run has asked for. `keys` are the downstream keys of the step under way."""

    is_used: bool = False
    open_step: str | None = None
    keys: set[str] = field(default_factory=set)

    def check_outside_step(self, what: str) -> None:
        """Whether `what` may be asked for now.

        Raises:
            EffectMisused: a step or commit is under way. What is asked for inside a step is not
                asked for when the step is on record, and a second effect at the same time could
                not be told from the first.
        """
        self.is_used = True
        if self.open_step is not None:
            raise EffectMisused(
                f"{what} inside the step {self.open_step!r}, or beside it: a step holds one outside"
                " effect and nothing else, and steps run one after the other; call it before or"
                " after the step"
            )

    def note_key(self, name: str) -> None:
        """A downstream key is asked for.

        Raises:
            EffectMisused: it is the second one of a step.
        """
        self.is_used = True
        if self.open_step is None:
            return
        if self.keys - {name}:
            raise EffectMisused(
                f"the step {self.open_step!r} asks for a second downstream key, {name!r}: a step"
                " holds one outside effect; make two steps of it"
            )
        self.keys.add(name)

    @contextmanager
    def inside(self, name: str) -> Generator[None]:
        """The step or commit `name` is under way until the block is left."""
        self.open_step, self.keys = name, set()
        try:
            yield
        finally:
            self.open_step = None
