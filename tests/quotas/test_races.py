"""The last free place, raced for in all orders of the calls, and with a fault anywhere."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Quota
from oncekey.flow.commands import Transact
from oncekey.record.record import Status
from oncekey.settings import Settings
from tests.support.quota_races import Race, Script, every_run
from tests.support.quotas import keyed_request

if TYPE_CHECKING:
    from oncekey.engine.request import Request
    from oncekey.record.commit import Commit

ONE = Quota(new_keys=1)
BOTH = Quota(new_keys=1, active_keys=1)


HOUR = timedelta(hours=1)


def assert_each_token_is_one_transactions(race: Race) -> None:
    """Equal bytes are sent under one token, and no two different transactions under the same."""
    by_token: dict[str, Commit] = {}
    for commit in race.sent:
        assert by_token.setdefault(commit.token, commit) == commit
    assert len(set(by_token.values())) == len(by_token)


def keys(number: int, quota: Quota, **fields: Any) -> list[Request]:
    """Requests under as many keys."""
    return [keyed_request(f"the-key-number-{key}", quota=quota, **fields) for key in range(number)]


def ends(*requests: Request, faults: int = 0) -> Counter[tuple[str, ...]]:
    """What came of these requests, over every order; nothing is ever counted but what is reserved.

    No record is under a key that is not counted, nothing is counted without its record, and no
    handler runs twice under one key.
    """
    found: Counter[tuple[str, ...]] = Counter()
    quota = requests[0].options.quota
    assert quota is not None

    def run(script: Script) -> None:
        race = Race(*requests, faults=faults)
        race.play(script)
        found[tuple(race.ends)] += 1
        assert_each_token_is_one_transactions(race)
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
    one, other = (
        keyed_request(key, quota=quota) for key in ("the-key-number-one", "the-key-number-two")
    )

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
    found = ends(keyed_request(quota=BOTH), keyed_request(quota=BOTH))

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
    one, other = (
        keyed_request(key, quota=ONE) for key in ("the-key-number-one", "the-key-number-two")
    )

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
        race = Race(keyed_request(quota=BOTH), faults=2)
        race.play(script)
        (request,) = race.requests
        assert request.end in {"ran", "dead"}
        assert [counter.count for counter in race.store.counters.values()] in ([1, 1], [])
        if request.end == "ran":
            (record,) = race.store.records.values()
            assert (record.status, race.runs) == (Status.COMPLETED, 1)

    assert every_run(run) == 13


@pytest.mark.requirement("C15")
@pytest.mark.fault("K12.9")
@pytest.mark.parametrize(
    ("limit", "shards"), [(64, 64), (65, 64), (100, 64), (7, 5), (40, 32)], ids=str
)
@pytest.mark.parametrize("kind", ["new_keys", "active_keys"])
def test_a_sharded_quota_admits_its_whole_limit_and_then_says_that_it_is_full(
    kind: str, limit: int, shards: int
) -> None:
    """As many keys as the limit says are admitted, wherever their hashes begin, and every further
    one is told that the quota is used up.

    Red when the search for a shard with room ends before it has seen every shard.
    """
    limits = {"new_keys": None, "active_keys": None, kind: limit}
    quota = Quota(new_keys=limits["new_keys"], active_keys=limits["active_keys"], shards=shards)
    race = Race(*keys(limit + 3, quota))

    race.play(Script([]))

    assert race.ends == ["ran"] * limit + ["quota-exceeded"] * 3
    assert sum(counter.count for counter in race.store.counters.values()) == limit


@pytest.mark.fault("K12.9")
def test_the_search_for_room_is_bounded() -> None:
    """A request reads each shard at most once, and sends two transactions at most where nobody else
    is counting.

    Red when every full shard costs a transaction, which locks its counter.
    """
    quota = Quota(new_keys=64, shards=64)
    race = Race(*keys(64, quota))
    race.play(Script([]))
    before = len(race.sent)

    race.ask(keyed_request("one-key-too-many", quota=quota))
    reads = 0
    last = race.requests[-1]
    while not last.is_over:
        reads += not isinstance(last.command, Transact)
        race.play_one(last)

    assert last.end == "quota-exceeded"
    assert len(race.sent) - before == 1
    # The record is read before its key is counted.
    assert reads == 1 + 63


@pytest.mark.requirement("C15")
@pytest.mark.fault("K12.9")
@pytest.mark.parametrize(
    "quota",
    [Quota(new_keys=4, shards=3), Quota(new_keys=2, active_keys=3, shards=2)],
    ids=["uneven shares", "of two limits"],
)
def test_the_last_place_of_a_sharded_quota_goes_to_exactly_one(quota: Quota) -> None:
    """In every order of the calls of two requests at the last place, one runs, and the other is
    told that the quota is used up.

    Red when a shard that was full is not asked about, or one with room is not found.
    """
    found: Counter[tuple[str, ...]] = Counter()
    limit = quota.new_keys
    assert limit is not None

    def run(script: Script) -> None:
        race = Race(*keys(limit - 1, quota))
        race.play(Script([]))
        race.lands_at_once = True
        race.ask(*(keyed_request(f"a-late-key-{name}", quota=quota) for name in ("one", "other")))
        race.play(script)
        found[tuple(race.ends[-2:])] += 1
        assert len(race.store.records) == limit
        assert_each_token_is_one_transactions(race)

    every_run(run)

    assert set(found) == {("ran", "quota-exceeded"), ("quota-exceeded", "ran")}


@pytest.mark.requirement("C15")
def test_two_requests_that_meet_a_full_counter_empty_it_once() -> None:
    """Two requests see the same bucket that has run out, and both take it off: in every order of
    their calls the counter then stands at the keys that are in use, and at no less.

    Red when what has run out is taken off without the condition that it is still there, by the rule
    of counters and by the condition alike.
    """
    quota = Quota(active_keys=2)
    settings = Settings(retention_s=3600)
    found: set[tuple[str, ...]] = set()

    def run(script: Script) -> None:
        race = Race(*keys(2, quota, settings=settings))
        race.play(Script([]))
        assert race.ends == ["ran", "ran"]
        race.lands_at_once = True
        race.clock.advance(3 * HOUR // timedelta(milliseconds=1))
        late = ("one", "other", "third")
        race.ask(
            *(keyed_request(f"a-late-key-{n}", quota=quota, settings=settings) for n in late[:2])
        )
        race.play(script)
        (counter,) = race.store.counters.values()
        admitted = race.ends[2:].count("ran")
        assert counter.count == sum(counter.buckets.values()) == admitted
        found.add(tuple(race.ends[2:]))
        race.ask(*(keyed_request(f"a-later-key-{n}", quota=quota, settings=settings) for n in late))
        race.play(Script([]))
        assert race.ends[2:].count("ran") == 2

    every_run(run)

    assert ("ran", "ran") in found


@pytest.mark.requirement("C15")
def test_each_transaction_that_counts_a_key_has_a_token_of_its_own() -> None:
    """A reserve that is counted in another shard is another transaction, and has another token; one
    that is sent again because its answer was lost has the one that it had.

    Red when a token is made without the number of the round, or anew for each sending.
    """
    quota = Quota(new_keys=3, shards=3)
    resent = 0

    def run(script: Script) -> None:
        nonlocal resent
        race = Race(*keys(2, quota))
        race.play(Script([]))
        race.faults_left, race.lands_at_once = 2, True
        race.ask(keyed_request("a-late-key-one", quota=quota))
        race.play(script)
        assert_each_token_is_one_transactions(race)
        tokens = [commit.token for commit in race.sent]
        resent += len(tokens) - len(set(tokens))

    every_run(run)

    assert resent
