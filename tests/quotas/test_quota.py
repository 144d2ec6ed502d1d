"""What a quota may say, what a sandbox remembers of it, and what becomes of a full counter."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from oncekey import ConfigurationError, Quota, idempotent, idempotent_function, single_tenant
from oncekey.engine.store_state import state_of
from oncekey.quotas.memory import MOST_REMEMBERED, QuotaMemory
from oncekey.record.counter import Count, Counter, RefusedCount, after_refusal, counted
from oncekey.testing.memory import MemoryStore

NOW_S, NOW_MS = 1_700_000_000, 1_700_000_000_000
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "no limit is given"),
    ({"new_keys": 0}, "new_keys is 0"),
    ({"new_keys": "100"}, "new_keys is '100'"),
    ({"active_keys": True}, "active_keys is True"),
    ({"lookups": 1.5}, "lookups is 1.5"),
    ({"new_keys": 10, "window": 60}, "window is 60: a timedelta"),
    ({"new_keys": 10, "window": timedelta(milliseconds=999)}, "one second to one day"),
    ({"new_keys": 10, "window": timedelta(days=2)}, "one second to one day"),
    ({"new_keys": 10, "scope": "account"}, "scope is 'account'"),
    ({"new_keys": 10, "shards": 0}, "shards is 0"),
    ({"new_keys": 10, "shards": 65}, "shards is 65"),
    ({"new_keys": 3, "active_keys": 100, "shards": 4}, "shards is 4: a limit is less"),
    ({"new_keys": 100, "active_keys": 3, "shards": 4}, "shards is 4: a limit is less"),
]


@pytest.mark.parametrize(("options", "fault"), WRONG, ids=[fault for _, fault in WRONG])
def test_a_quota_that_cannot_work_is_refused(options: dict[str, Any], fault: str) -> None:
    """A quota is checked when it is made, with a text that names the argument."""
    with pytest.raises(ConfigurationError, match=fault):
        Quota(**options)


def test_every_fault_of_a_quota_is_in_one_message() -> None:
    """Who has made three mistakes is told of three."""
    with pytest.raises(ConfigurationError) as raised:
        Quota(new_keys=0, scope="x", shards=0)

    assert len(raised.value.faults) == 3


@pytest.mark.parametrize("decorator", [idempotent, idempotent_function])
@pytest.mark.parametrize("quota", [100, Quota], ids=["a number", "the class"])
def test_a_decorator_takes_a_quota_and_nothing_else(decorator: Any, quota: Any) -> None:
    """A number or the class itself is refused when the handler is decorated.

    Red when only the attributes count, which the class has too.
    """
    key = {"key": "id"} if decorator is idempotent_function else {}

    with pytest.raises(ConfigurationError, match=r"quota is .*: pass Quota\(new_keys=100\)"):
        decorator(operation="POST /payments", tenant=single_tenant(), quota=quota, **key)


def count(**fields: Any) -> Count:
    """One more key of three, in a bucket of the next hour."""
    made = {
        "name": "quota#1",
        "tenant": "acme",
        "limit": 3,
        "expires_at_s": NOW_S + 9_999,
        "runs_out_at_s": NOW_S + 3_600,
        **fields,
    }
    return Count(**made)


@pytest.mark.requirement("C15")
def test_what_has_run_out_is_taken_off_a_full_counter() -> None:
    """A full counter with keys that have run out admits as many again, and counts the rest on.

    Red when what runs out later is taken off, or what has run out is not.
    """
    full = Counter(count=3, buckets={NOW_S - 1: 1, NOW_S: 1, NOW_S + 1: 1})

    again = after_refusal(RefusedCount(count(), full), NOW_S)

    assert again == count(taken_off=((NOW_S - 1, 1), (NOW_S, 1)))
    left = counted(full, again)
    assert (left.count, left.buckets) == (2, {NOW_S + 1: 1, NOW_S + 3_600: 1})


@pytest.mark.requirement("C15")
def test_a_counter_that_stays_full_admits_nothing() -> None:
    """A limit that was lowered holds at once: what has run out may not be enough.

    Red when anything that has run out lets the next key in.
    """
    above = Counter(count=5, buckets={NOW_S - 1: 1, NOW_S + 1: 4})

    assert after_refusal(RefusedCount(count(), above), NOW_S) is None
    assert above.frees_at_s(NOW_S) == NOW_S + 1
    assert Counter(count=3).frees_at_s(NOW_S) is None


def test_a_counter_that_was_deleted_is_begun_afresh() -> None:
    """What was seen of a counter that is gone is forgotten."""
    seen = count(taken_off=((NOW_S, 1),))

    assert after_refusal(RefusedCount(seen, None), NOW_S) == count()


def test_one_write_takes_off_no_more_than_an_expression_holds() -> None:
    """Of very many buckets the oldest go first, and the rest with later writes."""
    many = Counter(count=3, buckets=dict.fromkeys(range(NOW_S - 80, NOW_S), 0) | {NOW_S - 99: 1})

    again = after_refusal(RefusedCount(count(), many), NOW_S)

    assert again is not None
    assert len(again.taken_off) == 50
    assert again.taken_off[0] == (NOW_S - 99, 1)


def test_a_full_counter_is_believed_for_a_minute_at_most() -> None:
    """An operator who deletes a counter lets its tenant in, and a clock set back prolongs nothing.

    Red when a sandbox believes until the counter frees, which may be a day.
    """
    memory = QuotaMemory()
    memory.found_full("quota#1", NOW_MS + 86_400_000, NOW_MS)
    memory.found_full("quota#2", NOW_MS + 5, NOW_MS)

    assert memory.full_until_ms("quota#1", NOW_MS + 59_999) == NOW_MS + 86_400_000
    assert memory.full_until_ms("quota#1", NOW_MS + 60_000) is None
    assert memory.full_until_ms("quota#1", NOW_MS - 1) is None
    assert memory.full_until_ms("quota#2", NOW_MS + 4) == NOW_MS + 5
    assert memory.full_until_ms("quota#2", NOW_MS + 5) is None


@pytest.mark.requirement("C23")
def test_the_memory_of_a_sandbox_is_bounded() -> None:
    """However many tenants ask, no more are remembered; the ones asked after longest ago go first.

    Red when nothing is forgotten, or the busiest tenant is.
    """
    memory = QuotaMemory()
    for number in range(2 * MOST_REMEMBERED):
        memory.count_lookup("busy", 1)
        memory.count_lookup(f"tenant-{number}", 1)
        memory.found_full(f"quota#{number}", NOW_MS + 1, NOW_MS)

    assert len(memory._lookups) == len(memory._full) == MOST_REMEMBERED
    assert memory.count_lookup("busy", 1) == 2 * MOST_REMEMBERED + 1
    assert memory.count_lookup("tenant-0", 1) == 1


def test_the_memory_belongs_to_its_store() -> None:
    """All operations on one store share what is remembered; another store has its own."""
    store = MemoryStore()

    assert state_of(store).quota_memory is state_of(store).quota_memory
    assert state_of(store).quota_memory is not state_of(MemoryStore()).quota_memory
