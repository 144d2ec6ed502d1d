"""Seeds of long runs that once broke a rule: they break none, and still show what they found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncekey.record.transitions import Reserve
from tests.simulation.checkers_of_services import ServiceHistory
from tests.simulation.simulate import swarm_of
from tests.simulation.story import outlived_denials

if TYPE_CHECKING:
    from tests.simulation.history import History

# A reservation lands after an operator has deleted its record, and takes the key again.
LATE = (571008, 791136, 818168, 856188, 1126624, 1280408, 1339016, 1405384, 1463824, 1925160)
# A caller that is frozen, and so outlives its record's retention, repeats its reservation.
FROZEN = (3996653,)
# An attempt that nobody has killed begins after its denial, without an effect.
DENIED = (879219, 1772675, 2142794, 3311412, 3341637, 5044185)
# Others: a call outlives its key's retention, or comes to a key that was deleted since.
OF_ORDER = (16688, 228280, 234384, 8347568)
# A worker ends the second operation of a client by a write that it had decided for the first.
OF_OWNERS = (5901296,)


def _histories(seed: int) -> list[History]:
    """The run of this seed, which breaks no rule: the history of each of its keys."""
    world, _, violation = swarm_of(seed).run(seed)
    assert violation is None, f"{seed}: {violation}"
    whole = world.history()
    return [*whole.by_key().values()] if isinstance(whole, ServiceHistory) else [whole]


@pytest.mark.parametrize("seed", [*LATE, *FROZEN])
def test_a_key_that_lives_again_under_its_old_id_keeps_its_rules(seed: int) -> None:
    """A second reservation with the id of a deleted record begins another life of the key."""
    assert any(history.ids_reserved_again for history in _histories(seed))


@pytest.mark.parametrize("seed", DENIED)
def test_an_attempt_that_outlives_its_denial_keeps_the_rules(seed: int) -> None:
    """It begins although it was settled as not executed, and another run was answered."""
    assert any([*outlived_denials(history)] for history in _histories(seed))


@pytest.mark.parametrize("seed", OF_OWNERS)
def test_two_operations_of_one_request_have_two_owners(seed: int) -> None:
    """No write that was decided for the first is applied to the second."""
    reserved: dict[str, set[str]] = {}
    for history in _histories(seed):
        for write in history.applied:
            if isinstance(write.transition, Reserve):
                record = write.transition.record
                reserved.setdefault(write.actor, set()).add(record.owner)
    assert max(map(len, reserved.values())) == 2


@pytest.mark.parametrize("seed", OF_ORDER)
def test_a_key_stays_linearizable_over_its_retention(seed: int) -> None:
    """Some order of its calls explains what each was told."""
    assert _histories(seed)
