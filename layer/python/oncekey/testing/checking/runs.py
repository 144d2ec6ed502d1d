"""What is checked, its undisturbed run, and how any run goes on until it is answered."""

from __future__ import annotations

import copy
from collections import Counter
from typing import TYPE_CHECKING, Any

from oncekey.clock import SystemClock
from oncekey.record.record import Status
from oncekey.settings import MAX_KEY_LENGTH
from oncekey.testing.checking import altered_events
from oncekey.testing.checking.stage import Stage
from oncekey.testing.crash_points import CrashPoint
from oncekey.value import Value, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from oncekey.record.record import Record
    from oncekey.store.store import Store
    from oncekey.testing.checking.processes import Observed, Sent

# A retry after each crash, resolver's answer and message, with some to spare.
_MOST_ROUNDS = 8
_ROUNDS_UNKNOWN = 3


class Subject(Value, kw_only=True):
    """What is checked: see `oncekey.testing.assert_idempotent`."""

    call: Callable[[Any], Any] = field(repr=False)
    event: Any = field(repr=False)
    effects: Observed | None
    writes: Observed | None
    store: Callable[[], Store] = field(repr=False)
    jobs: Sequence[Any] = field(repr=False)
    failing: Callable[[], AbstractContextManager[object]] | None = field(repr=False)
    other_body: Any = field(repr=False)
    ignored: Sequence[str]
    other_tenant: Any = field(repr=False)
    reset: Callable[[], object] | None = field(repr=False)
    seed: int

    @property
    def is_http(self) -> bool:
        """Whether the handler is sent HTTP requests."""
        return altered_events.is_http(self.event)

    @property
    def observed(self) -> list[Observed]:
        """What the test sees of the effects."""
        return [each for each in (self.effects, self.writes) if each is not None]

    def stage(self, point: CrashPoint | None = None) -> Stage:
        """A stage that nothing has happened on."""
        if self.reset is not None:
            self.reset()
        return Stage(self.call, self.store(), self.observed, queued=self.jobs, point=point)

    def request(self) -> Any:
        """The event, in an HTTP request under a fresh key."""
        if not self.is_http:
            return copy.deepcopy(self.event)
        # An operation may demand longer keys than a UUID, and the event's own is long enough.
        length = min(len(altered_events.key_of(self.event)), MAX_KEY_LENGTH)
        drawn = SystemClock().new_operation_id().ljust(length, "-")
        return altered_events.with_key(self.event, drawn)


class First(Value, kw_only=True):
    """What the undisturbed run came to. The others are compared to it.

    `grown` counts the effects by kind, and `made` also by where they were made. `calls` are the
    calls of the store. `written` counts the rows and messages of transactions. `stored` is the
    answer that was stored.
    """

    record: Record
    grown: dict[str, int]
    made: dict[str, Counter[str]]
    calls: list[str]
    written: int
    stored: Any = field(repr=False)

    @property
    def points(self) -> Iterator[CrashPoint]:
        """Before and after each call of the store."""
        counts: Counter[str] = Counter()
        for call in self.calls:
            counts[call] += 1
            for is_after in (False, True):
                yield CrashPoint(call, is_after, counts[call])


def to_the_end(
    stage: Stage, event: Any, *, at_kill: Callable[[], None] = lambda: None
) -> list[Sent]:
    """Send the event, and again after each failure, until it is answered or stays unknown.

    Returns the outcome of each sending. `at_kill` is called after the process was killed.
    """
    sent: list[Sent] = []
    unknown = 0
    for _ in range(_MOST_ROUNDS):
        sent.append(stage.send(event))
        stage.deliver()
        if stage.takes_kill():
            at_kill()
        record = stage.record()
        if record is not None and record.status is Status.COMPLETED:
            if sent[-1].is_killed:
                continue
            if stage.has_jobs:
                # The first answer of a job is its 202.
                sent.append(stage.send(event))
            break
        unknown += record is not None and record.status is Status.UNKNOWN
        if unknown >= _ROUNDS_UNKNOWN:
            break
        # After some crashes the client is the first to come back, after others the reconciler.
        point = stage.trap.point
        stage.let_pass(reconciles=len(sent) > 1 or (point is not None and point.is_after))
    return sent


def made_on(stage: Stage) -> dict[str, Counter[str]]:
    """How many effects all processes made, by kind and place."""
    made: dict[str, Counter[str]] = {each.name: Counter() for each in stage.observed}
    for process in stage.processes:
        for (kind, place), number in process.made.items():
            made[kind][place] += number
    return made


def effects_on(stage: Stage) -> int:
    """How many effects, rows and messages there are, of all kinds that the test sees."""
    return sum(stage.grown(each) for each in stage.observed) + stage.written
