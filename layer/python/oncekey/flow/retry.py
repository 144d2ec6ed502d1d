"""Asking the store again: when, how often, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from oncekey.errors import StoreError
from oncekey.flow.commands import Asked, Fetch, Pause, Read, ReadCounter, Save, Transact, Write
from oncekey.record.stored_answer import OBJECT_CALL_TIMEOUT_MS, Place
from oncekey.store.store import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.flow.commands import Flow
    from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable
    from oncekey.record.counter import Counter
    from oncekey.record.record import Record
    from oncekey.record.stored_answer import Blob, StoredRef
    from oncekey.record.transitions import Transition
    from oncekey.store.store import Written

R = TypeVar("R")

_FIRST_DELAY_MS = 50
_LONGEST_DELAY_MS = 1_000
_FEW = 3
# A burst of one tenant's new keys meets in its counter; one of requests for one key is throttled.
# That says nothing of the store, and passes: these tries take about three seconds.
_MOST_IN_A_CROWD = 8
_CROWDS = {"counter", "throttled"}


class Budget:
    """How long calls to the store may be tried, and how often they may fail.

    The first try of a call is always made. No further one begins that could still be under way at
    `until_ms`, given that one takes at most `call_timeout_ms`, or after `max_failures` failures of
    all calls together; None where only the time counts. `failures` counts them.
    """

    __slots__ = ("call_timeout_ms", "doubts", "failures", "max_failures", "until_ms")

    def __init__(self, *, until_ms: int, call_timeout_ms: int, max_failures: int | None) -> None:
        self.until_ms = until_ms
        self.call_timeout_ms = call_timeout_ms
        self.max_failures = max_failures
        self.failures = 0
        # Of these, the failures after which what was asked may have been applied.
        self.doubts = 0

    def afresh(self, *, call_timeout_ms: int = 0) -> Budget:
        """A budget without failures yet, for calls that take `call_timeout_ms` if that is more."""
        return Budget(
            until_ms=self.until_ms,
            call_timeout_ms=max(self.call_timeout_ms, call_timeout_ms),
            max_failures=self.max_failures,
        )

    @property
    def is_bounded(self) -> bool:
        """Whether somebody asks again anyway, so that not only the time counts."""
        return self.max_failures is not None

    def allows(self, next_at_ms: int) -> bool:
        """Whether one more try may begin at `next_at_ms`."""
        failures_left = self.max_failures is None or self.failures < self.max_failures
        return failures_left and next_at_ms + self.call_timeout_ms <= self.until_ms


def few_tries(now_ms: int, call_timeout_ms: int) -> Budget:
    """The budget of a call that somebody makes again anyway, which is as good as a longer try."""
    return Budget(
        until_ms=now_ms + (_FEW + 1) * call_timeout_ms,
        call_timeout_ms=call_timeout_ms,
        max_failures=_FEW,
    )


def delay_ms(failures: int, random_fraction: float) -> int:
    """The pause after `failures` failed tries.

    It doubles up to a cap; chance takes it to between half and all of that.
    """
    longest = min(_LONGEST_DELAY_MS, _FIRST_DELAY_MS << min(failures - 1, 10))
    return int(longest * (1 + random_fraction) / 2)


def write(transition: Transition, budget: Budget, clock: Clock) -> Flow[Written | Refused]:
    """Apply `transition`, sent again unchanged after a transient failure, within `budget`.

    Raises:
        StoreError: the last failure. The transition may have been applied.
    """
    return _repeated(Write(transition), budget, clock)


async def commit(
    whole: Commit,
    budget: Budget,
    clock: Clock,
    is_landed: Callable[[Record | None], bool],
) -> Written | Refused | ConditionsFailed | Inapplicable:
    """Apply a commit, sent again unchanged after a transient failure, within `budget`.

    `is_landed` says of a record whether the commit has been applied to it.

    Raises:
        StoreError: the last failure. The commit may have been applied.
    """
    from oncekey.record.commit import ConditionsFailed, Inapplicable

    doubts_before = budget.doubts
    reply = await _repeated(Transact(whole), budget, clock)
    is_refused = isinstance(reply, ConditionsFailed | Inapplicable)
    if not is_refused or budget.doubts == doubts_before or whole.transition is None:
        return reply
    # An earlier sending may have been applied: then a condition failed on its own writes. Or it may
    # land still, so that the refusal is not the last word.
    met = await read(whole.transition.pk, budget, clock)
    if is_landed(met):
        return Refused(met)
    raise StoreError("an earlier sending may still be applied", transient=True)


def read(pk: str, budget: Budget, clock: Clock) -> Flow[Record | None]:
    """Read a record, again after a transient failure, within `budget`.

    Raises:
        StoreError: the last failure.
    """
    return _repeated(Read(pk), budget, clock)


def read_counter(name: str, budget: Budget, clock: Clock) -> Flow[Counter | None]:
    """Read a quota's counter, again after a transient failure, within `budget`.

    Raises:
        StoreError: the last failure.
    """
    return _repeated(ReadCounter(name), budget, clock)


def save(blob: Blob, budget: Budget, clock: Clock) -> Flow[None]:
    """Save an answer beside its record, again after a transient failure, within `budget`.

    Raises:
        StoreError: the last failure.
    """
    return _repeated(Save(blob), _for(blob.at, budget), clock)


def fetch(at: StoredRef, budget: Budget, clock: Clock) -> Flow[bytes | None]:
    """Fetch a kept answer, again after a transient failure, within `budget`.

    Raises:
        StoreError: the last failure.
    """
    return _repeated(Fetch(at), _for(at, budget), clock)


def _for(at: StoredRef, budget: Budget) -> Budget:
    if at.place is not Place.OBJECT:
        return budget
    longer = budget.afresh(call_timeout_ms=OBJECT_CALL_TIMEOUT_MS)
    longer.failures = budget.failures
    return longer


async def _repeated(command: Asked[R], budget: Budget, clock: Clock) -> R:
    failures = crowded = 0
    while True:
        try:
            return await command
        except StoreError as error:
            failures += 1
            if error.contention in _CROWDS:
                crowded += 1
            else:
                budget.failures += 1
            budget.doubts += not error.is_harmless
            delay = delay_ms(failures, clock.random_fraction())
            is_over = not error.transient or (crowded >= _MOST_IN_A_CROWD and budget.is_bounded)
            if is_over or not budget.allows(clock.now_ms() + delay):
                raise
        await Pause(delay)
