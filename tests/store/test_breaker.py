"""When requests are refused without asking the store."""

from __future__ import annotations

import gc
import weakref

from oncekey.engine.store_state import state_of
from oncekey.store.breaker import FAILURES_TO_OPEN, OPEN_FOR_MS, Breaker
from oncekey.testing.memory import MemoryStore

NOW_MS = 1_700_000_000_000


def opened() -> Breaker:
    """A breaker that has seen just enough failures, now."""
    breaker = Breaker()
    for _ in range(FAILURES_TO_OPEN):
        breaker.failed(NOW_MS)
    return breaker


def test_it_opens_at_the_last_of_the_failures_and_not_before() -> None:
    """One failure less lets requests through; then they are refused for the time stated."""
    breaker = Breaker()
    for _ in range(FAILURES_TO_OPEN - 1):
        breaker.failed(NOW_MS)
        assert breaker.refuses_for_ms(NOW_MS) == 0
    breaker.failed(NOW_MS)

    assert breaker.refuses_for_ms(NOW_MS) == OPEN_FOR_MS
    assert breaker.refuses_for_ms(NOW_MS + OPEN_FOR_MS - 1) == 1


def test_failures_that_are_not_in_a_row_do_not_add_up() -> None:
    """Every answer of the store begins the count anew.

    Red when failures are counted over all time.
    """
    breaker = Breaker()
    for _ in range(10):
        for _ in range(FAILURES_TO_OPEN - 1):
            breaker.failed(NOW_MS)
        breaker.succeeded()

    assert breaker.refuses_for_ms(NOW_MS) == 0


def test_after_its_time_a_request_tries_and_decides() -> None:
    """Open no longer: a failure opens it again at once, an answer closes it for good.

    Red when it takes as many failures to open again, or a success does not close it.
    """
    failing, recovering = opened(), opened()
    later_ms = NOW_MS + OPEN_FOR_MS
    assert failing.refuses_for_ms(later_ms) == recovering.refuses_for_ms(later_ms) == 0

    failing.failed(later_ms)
    recovering.succeeded()

    assert failing.refuses_for_ms(later_ms) == OPEN_FOR_MS
    assert recovering.refuses_for_ms(NOW_MS) == 0


def test_a_clock_that_was_set_back_does_not_keep_it_open() -> None:
    """No clock makes it refuse for longer than it says.

    Red when the time that is left is not limited.
    """
    assert opened().refuses_for_ms(NOW_MS - 3_600_000) == 0


def test_each_store_has_its_own_and_takes_it_along() -> None:
    """The same store has the same breaker; another one another; none outlives its store.

    Red when breakers are shared between stores, made anew each time, or kept for ever.
    """
    store, other = MemoryStore(), MemoryStore()
    first = state_of(store).breaker
    first.failed(NOW_MS)

    assert state_of(store).breaker is first
    assert state_of(other).breaker is not first

    forgotten = weakref.ref(first)
    del first, store
    gc.collect()
    assert forgotten() is None


def test_three_failures_in_a_row_open_it_for_five_seconds() -> None:
    """Two may be a bad connection; and five seconds is what clients are told to wait.

    Red when either number is moved.
    """
    breaker = Breaker()
    breaker.failed(NOW_MS)
    breaker.failed(NOW_MS)
    assert breaker.refuses_for_ms(NOW_MS) == 0
    breaker.failed(NOW_MS)

    assert breaker.refuses_for_ms(NOW_MS) == 5_000
    assert breaker.refuses_for_ms(NOW_MS + 4_999) == 1
    assert breaker.refuses_for_ms(NOW_MS + 5_000) == 0
