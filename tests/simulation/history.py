"""What happened in one simulated run, as seen from outside by somebody who misses nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from oncekey.record.transitions import Reserve

if TYPE_CHECKING:
    from oncekey.record.message import Message
    from oncekey.record.outcome import Outcome
    from oncekey.record.record import Effects, Record
    from oncekey.record.transitions import Transition

_BETWEEN = "|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a handler answers: unlike every other answer, so that no mix-up goes unnoticed.

    What that of a recorded handler says has happened: `effects` by their results, and business
    `writes` by their items.
    """

    operation_id: str
    attempt: int
    by: str
    is_final: bool = True
    status: int = 201
    effects: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    @property
    def stored(self) -> str:
        """The stored form."""
        text = f"{self.operation_id}/{self.attempt}/{self.by}"
        if not (self.effects or self.writes):
            return text
        return "\n".join((text, _BETWEEN.join(self.effects), _BETWEEN.join(self.writes)))


def claims_of(stored: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The effects and the business writes that a stored answer says have happened."""
    _, effects, writes = [*stored.split("\n"), "", ""][:3]
    return _parts(effects), _parts(writes)


def _parts(text: str) -> tuple[str, ...]:
    return tuple(text.split(_BETWEEN)) if text else ()


# Nobody changes an event. They are not frozen, because making a frozen one takes three times as
# long, and there are dozens in each of millions of runs.


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Event:
    """One event at a true time, which no actor's clock need show."""

    at_ms: int
    actor: str


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Asked(Event):
    """A caller sent its request."""

    fingerprint: str


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Wrote(Event):
    """A write reached the store. `late`: after its sender had given it up or was dead.

    `writes` and `messages` are what it added to the business tables, by their items, and to the
    outbox. `answer` is the text of the answer that it completed the operation with.
    """

    transition: Transition
    permitted: bool
    before: Record | None
    after: Record | None
    late: bool = False
    writes: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    answer: str = ""


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Looked(Event):
    """An actor read what is paused: everything, or nothing."""

    is_paused: bool


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Held(Event):
    """A caller concluded that it holds the lease; `own_ms` is the time by its own clock."""

    operation_id: str
    attempt: int
    own_ms: int


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Began(Event):
    """A caller's handler began to run."""

    operation_id: str
    attempt: int


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Returned(Event):
    """A caller's handler returned or raised."""


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class StepBegan(Event):
    """The function of a recorded handler's step was called."""

    operation_id: str
    attempt: int
    step: str
    is_idempotent: bool


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Affected(Event):
    """The outside world changed on behalf of an attempt, whether or not its sender still lives.

    `step` is empty where a handler did it on its own, `key` where the provider would not recognise
    a repeat. `result` is what the provider answers.
    """

    operation_id: str
    attempt: int
    step: str = ""
    key: str = ""
    result: str = ""


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Recognised(Event):
    """The provider knew the key of a call, and did nothing."""

    operation_id: str
    attempt: int
    step: str


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Kept(Event):
    """A result or an answer was kept beside its record."""

    name: str


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Escalated(Event):
    """The escalation queue took a message for a person."""

    body: str


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Told(Event):
    """A caller got its answer."""

    fingerprint: str
    outcome: Outcome


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Died(Event):
    """An actor was killed, or a settler came to its end: it does nothing more."""


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Swept(Event):
    """DynamoDB deleted an expired item."""

    record: Record


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Healed(Event):
    """All faults are over; from here on callers only come back, time passes, settlers run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What may be counted on in a run.

    `killed_in_time`: an invocation is killed at its deadline, as in Lambda.
    `clocks_agree`: all clocks differ by less than the lease's margin. `records_effects`: the
    effects are recorded. `remembers`: sandboxes remember answers. `progress_ms`: within this time
    after the last fault, everybody has an answer.
    """

    killed_in_time: bool = True
    clocks_agree: bool = True
    most_skew_ms: int = 0
    records_effects: bool = False
    remembers: bool = False
    progress_ms: int | None = None

    @property
    def owners_die_in_time(self) -> bool:
        """Whether an attempt is over before anybody else can call its lease over."""
        return self.killed_in_time and self.clocks_agree

    @property
    def leases_are_exact(self) -> bool:
        """Whether no attempt begins anything by its own clock once its lease is over."""
        return self.owners_die_in_time or not self.most_skew_ms


@dataclass(frozen=True, kw_only=True)
class History:
    """The events of one run, in the order of their true times."""

    events: tuple[Event, ...]
    circumstances: Circumstances = Circumstances()

    @cached_property
    def applied(self) -> tuple[Wrote, ...]:
        """The writes that were permitted."""
        return tuple(event for event in self.events if isinstance(event, Wrote) and event.permitted)

    @cached_property
    def answers(self) -> tuple[Told, ...]:
        """What callers were told."""
        return tuple(event for event in self.events if isinstance(event, Told))

    @cached_property
    def effects(self) -> tuple[Affected, ...]:
        """What happened in the outside world."""
        return tuple(event for event in self.events if isinstance(event, Affected))

    @cached_property
    def ids_reserved_again(self) -> frozenset[str]:
        """The operations whose id a reservation took again, for another life of their key.

        A reservation that is still under way when its record is deleted finds the key free. What
        is promised of one operation is not promised of both lives together.
        """
        found: set[str] = set()
        again: set[str] = set()
        for write in self.applied:
            if isinstance(write.transition, Reserve):
                operation_id = write.transition.record.operation_id
                (again if operation_id in found else found).add(operation_id)
        return frozenset(again)

    @cached_property
    def kinds_of_effects(self) -> dict[str, frozenset[Effects]]:
        """What the attempts of each operation have declared."""
        found: dict[str, set[Effects]] = {}
        for write in self.applied:
            if write.after is not None:
                found.setdefault(write.after.operation_id, set()).add(write.after.effects)
        return {name: frozenset(kinds) for name, kinds in found.items()}
