"""The real clock's random tokens and ids."""

from __future__ import annotations

import random
import re
import uuid

from oncekey.clock import SystemClock


def test_an_operations_id_is_a_random_uuid() -> None:
    """Ids are UUIDs of version 4, in their usual text, and each digit but those two is random.

    Red when a digit is always the same, or version or variant are not set.
    """
    ids = [SystemClock().new_operation_id() for _ in range(500)]

    for each in ids:
        known = uuid.UUID(each)
        assert (str(known), known.version, known.variant) == (each, 4, uuid.RFC_4122)
    drawn = [len(set(digits)) for digits in zip(*ids, strict=True)]
    dashes, version, variant = {8, 13, 18, 23}, 14, 19
    for place, different in enumerate(drawn):
        expected = 1 if place in {*dashes, version} else 4 if place == variant else 16
        assert different == expected


def test_jitter_differs_between_sandboxes_that_a_snapshot_made() -> None:
    """A snapshot keeps the state of the module `random`. Sandboxes made from it would all pause
    for the same time, and come back together.
    """
    drawn, snapshot = set(), random.getstate()
    for _ in range(50):
        random.setstate(snapshot)
        drawn.add(SystemClock().random_fraction())

    assert len(drawn) == 50
    assert all(0 <= each < 1 for each in drawn)
    assert min(drawn) < 0.3 < 0.7 < max(drawn)


def test_an_owner_is_128_random_bits() -> None:
    """An owner is 22 digits of base64 that a URL takes, and no two are alike.

    Red when it is shortened, or has signs that a URL or a condition would escape.
    """
    owners = {SystemClock().new_owner() for _ in range(2_000)}

    assert len(owners) == 2_000
    assert all(re.fullmatch(r"[\w-]{22}", owner, re.ASCII) for owner in owners)
    drawn = [len(set(digits)) for digits in zip(*owners, strict=True)]
    # The last digit has four of its bits left over.
    assert drawn == [64] * 21 + [4]
