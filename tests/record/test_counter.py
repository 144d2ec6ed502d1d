"""The counter of a quota: which counts it permits, and what each leaves."""

from __future__ import annotations

import pytest

from oncekey.record.counter import Count, Counter, RefusedCount, admits, after_refusal, counted
from tests.support.replacing import replace

NOW_S = 1_700_000_000
COUNT = Count(name="quota#a", tenant="a", limit=3, expires_at_s=NOW_S + 90)
FREEING = replace(COUNT, taken_off=((NOW_S - 1, 2),))


@pytest.mark.parametrize(
    ("stored", "count", "permits"),
    [
        (None, COUNT, True),
        (Counter(count=2), COUNT, True),
        (Counter(count=3), COUNT, False),
        (Counter(count=4, buckets={NOW_S - 1: 2}), FREEING, True),
        (Counter(count=5, buckets={NOW_S - 1: 2}), FREEING, False),
        # Another write has removed the expired keys, or has counted more of them.
        (None, FREEING, False),
        (Counter(count=2), FREEING, False),
        (Counter(count=2, buckets={NOW_S - 1: 1}), FREEING, False),
    ],
)
def test_a_counter_permits_what_is_below_its_limit_and_as_it_was_read(
    stored: Counter | None, count: Count, permits: bool
) -> None:
    """A key is counted below the limit, after the expired keys that the same write removes; and
    only if these are still as they were read, so that nobody removes them twice.
    """
    assert admits(stored, count) is permits


def test_a_count_adds_one_and_removes_what_it_frees() -> None:
    """The key is counted in its bucket, the expired buckets leave, and the others stay."""
    before = Counter(count=5, buckets={NOW_S - 1: 2, NOW_S + 60: 3}, expires_at_s=NOW_S)

    first = counted(before, replace(FREEING, runs_out_at_s=NOW_S + 120))
    again = counted(first, replace(COUNT, runs_out_at_s=NOW_S + 120))

    assert first == Counter(
        count=4, buckets={NOW_S + 60: 3, NOW_S + 120: 1}, expires_at_s=NOW_S + 90
    )
    assert again == Counter(
        count=5, buckets={NOW_S + 60: 3, NOW_S + 120: 2}, expires_at_s=NOW_S + 90
    )
    assert counted(None, COUNT) == Counter(count=1, expires_at_s=NOW_S + 90)


def test_no_write_removes_the_bucket_that_it_counts_in() -> None:
    """With a retention of seconds, the key's own bucket may run out while it is being counted.

    Red when one write changes an attribute twice, which DynamoDB refuses as invalid.
    """
    mine = replace(COUNT, runs_out_at_s=NOW_S)
    full = Counter(count=3, buckets={NOW_S - 5: 1, NOW_S: 2})

    assert after_refusal(RefusedCount(mine, full), NOW_S) == replace(
        mine, taken_off=((NOW_S - 5, 1),)
    )
    assert after_refusal(RefusedCount(mine, Counter(count=3, buckets={NOW_S: 3})), NOW_S) is None


def test_after_a_refusal_the_expired_keys_are_removed_with_the_next_count() -> None:
    """Keys expire in their very second. A counter that is full of living keys refuses for good."""
    full = Counter(count=3, buckets={NOW_S: 1, NOW_S - 5: 1, NOW_S + 1: 1})

    again = after_refusal(RefusedCount(COUNT, full), NOW_S)

    assert again == replace(COUNT, taken_off=((NOW_S - 5, 1), (NOW_S, 1)))
    assert (
        after_refusal(RefusedCount(COUNT, Counter(count=3, buckets={NOW_S + 1: 3})), NOW_S) is None
    )
    assert after_refusal(RefusedCount(FREEING, None), NOW_S) == COUNT


def test_one_write_removes_at_most_fifty_buckets() -> None:
    """A transaction's expressions have a limit; the next write removes the rest."""
    many = Counter(count=60, buckets={NOW_S - number: 1 for number in range(60)})

    again = after_refusal(RefusedCount(replace(COUNT, limit=100), many), NOW_S)

    assert again is not None
    assert again.freed == 50
    assert min(at_s for at_s, _ in again.taken_off) == NOW_S - 59


def test_the_next_keys_expire_with_the_first_bucket_that_is_still_to_come() -> None:
    """A client that is refused is told when there is room again."""
    assert Counter(buckets={NOW_S: 1, NOW_S + 7: 1, NOW_S + 9: 1}).frees_at_s(NOW_S) == NOW_S + 7
    assert Counter(buckets={NOW_S: 1}).frees_at_s(NOW_S) is None
