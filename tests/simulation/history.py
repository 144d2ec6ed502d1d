"""What happened in one simulated run, as seen from outside by somebody who misses nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey.outcome import Outcome
    from oncekey.record import Record
    from oncekey.transitions import Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a handler answers: unlike every other answer, so that no mix-up goes unnoticed."""

    operation_id: str
    attempt: int
    by: str
    is_final: bool = True

    @property
    def stored(self) -> str:
        """The stored form."""
        return f"{self.operation_id}/{self.attempt}/{self.by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event at a true time, which no actor's clock need show."""

    at_ms: int
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Event):
    """A caller sent its request."""

    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrote(Event):
    """A write reached the store. `late`: after its sender had given it up or was dead."""

    transition: Transition
    permitted: bool
    before: Record | None
    after: Record | None
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(Event):
    """A caller concluded that it holds the lease; `own_ms` is the time by its own clock."""

    operation_id: str
    attempt: int
    own_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Began(Event):
    """A caller's handler began to run."""

    operation_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned(Event):
    """A caller's handler returned or raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected(Event):
    """The outside world changed on behalf of an attempt, whether or not its sender still lives."""

    operation_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told(Event):
    """A caller got its answer."""

    fingerprint: str
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Died(Event):
    """An actor was killed, or a settler came to its end: it does nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept(Event):
    """DynamoDB deleted an expired item."""

    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed(Event):
    """All faults are over; from here on callers only come back, time passes, settlers run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What may be counted on in a run.

    `killed_in_time`: an invocation is killed at its deadline, as in Lambda.
    `clocks_agree`: all clocks differ by less than the lease's margin.
    """

    killed_in_time: bool = True
    clocks_agree: bool = True
    most_skew_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The events of one run, in the order of their true times."""

    events: tuple[Event, ...]
    circumstances: Circumstances = Circumstances()
