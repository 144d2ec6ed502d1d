"""How an operation object is used in one run: one thing at a time, and one key in a step."""

from __future__ import annotations

import pytest

from oncekey import EffectMisused
from oncekey.effect_use import Use


def test_what_was_not_asked_for_is_not_used() -> None:
    """A run that asks for nothing says so."""
    assert not Use().is_used


def test_whatever_is_asked_for_counts_as_use() -> None:
    """Effects and downstream keys; also what is refused."""
    effect, key, refused = Use(), Use(), Use()
    effect.check_outside_step("op.outbox.publish")
    key.note_key("charge")
    with refused.inside("charge"), pytest.raises(EffectMisused):
        refused.check_outside_step("op.commit('a')")

    assert (effect.is_used, key.is_used, refused.is_used) == (True, True, True)


def test_nothing_is_asked_for_inside_a_step() -> None:
    """The message names what was asked for, where, and what to do instead."""
    use = Use()

    with use.inside("charge"), pytest.raises(EffectMisused) as raised:
        use.check_outside_step("op.commit('ordered')")

    assert str(raised.value).startswith("op.commit('ordered') inside the step 'charge', or beside")
    assert str(raised.value).endswith("call it before or after the step")


@pytest.mark.parametrize("error", [None, ValueError("of the step"), KeyboardInterrupt()])
def test_a_step_that_is_left_is_no_longer_open(error: BaseException | None) -> None:
    """However it is left."""
    use = Use()

    try:
        with use.inside("charge"):
            assert use.open_step == "charge"
            if error is not None:
                raise error
    except (ValueError, KeyboardInterrupt) as raised:
        passed: BaseException | None = raised
    else:
        passed = None

    assert passed is error
    assert use.open_step is None
    use.check_outside_step("op.step('ship')")


def test_a_step_asks_for_its_own_downstream_key() -> None:
    """As often as it likes; another one is refused, with the one that it may ask for."""
    use = Use()

    with use.inside("charge"):
        use.note_key("charge")
        use.note_key("charge")
        with pytest.raises(EffectMisused) as raised:
            use.note_key("refund")

    assert "'charge' asks for the downstream key of 'refund'" in str(raised.value)
    assert "under op.downstream_key('charge')" in str(raised.value)


def test_outside_steps_every_downstream_key_may_be_asked_for() -> None:
    """Before, between and after steps, and of any name."""
    use = Use()

    use.note_key("charge")
    with use.inside("charge"):
        pass
    use.note_key("refund")

    assert use.open_step is None
