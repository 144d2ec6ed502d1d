"""When an accepted request that nobody works on may be answered that nothing of it was done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncekey.record import Due, Effects, Status
from tests.support.records import NOW_MS, record

WAITING = record(
    status=Status.PENDING, attempt=1, lease_until_ms=None, due=Due(shard="5", at_ms=NOW_MS)
)


@pytest.mark.parametrize("effects", Effects)
def test_what_nobody_ever_began_is_overdue(effects: Effects) -> None:
    """A first acceptance whose time is over is overdue, whatever its effects would have been."""
    first = replace(WAITING, effects=effects)

    assert not first.is_overdue(NOW_MS - 1)
    assert first.is_overdue(NOW_MS)


def test_what_may_have_had_an_effect_is_never_overdue() -> None:
    """What waits again is overdue only where it was accepted again on proof that nothing happened.

    Red when `is_overdue` no longer asks for the attempt: a repeatable run that died after its
    effect is answered with a 408 that says that nothing was done.
    """
    again = replace(WAITING, attempt=2)

    overdue = {each for each in Effects if replace(again, effects=each).is_overdue(NOW_MS)}

    assert overdue == {Effects.UNRECORDED}
