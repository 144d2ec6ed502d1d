"""The registry of weakenings stays true to the code: each removes what is still there."""

from __future__ import annotations

import ast

import pytest

from tests.mutants import hand, page, registry
from tests.mutants.mutant import PACKAGES, ROOT
from tests.mutants.registry import Weakening

EVERYTHING = registry.everything()


def test_each_weakening_removes_what_stands_once_in_its_module() -> None:
    """A weakening whose text was changed or doubled meanwhile is corrected or taken out.

    It leaves a module that can be compiled, and changes it: what changes nothing is never caught.
    """
    for each in EVERYTHING:
        ast.parse(each.source())

    same = [each for each in EVERYTHING if each.was == each.now]

    assert same == []


def test_there_are_weakenings_of_every_kind() -> None:
    """A hundred and more, of every kind that the page explains, each with its own name."""
    assert len(registry.by_hand()) >= 100
    assert {each.kind for each in EVERYTHING} == set(registry.KINDS)
    assert len({(each.area, each.name) for each in EVERYTHING}) == len(EVERYTHING)


def test_each_comparison_of_each_condition_is_weakened() -> None:
    """No comparison of a transition's condition is passed over."""
    text = (PACKAGES / registry.CONDITIONS).read_text("utf-8")
    weakened: dict[str, int] = {}
    for each in registry.of_conditions():
        name = each.weakens.partition(" ")[0]
        weakened[name] = weakened.get(name, 0) + 1
    known: dict[str, object] = {}
    exec(text.partition("\n\ndef guard(")[0], known)  # noqa: S102 -- our own module's constants

    expected = {
        name: value.count(" AND ") + value.count(" OR ") + 1
        for name, value in known.items()
        if isinstance(value, str) and name.isupper() and not name.startswith("_")
    }
    assert weakened == expected


def test_the_tests_of_each_weakening_exist() -> None:
    """The tests that it is shown exist, and so does the one that has caught it."""
    known = hand.caught()
    caught = {known.get(each.area, {}).get(each.name, "") for each in EVERYTHING}
    named = {by.partition("::")[::2] for by in caught if "::" in by}
    texts = {file: (ROOT / file).read_text("utf-8") for file, _ in named}

    gone = [
        f"{file}::{function}"
        for file, function in named
        if f"def {function.partition('[')[0]}(" not in texts[file]
    ]

    assert [test for each in EVERYTHING for test in each.tests if not (ROOT / test).exists()] == []
    assert gone == []


def test_a_text_that_is_gone_is_found() -> None:
    """A weakening of what is no longer there is refused, and named."""
    gone = Weakening(
        area="a",
        name="gone",
        kind="clause",
        path="oncekey/record/record.py",
        was="no such text",
        now="",
        weakens="nothing",
        tests=(),
    )

    with pytest.raises(ValueError, match="a/gone: what it removes occurs 0 times"):
        gone.source()


def test_the_page_is_drawn_from_what_was_found() -> None:
    """The page of the mutants is the one that `python -m tests.mutants --page` writes."""
    text = page.PAGE.read_text("utf-8")

    assert text == page.drawn(text)
