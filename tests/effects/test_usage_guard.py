"""How an operation object is used in one run: one thing at a time, and one key in a step."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from oncekey import EffectMisused
from oncekey.effects.usage_guard import UsageGuard


def test_what_was_not_asked_for_is_not_used() -> None:
    """A run that asks for nothing says so."""
    assert not UsageGuard().is_used


def test_whatever_is_asked_for_counts_as_use() -> None:
    """Effects and downstream keys; also what is refused."""
    effect, key, refused = UsageGuard(), UsageGuard(), UsageGuard()
    effect.check_outside_step("op.outbox.publish")
    key.note_key("charge")
    refused.open("charge", "op.step('charge')")
    with pytest.raises(EffectMisused):
        refused.check_outside_step("op.commit('a')")

    assert (effect.is_used, key.is_used, refused.is_used) == (True, True, True)


def test_nothing_is_asked_for_inside_a_step() -> None:
    """The message names what was asked for, where, and what to do instead."""
    use = UsageGuard()

    use.open("charge", "op.step('charge')")
    with pytest.raises(EffectMisused) as raised:
        use.check_outside_step("op.commit('ordered')")

    assert str(raised.value).startswith("op.commit('ordered') inside the step 'charge', or beside")
    assert str(raised.value).endswith("call it before or after the step")


@pytest.mark.parametrize("is_told", [True, False])
def test_a_step_that_is_left_is_no_longer_open(is_told: bool) -> None:
    """However it is left, the next one may be asked for; what was never told is remembered."""
    use = UsageGuard()

    use.open("charge", "op.step('charge')")
    assert (use.open_step, use.untold) == ("charge", "charge")
    if is_told:
        use.tell()
    else:
        use.leave(None)

    assert (use.open_step, use.is_left) == (None, not is_told)
    for later in ("ship", "pack"):
        use.open(later, "op.step")
        use.tell()
        assert use.is_left is not is_told


@pytest.mark.fault("K2.3")
def test_of_two_threads_that_begin_a_step_at_once_one_is_refused() -> None:
    """The look at what is open and the opening are one step, between threads too.

    Red when `open` looks and sets without holding its lock.
    """
    moved_on = threading.Event()
    refused: list[EffectMisused] = []

    class WatchedLock:
        """A lock that says when somebody has to wait for it."""

        def __init__(self) -> None:
            self._lock = threading.RLock()

        def __enter__(self) -> None:
            if not self._lock.acquire(blocking=False):
                moved_on.set()
                self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    class Interleaved(UsageGuard):
        """The second thread comes right after the first one has looked."""

        def check_outside_step(self, what: str) -> None:
            super().check_outside_step(what)
            if threading.current_thread() is not other:
                other.start()
                assert moved_on.wait(timeout=30)

    def second() -> None:
        try:
            use.open("ship", "op.step('ship')")
        except EffectMisused as error:
            refused.append(error)
        moved_on.set()

    other = threading.Thread(target=second)
    lock: Any = WatchedLock()
    use = Interleaved(_lock=lock)
    use.open("charge", "op.step('charge')")
    other.join(timeout=30)

    assert len(refused) == 1
    assert use.open_step == "charge"


def test_a_step_asks_for_its_own_downstream_key() -> None:
    """As often as it likes; another one is refused, with the one that it may ask for."""
    use = UsageGuard()

    use.open("charge", "op.step('charge')")
    use.note_key("charge")
    use.note_key("charge")
    with pytest.raises(EffectMisused) as raised:
        use.note_key("refund")

    assert "'charge' asks for the downstream key of 'refund'" in str(raised.value)
    assert "under op.downstream_key('charge')" in str(raised.value)


def test_outside_steps_every_downstream_key_may_be_asked_for() -> None:
    """Before, between and after steps, and of any name."""
    use = UsageGuard()

    use.note_key("charge")
    use.open("charge", "op.step('charge')")
    use.tell()
    use.note_key("refund")

    assert use.open_step is None
