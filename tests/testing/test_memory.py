"""The store and the clock that tests use, ours and everybody's."""

from __future__ import annotations

import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.record.record import Due
from oncekey.record.rules import applied
from oncekey.record.transitions import Complete, Ending, Reserve
from oncekey.store.store import Refused, Written
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.records import NOW_MS, record

if TYPE_CHECKING:
    from collections.abc import Iterator

FRESH = record(rev=1, attempt=1)
RESERVE = Reserve(record=FRESH, now_ms=NOW_MS)
COMPLETE = Complete(
    pk=FRESH.pk,
    owner=FRESH.owner,
    ending=Ending(response="{}", completed_at_ms=NOW_MS, expires_at_s=NOW_MS // 1000 + 1),
)


def test_a_store_keeps_what_is_written() -> None:
    """A permitted transition is applied, and the record is there to read."""
    store = MemoryStore()

    assert store.read(FRESH.pk) is None
    assert store.write(RESERVE) == Written()
    assert store.read(FRESH.pk) == FRESH
    assert store.write(COMPLETE) == Written()
    assert store.read(FRESH.pk) == applied(COMPLETE, FRESH)


def test_a_refused_write_changes_nothing_and_shows_what_stands_in_its_way() -> None:
    """A transition that is not permitted answers with the record that it met."""
    store = MemoryStore()

    assert store.write(COMPLETE) == Refused(None)
    assert store.records == {}
    store.write(RESERVE)
    assert store.write(RESERVE) == Refused(FRESH)
    assert store.records == {FRESH.pk: FRESH}


def test_what_is_due_is_found_while_others_write() -> None:
    """A reconciler in one thread looks while handlers in others reserve new keys.

    Red when `due` goes through the records that others add to.
    """
    store = MemoryStore()

    class Seen:
        """A record, at the moment at which `due` looks at it: another thread writes."""

        pk = "a"

        @property
        def due(self) -> Due:
            assert store.write(RESERVE) == Written()
            return Due(shard="0", at_ms=1)

    seen: Any = Seen()
    store.records["a"] = seen
    assert store.due("0", 1).keys == ("a",)


def test_stores_share_nothing() -> None:
    """Each test has a store of its own."""
    one, other = MemoryStore(), MemoryStore()
    one.write(RESERVE)

    assert other.read(FRESH.pk) is None


def test_a_store_shows_how_much_it_holds_and_no_key() -> None:
    """A store in a traceback shows a count only."""
    store = MemoryStore()
    store.write(RESERVE)

    assert repr(store) == "MemoryStore(1 records)"


def test_a_clock_moves_only_when_it_is_told_to() -> None:
    """Time stands still between two calls of `advance`, or of somebody who pauses."""
    clock = ManualClock(NOW_MS)

    assert [clock.now_ms(), clock.now_ms()] == [NOW_MS, NOW_MS]
    clock.advance(1_500)
    clock.pause(500)
    assert clock.now_ms() == NOW_MS + 2_000


@pytest.mark.parametrize("given", [1.5, 60_000.0, timedelta(hours=1), "60000", None, True])
def test_a_clock_counts_whole_milliseconds(given: Any) -> None:
    """What is something else is refused at once, and not by a store that is to keep it."""
    with pytest.raises(TypeError, match="a ManualClock counts whole milliseconds"):
        ManualClock().advance(given)
    with pytest.raises(TypeError, match="a ManualClock counts whole milliseconds"):
        ManualClock(given)


async def _async_rule(_write: Any) -> bool:
    return False


@pytest.mark.parametrize("holds", [None, False, _async_rule])
def test_whether_a_condition_holds_is_asked_of_a_function(holds: Any) -> None:
    """A coroutine counts as true: every condition would hold, and the test would find nothing."""
    with pytest.raises(TypeError, match="MemoryStore: holds is"):
        MemoryStore(holds=holds)


def test_a_clock_draws_owners_and_ids_in_sequence() -> None:
    """What is drawn is never drawn twice, and is the same in every run of a test."""

    def drawn() -> list[str]:
        clock = ManualClock()
        return [clock.new_owner(), clock.new_operation_id(), clock.new_owner()]

    owner, operation_id, next_owner = drawn()

    assert drawn() == [owner, operation_id, next_owner]
    assert len({owner, operation_id, next_owner}) == 3
    assert str(uuid.UUID(operation_id)) == operation_id


def test_threads_may_share_a_clock() -> None:
    """No owner is drawn by two threads, and no time that passes is lost."""
    clock = ManualClock(NOW_MS)

    def draw(_number: int) -> str:
        clock.advance(1)
        return clock.new_owner()

    with often_switched(), ThreadPoolExecutor(8) as pool:
        owners = list(pool.map(draw, range(4_000)))

    assert len({*owners}) == 4_000
    assert clock.now_ms() == NOW_MS + 4_000


@contextmanager
def often_switched() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def test_chance_is_the_middle() -> None:
    """Jitter is half of what is possible, so that pauses are the same in every run."""
    assert ManualClock().random_fraction() == 0.5


def test_a_call_of_the_store_in_memory_takes_no_time() -> None:
    """What is left of an invocation is all there for a repeat: nothing in memory can time out.

    Red when a call counts as long: a test's short invocation would be refused a second try.
    """
    assert MemoryStore().call_timeout_ms == 0
    assert MemoryStore().has_bucket
