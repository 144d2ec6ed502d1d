"""The order of steps and commits: a name has one place, and what is on record must be met there."""

from __future__ import annotations

from typing import Any

import pytest

from oncekey import EffectMisused
from oncekey.effects.run_order import LONGEST_NAME, RunOrder
from oncekey.record.steps import NO_STEPS, FinishedStep, Steps


def on_record(*names: str, commits: frozenset[str] = frozenset(), first: int = 0) -> Steps:
    """These have finished, at places that follow each other from `first`."""
    return Steps(
        finished=tuple(
            FinishedStep(
                name=name,
                position=position,
                at_ms=1,
                result=None if name in commits else "null",
            )
            for position, name in enumerate(names, start=first)
        )
    )


def reached(order: RunOrder, names: str, steps: Steps = NO_STEPS) -> list[str | None]:
    """Come to each of these steps, of one letter each, and to its end; what did not fit."""
    found = []
    for name in names:
        found.append(order.reach(name, steps, is_commit=False))
        order.finish(name)
    return found


def test_names_get_their_places_in_turn() -> None:
    """From 0, in the order in which the run came to them."""
    order = RunOrder()

    assert reached(order, "abc") == [None] * 3
    assert [order.position_of(name) for name in "abc"] == [0, 1, 2]


def test_a_name_that_is_reached_again_keeps_its_place() -> None:
    """A step that has not come to its end may be tried again, also after others."""
    order = RunOrder()

    for name in "aba":
        assert order.reach(name, NO_STEPS, is_commit=False) is None

    assert [order.position_of(name) for name in "ab"] == [0, 1]


@pytest.mark.parametrize("is_commit", [False, True])
@pytest.mark.parametrize("steps", [NO_STEPS, on_record("a")], ids=["it ran", "it was on record"])
def test_a_name_that_has_come_to_its_end_is_not_reached_again(
    steps: Steps, is_commit: bool
) -> None:
    """Whether it ran in this attempt or in an earlier one."""
    order = RunOrder()
    assert order.reach("a", steps, is_commit=False) is None
    if steps is NO_STEPS:
        order.finish("a")

    with pytest.raises(EffectMisused, match="'a' is done twice in one run"):
        order.reach("a", steps, is_commit=is_commit)


@pytest.mark.parametrize("length", [0, LONGEST_NAME + 1])
def test_a_name_of_another_length_is_refused(length: int) -> None:
    """The message says what is possible."""
    with pytest.raises(EffectMisused, match="1 to 64 characters, as text"):
        RunOrder().reach("n" * length, NO_STEPS, is_commit=False)


@pytest.mark.parametrize("name", [b"charge", 7, None, "\ud800"])
def test_what_is_no_text_is_no_name(name: Any) -> None:
    """Bytes, numbers and lone surrogates are refused before they reach the record."""
    with pytest.raises(EffectMisused, match="1 to 64 characters, as text"):
        RunOrder().reach(name, NO_STEPS, is_commit=True)


@pytest.mark.parametrize("length", [1, LONGEST_NAME])
def test_a_name_of_a_length_at_the_limit_is_taken(length: int) -> None:
    """Both ends count."""
    assert RunOrder().reach("n" * length, NO_STEPS, is_commit=False) is None


def test_a_run_that_meets_what_is_on_record_fits() -> None:
    """The same names at the same places, and more of them at the end."""
    order, steps = RunOrder(), on_record("a", "b")

    assert reached(order, "abc", steps) == [None] * 3
    assert order.missed(steps) is None


@pytest.mark.parametrize("name", ["a", "x"])
def test_what_an_earlier_attempt_passed_over_is_not_done_after_all(name: str) -> None:
    """A step that was refused left a place, and the run went on to a later one: what stands there
    now, the same step or another, must not be done beside it.
    """
    steps = Steps(finished=(FinishedStep(name="b", position=1, at_ms=1, result="null"),))

    (fault,) = reached(RunOrder(), name, steps)

    assert fault is not None
    assert "which an earlier attempt passed over" in fault


def test_a_step_may_be_tried_again_after_a_later_one_of_the_same_run() -> None:
    """What this run has done itself it knows of; the step keeps its place."""
    order = RunOrder()
    done = Steps(finished=(FinishedStep(name="b", position=1, at_ms=1, result="null"),))

    for name in "ab":
        assert order.reach(name, NO_STEPS, is_commit=False) is None
    order.finish("b")

    assert order.reach("a", done, is_commit=False) is None
    assert order.position_of("a") == 0


@pytest.mark.parametrize(
    ("names", "number", "words"),
    [
        ("x", 0, "the run came to 'x' at place 0, where 'a' is on record"),
        ("b", 0, "the run came to 'b' at place 0, and it is on record at place 1"),
        ("ac", 1, "the run came to 'c' at place 1, and it is on record at place 2"),
        ("ax", 1, "the run came to 'x' at place 1, where 'b' is on record"),
        ("abx", 2, "the run came to 'x' at place 2, where 'c' is on record"),
    ],
)
def test_what_does_not_fit_is_told_with_both_places(names: str, number: int, words: str) -> None:
    """And everything before it fits."""
    found = reached(RunOrder(), names, on_record("a", "b", "c"))

    assert found[:number] == [None] * number
    assert str(found[number]).startswith(words)


@pytest.mark.parametrize("is_commit", [False, True])
def test_a_step_and_a_commit_do_not_change_places(is_commit: bool) -> None:
    """The kind is part of what is on record."""
    steps = on_record("a", commits=frozenset() if is_commit else frozenset("a"))

    found = RunOrder().reach("a", steps, is_commit=is_commit)

    assert str(found).startswith(f"'a' is on record as a {'step' if is_commit else 'commit'}")
    assert RunOrder().reach("a", steps, is_commit=not is_commit) is None


def test_a_fault_does_not_count_as_done() -> None:
    """What did not fit is not taken for what is on record, when it is asked for once more."""
    order, steps = RunOrder(), on_record("a", first=1)

    assert order.reach("a", steps, is_commit=False) is not None
    assert order.reach("a", steps, is_commit=False) is not None


@pytest.mark.parametrize(
    ("met", "missing"), [("", "'a', 'b'"), ("a", "'b'"), ("ab", None), ("abx", None)]
)
def test_what_a_run_did_not_come_to_is_named(met: str, missing: str | None) -> None:
    """Every step on record without which the run has ended."""
    order, steps = RunOrder(), on_record("a", "b")
    reached(order, met, steps)

    found = order.missed(steps)

    if missing is None:
        assert found is None
    else:
        assert str(found).startswith(f"the run ended without coming to {missing}, which is on")
