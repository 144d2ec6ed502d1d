"""How the operation object is used in one run: whether at all, and what is under way."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.recorded_errors import EffectMisused

if TYPE_CHECKING:
    from collections.abc import Generator


@dataclass(slots=True)
class Use:
    """What the run has asked for. `open_step` is the step or commit under way."""

    is_used: bool = False
    open_step: str | None = None
    # Whether the handler has ended.
    is_over: bool = False

    def check_outside_step(self, what: str) -> None:
        """Whether `what` may be asked for now.

        Raises:
            EffectMisused: the handler has ended, or a step or commit is under way. What is asked
                for inside a step is not asked for when the step is on record, and a second effect
                at the same time could not be told from the first.
        """
        self.is_used = True
        if self.is_over:
            raise EffectMisused(
                f"{what} after the handler has ended: its operation is over; take the operation of"
                " the request at hand, from the handler's argument or current_operation()"
            )
        if self.open_step is not None:
            raise EffectMisused(
                f"{what} inside the step {self.open_step!r}, or beside it: a step holds one outside"
                " effect and nothing else, and steps run one after the other; call it before or"
                " after the step"
            )

    def note_key(self, name: str) -> None:
        """A downstream key is asked for.

        Raises:
            EffectMisused: in a step, under another name than its own: it would be that of a second
                effect, and the step's resolver could not look for it.
        """
        self.is_used = True
        if self.open_step is not None and name != self.open_step:
            raise EffectMisused(
                f"the step {self.open_step!r} asks for the downstream key of {name!r}: a step holds"
                f" one outside effect, under op.downstream_key({self.open_step!r}); make two steps"
                " of two effects"
            )

    @contextmanager
    def inside(self, name: str) -> Generator[None]:
        """The step or commit `name` is under way until the block is left."""
        self.open_step = name
        try:
            yield
        finally:
            self.open_step = None
