"""The last free place, raced for in all orders of the calls, and with a fault anywhere."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from oncekey import Quota
from oncekey.record import Status
from tests.support.quota_races import Race, every_run
from tests.support.quotas import claim

if TYPE_CHECKING:
    from oncekey.claim import Claim
    from tests.support.quota_races import Script

ONE = Quota(new_keys=1)
BOTH = Quota(new_keys=1, active_keys=1)


def ends(*claims: Claim, faults: int = 0) -> Counter[tuple[str, ...]]:
    """What came of these requests, over every order; nothing is ever counted but what is reserved.

    No record is under a key that is not counted, nothing is counted without its record, and no
    handler runs twice under one key.
    """
    found: Counter[tuple[str, ...]] = Counter()
    quota = claims[0].quota
    assert quota is not None

    def run(script: Script) -> None:
        race = Race(*claims, faults=faults)
        race.play(script)
        found[tuple(request.end for request in race.requests)] += 1
        reserved = len(race.store.records)
        assert all(counter.count == reserved for counter in race.store.counters.values())
        assert reserved <= 1
        assert race.runs <= reserved

    every_run(run)
    return found


@pytest.mark.requirement("C15")
@pytest.mark.parametrize("quota", [ONE, BOTH], ids=["new keys", "and active keys"])
def test_of_two_new_keys_at_the_last_place_exactly_one_wins(quota: Quota) -> None:
    """In every order of their calls one of two runs; the other is told that the quota is used up,
    or, where their transactions met for as long as it tried, that it may come back.

    Red when the place is given by what was read, and not by the write.
    """
    one, other = (claim(key, quota=quota) for key in ("the-key-number-one", "the-key-number-two"))

    found = ends(one, other)

    assert set(found) == {
        ("ran", "quota-exceeded"),
        ("quota-exceeded", "ran"),
        ("ran", "store-unavailable"),
        ("store-unavailable", "ran"),
    }


@pytest.mark.requirement("C15")
def test_two_requests_with_one_key_take_one_place() -> None:
    """In every order of their calls one runs, and the other is a repeat: it is replayed, or told
    that the first is running, and never that a quota is used up.

    Red when a repeat that meets the reserve is counted, or refused for a counter.
    """
    found = ends(claim(quota=BOTH), claim(quota=BOTH))

    assert set(found) == {
        ("ran", "replayed"),
        ("replayed", "ran"),
        ("ran", "request-in-progress"),
        ("request-in-progress", "ran"),
    }


@pytest.mark.requirement("C15")
def test_a_fault_anywhere_counts_no_key_twice_and_none_in_vain() -> None:
    """A transaction that is lost, whose answer is lost, or whose process dies: whatever is counted
    is reserved, and whatever is reserved is counted once.

    Red when a reserve that is sent again counts again, or is counted before it is reserved.
    """
    one, other = (claim(key, quota=ONE) for key in ("the-key-number-one", "the-key-number-two"))

    found = ends(one, other, faults=1)

    assert {end for pair in found for end in pair} == {
        "ran",
        "dead",
        "quota-exceeded",
        "store-unavailable",
    }
    assert not any(pair.count("ran") > 1 for pair in found)


@pytest.mark.requirement("C15")
def test_a_lost_answer_does_not_cost_its_caller_the_place() -> None:
    """A request that is alone runs, whichever of its sendings is lost; its key is counted once.

    Red when a reserve does not know itself again in the record that refuses it.
    """

    def run(script: Script) -> None:
        race = Race(claim(quota=BOTH), faults=2)
        race.play(script)
        (request,) = race.requests
        assert request.end in {"ran", "dead"}
        assert [counter.count for counter in race.store.counters.values()] in ([1, 1], [])
        if request.end == "ran":
            (record,) = race.store.records.values()
            assert (record.status, race.runs) == (Status.COMPLETED, 1)

    assert every_run(run) == 13
