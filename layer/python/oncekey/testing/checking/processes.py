"""What a play sees: processes, the effects that they make and where, and what attempts wrote."""

from __future__ import annotations

import datetime as dt
from collections import Counter as Counts
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.effects.running import current_operation

if TYPE_CHECKING:
    from oncekey.record.record import Record

# Where a process was when an effect was made.
BEFORE = "before the reserve"
OUTSIDE = "in the handler, outside a step"
AFTER = "after the answer was recorded"
COMMITTED = "in the transaction"
STEP = "in the step "


class Observed:
    """What the test can see of one kind of effects. It only grows during a play."""

    def __init__(self, name: str, source: Any) -> None:
        self.name = name
        self._source = source

    def seen(self) -> Any:
        """What the test sees now."""
        return self._source() if callable(self._source) else self._source

    def count(self) -> int:
        """How many effects there are now."""
        seen = self.seen()
        return seen if isinstance(seen, int) else len(seen)

    def last(self, number: int) -> str:
        """The last `number` effects, as lines of a message; empty if the test only counts."""
        seen = self.seen()
        if isinstance(seen, int) or number < 1:
            return ""
        return "".join(f"\n    {each!r}" for each in list(seen)[-number:])


@dataclass(slots=True)
class Process:
    """One invocation: of a request, or of a worker for one message."""

    name: int
    is_dead: bool = False
    # The records that it has begun a life of.
    reserved: list[Record] = field(default_factory=list)
    # How many effects it made where, by the name of their kind.
    made: Counts[tuple[str, str]] = field(default_factory=Counts)
    attempts: set[str] = field(default_factory=set)
    has_asked: bool = False
    last_step: str | None = None

    def place(self, step: str | None) -> str:
        """Where it has been since it was last looked at. `step` is the one that is open now."""
        if step is not None and step == self.last_step:
            return STEP + repr(step)
        if self.attempts:
            return OUTSIDE
        return AFTER if self.has_asked else BEFORE


@dataclass(frozen=True, slots=True)
class Sent:
    """How one process ended."""

    process: Process
    value: Any = field(default=None, repr=False)
    error: Exception | None = field(default=None, repr=False)

    @property
    def is_killed(self) -> bool:
        """Whether it was killed."""
        return self.process.is_dead

    def grown(self, kind: str) -> int:
        """How many effects it made."""
        return sum(n for (name, _), n in self.process.made.items() if name == kind)


@dataclass(frozen=True, slots=True)
class Intended:
    """What one attempt wrote, or was about to write when it was killed, at a commit or its end."""

    pk: str
    owner: str
    call: str
    answer: str | None
    writes: tuple[str, ...]
    messages: tuple[str, ...]


def open_step() -> str | None:
    """The step of the running operation that is open here."""
    try:
        work = current_operation()._work  # noqa: SLF001 -- the same library, which must not show it to handlers
    except LookupError:
        return None
    return None if work is None else work.use.open_step


def names_time(text: str, now_s: int) -> bool:
    """Whether `text` seems to name the present time to the second, as a number or as ISO 8601."""
    here, utc = (dt.datetime.fromtimestamp(now_s, zone) for zone in (None, dt.UTC))
    return any(
        spelling in text
        for spelling in (str(now_s), here.strftime("%H:%M:%S"), utc.strftime("%H:%M:%S"))
    )
