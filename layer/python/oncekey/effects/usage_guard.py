"""How the operation object is used in one run: whether at all, and what is under way."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from oncekey.errors import EffectMisused


@dataclass(slots=True)
class UsageGuard:
    """What the run has asked for. `open_step` is the step or commit under way.

    An exception may leave a step at any point of its way: a signal's handler raises wherever the
    thread is. So a step counts as `untold` from its beginning, until the handler is given what
    became of it; no code has to run for a step that was left behind to be noticed.
    """

    is_used: bool = False
    open_step: str | None = None
    # The step or commit whose end the handler has not been given.
    untold: str | None = None
    # Whether another one was begun after one that was left untold.
    was_left: bool = False
    # Whether the handler has ended.
    is_over: bool = False
    # Two threads may ask at once. The same thread may ask again, from a signal's handler.
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def is_left(self) -> bool:
        """Whether a step or commit was begun and never came to an end that was told."""
        return self.was_left or self.untold is not None or self.open_step is not None

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

    def open(self, name: str, what: str) -> None:
        """The step or commit `name` is under way, until it is told or left.

        Raises:
            EffectMisused: as for `check_outside_step`; of two threads one is refused.
        """
        with self._lock:
            self.check_outside_step(what)
            self.open_step = name
            self.was_left = self.was_left or self.untold is not None
            self.untold = name

    def tell(self) -> None:
        """The handler is given what became of the step: nothing that can fail may follow."""
        self.untold = None
        self.open_step = None

    def leave(self, untold: str | None) -> None:
        """The step is left by an exception; `untold` names it where its end came and got lost."""
        self.untold = untold or self.untold
        self.open_step = None
