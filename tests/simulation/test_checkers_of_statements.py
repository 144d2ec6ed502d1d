"""The checkers of what callers are told, on histories with known verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncekey.record.outcome import Reason, Refusal, Replayed
from tests.simulation import checkers_of_statements as checkers
from tests.simulation.checkers_of_statements import STATEMENTS
from tests.simulation.histories import (
    AT_MS,
    COMPLETE,
    COMPLETED,
    EXPIRE,
    RESERVE,
    RUNNING,
    UNKNOWN,
    asked,
    history,
    wrote,
)
from tests.simulation.history import Died, Event, History, Looked, Swept, Told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.story import Violation

    Checker = Callable[[History], Iterator[Violation]]

RESERVED = wrote("A", RESERVE, None, RUNNING)
EXPIRED = wrote("B", EXPIRE, RUNNING, UNKNOWN)


def told(reason: Reason, actor: str = "B", body: str = "a") -> Told:
    """A refusal that names the record it is about."""
    outcome = Refusal(reason=reason, record=RUNNING)
    return Told(at_ms=AT_MS, actor=actor, fingerprint=f"f1:{body}", outcome=outcome)


def given(text: str, actor: str) -> Told:
    """An answer."""
    return Told(at_ms=AT_MS, actor=actor, fingerprint="f1:a", outcome=Replayed(COMPLETED, text))


def looked(*, is_paused: bool) -> Looked:
    """Somebody reads the pauses."""
    return Looked(at_ms=AT_MS, actor="A", is_paused=is_paused)


ALL = (*STATEMENTS, checkers.pauses_are_true)
GOOD: dict[str, tuple[Event, ...]] = {
    "it runs": (RESERVED, asked("B"), told(Reason.RUNNING)),
    "it began to run meanwhile": (asked("B"), RESERVED, told(Reason.RUNNING)),
    "it is unknown": (RESERVED, asked("B"), EXPIRED, told(Reason.OUTCOME_UNKNOWN)),
    "it is another's": (RESERVED, asked("B", "b"), told(Reason.KEY_REUSED, body="b")),
    "it is paused": (looked(is_paused=True), asked("B"), told(Reason.PAUSED)),
    "it died": (asked("B"), Died(at_ms=AT_MS, actor="B")),
    "one answer": (asked("B"), given("x", "B"), asked("C"), given("x", "C")),
}
BAD: list[tuple[Checker, tuple[Event, ...]]] = [
    (checkers.refusals_are_true, (asked("B"), told(Reason.RUNNING))),
    (checkers.refusals_are_true, (asked("B"), told(Reason.RUNNING), RESERVED)),
    (checkers.refusals_are_true, (asked("B"), told(Reason.OUTCOME_UNKNOWN))),
    (checkers.refusals_are_true, (RESERVED, asked("B"), told(Reason.KEY_REUSED))),
    (checkers.refusals_are_true, (RESERVED, asked("B"), told(Reason.KEY_EXPIRED))),
    (checkers.pauses_are_true, (looked(is_paused=False), asked("B"), told(Reason.PAUSED))),
    (checkers.nobody_is_left_without_an_end, (asked("B"),)),
    (checkers.final_answers_agree, (given("x", "B"), given("y", "C"))),
]


@pytest.mark.parametrize("name", GOOD)
def test_a_true_statement_breaks_no_rule(name: str) -> None:
    """No checker finds anything in a history that is as it should be."""
    good = history(*GOOD[name])

    assert [str(found) for check in ALL for found in check(good)] == []


@pytest.mark.parametrize(
    ("check", "events"), BAD, ids=[f"{check.__name__}-{n}" for n, (check, _) in enumerate(BAD)]
)
def test_a_false_statement_is_found_with_its_story(
    check: Checker, events: tuple[Event, ...]
) -> None:
    """Each checker finds the breach of its rule, and tells it by events of the history."""
    found = next(check(history(*events)), None)

    assert found is not None
    assert set(found.story) <= set(events)


@pytest.mark.parametrize(("remembers", "breaches"), [(True, 0), (False, 1)])
def test_what_a_sandbox_remembers_may_be_deleted(*, remembers: bool, breaches: int) -> None:
    """An answer was deleted on purpose, and its key is still another request's to a sandbox that
    remembers it; to no other one.
    """
    answered = wrote("A", COMPLETE, RUNNING, COMPLETED)
    swept = Swept(at_ms=AT_MS, actor="operator", record=COMPLETED)
    events = (RESERVED, answered, swept, asked("B", "b"), told(Reason.KEY_REUSED, body="b"))

    found = checkers.refusals_are_true(history(*events, remembers=remembers))

    assert len(list(found)) == breaches


def test_every_checker_is_shown_to_fail() -> None:
    """No checker stands in the list that no bad history has turned red."""
    assert {*ALL} == {check for check, _ in BAD}
