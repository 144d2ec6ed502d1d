"""Retries of calls to the store: when, how often, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from oncekey.errors import StoreError
from oncekey.flow.commands import (
    Asked,
    Fetch,
    Pause,
    Read,
    ReadCounter,
    ReadPauses,
    Save,
    Transact,
    Write,
)
from oncekey.record.stored_answer import OBJECT_CALL_TIMEOUT_MS, Place
from oncekey.store.store import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.flow.commands import Flow
    from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable
    from oncekey.record.counter import Counter
    from oncekey.record.pause import Pause as OperatorsPause
    from oncekey.record.record import Record
    from oncekey.record.stored_answer import Blob, StoredRef
    from oncekey.record.transitions import Transition
    from oncekey.store.store import Written

R = TypeVar("R")

_FIRST_DELAY_MS = 50
_LONGEST_DELAY_MS = 1_000
_FEW = 3
# A burst of a tenant's new keys contends for its counter. A burst of requests for one key is
# throttled. Neither is an outage, and both pass soon: these tries take about three seconds.
_MOST_IN_A_CROWD = 8
_CROWDS = {"counter", "throttled"}


class Budget:
    """How long calls to the store may be tried, and how often they may fail.

    The first try of a call is always made. Another try begins only if it ends by `until_ms` (epoch
    milliseconds), even if it takes `call_timeout_ms`. All calls together may fail `max_failures`
    times; None means that only the time is limited. `failures` counts their failures.
    """

    __slots__ = ("call_timeout_ms", "doubts", "failures", "max_failures", "until_ms")

    def __init__(self, *, until_ms: int, call_timeout_ms: int, max_failures: int | None) -> None:
        self.until_ms = until_ms
        self.call_timeout_ms = call_timeout_ms
        self.max_failures = max_failures
        self.failures = 0
        # The number of failures after which the write may have been applied, or may be still.
        self.doubts = 0

    def afresh(self) -> Budget:
        """The same budget, without failures yet."""
        return Budget(
            until_ms=self.until_ms,
            call_timeout_ms=self.call_timeout_ms,
            max_failures=self.max_failures,
        )

    def for_longer_calls(self, call_timeout_ms: int) -> Budget:
        """The same budget and its failures so far, for calls that take up to `call_timeout_ms`."""
        longer = self.afresh()
        longer.call_timeout_ms = max(self.call_timeout_ms, call_timeout_ms)
        longer.failures = self.failures
        return longer

    @property
    def is_bounded(self) -> bool:
        """Whether the number of failures is limited, because the caller can retry anyway."""
        return self.max_failures is not None

    def allows(self, next_at_ms: int) -> bool:
        """Whether one more try may begin at `next_at_ms`."""
        failures_left = self.max_failures is None or self.failures < self.max_failures
        return failures_left and next_at_ms + self.call_timeout_ms <= self.until_ms


def few_tries(now_ms: int, call_timeout_ms: int) -> Budget:
    """The budget of a call that is made again later anyway, so that few tries are enough."""
    return Budget(
        until_ms=now_ms + (_FEW + 1) * call_timeout_ms,
        call_timeout_ms=call_timeout_ms,
        max_failures=_FEW,
    )


def delay_ms(failures: int, random_fraction: float) -> int:
    """The pause in milliseconds after `failures` failed tries.

    The longest pause doubles with each failure up to a cap. The pause is between half of it and all
    of it, depending on `random_fraction` (0 to 1).
    """
    longest = min(_LONGEST_DELAY_MS, _FIRST_DELAY_MS << min(failures - 1, 10))
    return int(longest * (1 + random_fraction) / 2)


def write(transition: Transition, budget: Budget, clock: Clock) -> Flow[Written | Refused]:
    """Apply `transition`. After a transient failure, send it again unchanged within `budget`.

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
    """Apply `whole`. After a transient failure, send it again unchanged within `budget`.

    `is_landed` says whether a record shows that the commit has been applied.

    Raises:
        StoreError: the last failure. The commit may have been applied.
    """
    from oncekey.record.commit import ConditionsFailed, Inapplicable

    doubts_before = budget.doubts
    reply = await _repeated(Transact(whole), budget, clock)
    is_refused = isinstance(reply, ConditionsFailed | Inapplicable)
    if not is_refused or budget.doubts == doubts_before or whole.transition is None:
        return reply
    # An earlier try may have been applied, so that a condition failed because of its own writes. Or
    # it may still be applied, so that this refusal does not decide.
    met = await read(whole.transition.pk, budget, clock)
    if is_landed(met):
        return Refused(met)
    raise StoreError("an earlier sending may still be applied", transient=True)


def read(pk: str, budget: Budget, clock: Clock) -> Flow[Record | None]:
    """Read a record. After a transient failure, try again within `budget`.

    Raises:
        StoreError: the last failure.
    """
    return _repeated(Read(pk), budget, clock)


def read_counter(name: str, budget: Budget, clock: Clock) -> Flow[Counter | None]:
    """Read a quota's counter. After a transient failure, try again within `budget`.

    Raises:
        StoreError: the last failure.
    """
    return _repeated(ReadCounter(name), budget, clock)


def read_pauses(budget: Budget, clock: Clock) -> Flow[tuple[OperatorsPause, ...]]:
    """Read all pauses. After a transient failure, try again within `budget`.

    Raises:
        StoreError: the last failure.
    """
    return _repeated(ReadPauses(), budget, clock)


def save(blob: Blob, budget: Budget, clock: Clock) -> Flow[None]:
    """Save a companion or an object. After a transient failure, try again within `budget`.

    Raises:
        StoreError: the last failure.
    """
    return _repeated(Save(blob), _for(blob.at, budget), clock)


def fetch(at: StoredRef, budget: Budget, clock: Clock) -> Flow[bytes | None]:
    """Fetch a companion or an object. After a transient failure, try again within `budget`.

    Raises:
        StoreError: the last failure.
    """
    return _repeated(Fetch(at), _for(at, budget), clock)


def _for(at: StoredRef, budget: Budget) -> Budget:
    if at.place is not Place.OBJECT:
        return budget
    return budget.for_longer_calls(OBJECT_CALL_TIMEOUT_MS)


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
