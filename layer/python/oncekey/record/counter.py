"""Counters of keys: when one more key is permitted, and how it changes the counter.

`oncekey.store.dynamodb.counters` writes the same rules as DynamoDB expressions; a contract test
compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.value import Value, field, replace

if TYPE_CHECKING:
    from collections.abc import Mapping

# The most buckets that one write removes. A retention has 25 buckets, so there are more only if
# many retentions share a counter. The next write removes the rest.
_MOST_TAKEN_OFF = 50


class Counter(Value, kw_only=True):
    """A stored counter.

    `buckets` maps a time (epoch seconds) to the number of keys in `count` that expire then. A
    counter of a window has no buckets: it expires as a whole.
    """

    count: int = 0
    buckets: Mapping[int, int] = field(default_factory=dict)
    expires_at_s: int = 0

    def frees_at_s(self, now_s: int) -> int | None:
        """When the next counted keys expire; None if none do."""
        return min((at_s for at_s in self.buckets if at_s > now_s), default=None)


class Count(Value, kw_only=True):
    """One more key in the counter `name`, if its count is below `limit`.

    `runs_out_at_s` names the bucket that the key is counted in, if the counter has buckets.
    `taken_off` lists the expired buckets as they were read. The same write removes them, and is
    refused if one of them has changed. `expires_at_s` is when DynamoDB may remove the item.
    `tenant` tells the operators of the table whose counter it is.
    """

    name: str
    tenant: str
    limit: int
    expires_at_s: int
    runs_out_at_s: int | None = None
    taken_off: tuple[tuple[int, int], ...] = ()

    @property
    def freed(self) -> int:
        """How many expired keys the same write removes from the count."""
        return sum(keys for _, keys in self.taken_off)


class RefusedCount(Value):
    """A count that its counter did not permit; `counter` is the stored one, or None."""

    count: Count
    counter: Counter | None


def admits(counter: Counter | None, count: Count) -> bool:
    """Whether `counter` (None: it does not exist) permits `count`."""
    if counter is None:
        return not count.taken_off
    is_as_seen = all(counter.buckets.get(at_s) == keys for at_s, keys in count.taken_off)
    return is_as_seen and counter.count < count.limit + count.freed


def counted(counter: Counter | None, count: Count) -> Counter:
    """`counter` after `count`, which it permits."""
    before = counter or Counter()
    removed = {at_s for at_s, _ in count.taken_off}
    buckets = {at_s: keys for at_s, keys in before.buckets.items() if at_s not in removed}
    if count.runs_out_at_s is not None:
        buckets[count.runs_out_at_s] = buckets.get(count.runs_out_at_s, 0) + 1
    return Counter(
        count=before.count - count.freed + 1, buckets=buckets, expires_at_s=count.expires_at_s
    )


def after_refusal(refused: RefusedCount, now_s: int) -> Count | None:
    """The count to try next, now that `refused.counter` is known; None if the counter is full.

    A counter that does not exist has counted nothing.
    """
    counter = refused.counter
    # One write cannot both count in a bucket and remove it.
    own_at_s = refused.count.runs_out_at_s
    run_out = sorted(
        (at_s, keys)
        for at_s, keys in _buckets(counter).items()
        if at_s <= now_s and at_s != own_at_s
    )
    again = replace(refused.count, taken_off=tuple(run_out[:_MOST_TAKEN_OFF]))
    return again if admits(counter, again) else None


def _buckets(counter: Counter | None) -> Mapping[int, int]:
    return {} if counter is None else counter.buckets
