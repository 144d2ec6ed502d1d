"""Checks how one run uses the operation object, and tracks its running step."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from oncekey.errors import EffectMisused


@dataclass(slots=True)
class UsageGuard:
    """The use of the operation object in one run. `open_step` is the running step or commit.

    An exception may leave a step at any point, because a signal handler can raise anywhere. So a
    step counts as `untold` from its beginning until the handler gets its result. No code needs to
    run to detect a step that was left.
    """

    is_used: bool = False
    open_step: str | None = None
    # The step or commit whose result the handler has not got.
    untold: str | None = None
    # Whether another step or commit was begun after one that was left untold.
    was_left: bool = False
    # Whether the handler has ended.
    is_over: bool = False
    # Two threads may call at once. The same thread may call again from a signal handler.
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def is_left(self) -> bool:
        """Whether a step or commit was begun, and the handler never got its result."""
        return self.was_left or self.untold is not None or self.open_step is not None

    def check_outside_step(self, what: str) -> None:
        """Check that `what` may be used now.

        Raises:
            EffectMisused: the handler has ended, or a step or commit is running. A resumed run
                skips the finished step, and so would skip `what` inside it. Of two effects at the
                same time, the record could not say which one happened.
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
        """Check that the downstream key of `name` may be used now.

        Raises:
            EffectMisused: a step with another name is running. The key would belong to a second
                effect, which the step's resolver could not look up.
        """
        self.is_used = True
        if self.open_step is not None and name != self.open_step:
            raise EffectMisused(
                f"the step {self.open_step!r} asks for the downstream key of {name!r}: a step holds"
                f" one outside effect, under op.downstream_key({self.open_step!r}); make two steps"
                " of two effects"
            )

    def open(self, name: str, what: str) -> None:
        """Begin the step or commit `name`. It runs until `tell` or `leave`.

        Raises:
            EffectMisused: as for `check_outside_step`. Of two threads, one is refused.
        """
        with self._lock:
            self.check_outside_step(what)
            self.open_step = name
            self.was_left = self.was_left or self.untold is not None
            self.untold = name

    def tell(self) -> None:
        """The handler gets the step's result. No code that can fail may follow."""
        self.untold = None
        self.open_step = None

    def leave(self, untold: str | None) -> None:
        """An exception leaves the step. `untold` names it if its result was lost."""
        self.untold = untold or self.untold
        self.open_step = None
