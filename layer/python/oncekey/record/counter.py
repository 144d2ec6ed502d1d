"""Counters of keys: when one more is permitted, and what it leaves.

`oncekey.store.dynamodb.counters` says the same to DynamoDB; a contract test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# What one write takes off. A retention has 25 buckets, so there are more only where many
# retentions share a counter; the rest goes with the next write.
_MOST_TAKEN_OFF = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """What is stored of a counter.

    `buckets`: how many of `count` run out together, by when (epoch seconds). A counter of a window
    has none: it is forgotten as a whole.
    """

    count: int = 0
    buckets: Mapping[int, int] = field(default_factory=dict)
    expires_at_s: int = 0

    def frees_at_s(self, now_s: int) -> int | None:
        """When the next of what it counts runs out; None if nothing does."""
        return min((at_s for at_s in self.buckets if at_s > now_s), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """One more key in the counter `name`, if its count is below `limit`.

    `runs_out_at_s` names the bucket that the key is counted in, where there are buckets.
    `taken_off`: the buckets that have run out, as they were seen; they are removed by the same
    write, which is refused if one of them is not as it was. `expires_at_s`: when DynamoDB may
    remove the item. `tenant` tells the people who operate the table whose it is.
    """

    name: str
    tenant: str
    limit: int
    expires_at_s: int
    runs_out_at_s: int | None = None
    taken_off: tuple[tuple[int, int], ...] = ()

    @property
    def freed(self) -> int:
        """How many keys are taken off by the same write."""
        return sum(keys for _, keys in self.taken_off)


@dataclass(frozen=True, slots=True)
class RefusedCount:
    """A count that its counter did not permit; `counter` is what stood there, or None."""

    count: Count
    counter: Counter | None


def admits(counter: Counter | None, count: Count) -> bool:
    """Whether `counter` (None: it does not exist) permits `count`."""
    if counter is None:
        return not count.taken_off
    is_as_seen = all(counter.buckets.get(at_s) == keys for at_s, keys in count.taken_off)
    return is_as_seen and counter.count < count.limit + count.freed


def counted(counter: Counter | None, count: Count) -> Counter:
    """What `count` leaves of `counter`, which permits it."""
    before = counter or Counter()
    removed = {at_s for at_s, _ in count.taken_off}
    buckets = {at_s: keys for at_s, keys in before.buckets.items() if at_s not in removed}
    if count.runs_out_at_s is not None:
        buckets[count.runs_out_at_s] = buckets.get(count.runs_out_at_s, 0) + 1
    return Counter(
        count=before.count - count.freed + 1, buckets=buckets, expires_at_s=count.expires_at_s
    )


def after_refusal(refused: RefusedCount, now_s: int) -> Count | None:
    """What to try next, now that `refused.counter` is known; None if that is full.

    Where there is no counter, nothing has been counted.
    """
    counter = refused.counter
    run_out = sorted((at_s, keys) for at_s, keys in _buckets(counter).items() if at_s <= now_s)
    again = replace(refused.count, taken_off=tuple(run_out[:_MOST_TAKEN_OFF]))
    return again if admits(counter, again) else None


def _buckets(counter: Counter | None) -> Mapping[int, int]:
    return {} if counter is None else counter.buckets
