"""Processes in lock-step: one runs at a time, and a seed decides which."""

from __future__ import annotations

import threading
from functools import partial

from oncekey.testing.checking.lock_step import LockStep


def _played(seed: int) -> list[str]:
    """Who did what, in the order in which three processes did it."""
    lock_step: LockStep[None] = LockStep(seed)
    order: list[str] = []

    def work(name: str) -> None:
        for number in range(3):
            order.append(f"{name}{number}")
            lock_step.turn(name)

    lock_step.run([(name, partial(work, name)) for name in "abc"])
    return order


def test_a_seed_stands_for_one_interleaving() -> None:
    """The same seed plays the same order, and several seeds play several."""
    orders = [_played(seed) for seed in range(8)]
    assert orders == [_played(seed) for seed in range(8)]
    assert len({tuple(order) for order in orders}) > 4
    assert all(sorted(order) == sorted(orders[0]) for order in orders)


def test_results_are_in_the_order_of_the_works() -> None:
    """Whoever ends first, each result belongs to its work."""
    lock_step: LockStep[int] = LockStep(1)
    assert lock_step.run([(name, partial(pow, name, 2)) for name in range(5)]) == [0, 1, 4, 9, 16]


def test_a_process_that_waits_for_another_does_not_stop_the_play() -> None:
    """A lock between two calls of the store is no deadlock: the waiting ones run on in the end."""
    lock_step: LockStep[None] = LockStep(0, stuck_s=0.01)
    lock = threading.Lock()

    def work(name: int) -> None:
        with lock:
            lock_step.turn(name)

    assert lock_step.run([(name, partial(work, name)) for name in range(3)]) == [None] * 3
