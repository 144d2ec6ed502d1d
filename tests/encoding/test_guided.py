"""The parsers keep their promises for inputs that are made of those that reached new lines."""

from __future__ import annotations

import random

import pytest

from tests.support import guided
from tests.support.guided import FOUND, TARGETS, Broken, Guided, play


def test_no_parser_breaks_its_promise() -> None:
    """A key, date, document, result, message, event, item or signature is read as what it says, or
    is refused by the error that its parser promises. `make fuzz` plays more of them.

    Red when an input raises another error, or is read as something else than it is stored as.
    """
    for each in play(TARGETS, seed=1, until=lambda turns: turns == 300):
        assert each.runs > 300


def test_no_input_that_broke_a_promise_breaks_it_again() -> None:
    """What `make fuzz` once found is played each time."""
    for name, text in FOUND:
        TARGETS[name][0](text)


def test_an_input_that_reaches_new_lines_is_kept() -> None:
    """The inputs of a parser grow by what leads further, and by nothing else.

    Red when coverage is not looked at.
    """
    item = Guided("an item", random.Random(1))  # noqa: S311 -- no secret
    seeds = len(item.corpus)

    assert item.play('{"status": {"S": "COMPLETED"}}')
    assert not item.play('{"status": {"S": "COMPLETED"}}')
    assert len(item.corpus) == seeds + 1


def test_a_broken_promise_is_told_with_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """An input that raises what nobody promised ends the run, and can be copied from its end."""

    def promise(text: str) -> None:
        if text != "seed":
            raise ZeroDivisionError

    monkeypatch.setitem(guided.TARGETS, "broken", (promise, ("seed",)))

    with pytest.raises(Broken) as broken:
        play(["broken"], seed=1, until=lambda turns: turns == 20)
    assert str(broken.value).startswith("('broken', ")
    assert "ZeroDivisionError" in str(broken.value)
