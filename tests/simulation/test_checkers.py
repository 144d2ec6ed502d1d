"""The checkers, on histories with known verdicts: each can pass, and each can fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncekey.record.outcome import Reason
from oncekey.record.record import Effects
from tests.simulation import checkers, checkers_of_answers
from tests.simulation.checkers import SAFETY
from tests.simulation.checkers_of_answers import (
    ANSWERS,
    MOST_RETRIES,
    answers_come_at_last,
    answers_come_in_time,
)
from tests.simulation.histories import (
    AT_MS,
    COMPLETE,
    COMPLETED,
    DENIAL,
    DENIED,
    EXPIRE,
    EXPIRES_AT_S,
    RESERVE,
    RESUME,
    RETRYABLE,
    RUNNING,
    TAKE_OVER,
    UNKNOWN,
    affected,
    asked,
    began,
    held,
    history,
    ran,
    refused,
    replayed,
    turned_away,
    wrote,
)
from tests.simulation.history import Died, Healed, Returned, Swept
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.history import Event, History
    from tests.simulation.story import Violation

    Checker = Callable[[History], Iterator[Violation]]

RESERVED = wrote("A", RESERVE, None, RUNNING)
COMPLETION = wrote("A", COMPLETE, RUNNING, COMPLETED)
HEALED = Healed(at_ms=AT_MS, actor="")
TAKEN = replace(RUNNING, owner="B/1", rev=2, attempt=2, effects=Effects.REPEATABLE)
EXPIRY = Swept(at_ms=AT_MS, actor="", record=COMPLETED)
DELETION = replace(EXPIRY, actor="operator")
REFUSAL = turned_away("B", Reason.RUNNING)

FIRST_RUN: tuple[Event, ...] = (
    asked("A"),
    RESERVED,
    held("A"),
    began("A"),
    affected("A"),
    Returned(at_ms=AT_MS, actor="A"),
    COMPLETION,
    ran("A"),
)
GOOD: dict[str, tuple[Event, ...]] = {
    "nothing": (),
    "a run and a replay": (
        *FIRST_RUN,
        asked("B"),
        refused("B", RESERVE, COMPLETED, COMPLETED),
        replayed("B"),
    ),
    "a lost answer": (
        asked("A"),
        RESERVED,
        refused("A", RESERVE, RUNNING, RUNNING),
        *FIRST_RUN[2:],
    ),
    "a death, and a false settlement that is told of by nobody": (
        *FIRST_RUN[:4],
        Died(at_ms=AT_MS, actor="A"),
        wrote("B", EXPIRE, RUNNING, UNKNOWN),
        wrote("S", DENIAL, UNKNOWN, DENIED),
    ),
    "a caller that comes back once all is well": (
        *FIRST_RUN,
        HEALED,
        *[REFUSAL] * (MOST_RETRIES - 1),
        replayed("B"),
    ),
}

BAD: list[tuple[Checker, tuple[Event, ...]]] = [
    (checkers.at_most_one_effect, (RESERVED, affected("A"), affected("B", 2))),
    (
        checkers.settlements_are_true,
        (RESERVED, wrote("S", DENIAL, UNKNOWN, DENIED), affected("A")),
    ),
    (
        checkers.settlements_are_true,
        (RESERVED, affected("A"), wrote("S", DENIAL, UNKNOWN, DENIED)),
    ),
    (checkers.runs_do_not_overlap, (asked("A"), asked("B"), began("A"), began("B", 2))),
    (
        checkers.runs_do_not_overlap,
        (asked("A"), RESERVED, asked("B"), wrote("B", TAKE_OVER, RUNNING, TAKEN)),
    ),
    (
        checkers.runs_do_not_overlap,
        (asked("A"), RESERVED, wrote("R", EXPIRE, RUNNING, UNKNOWN)),
    ),
    (checkers.handlers_run_under_a_lease, (asked("A"), held("A"))),
    (checkers.handlers_run_under_a_lease, (asked("A"), RESERVED, asked("B"), held("B"))),
    (checkers.handlers_run_under_a_lease, (asked("A", "b"), RESERVED, held("A"))),
    (
        checkers.handlers_run_under_a_lease,
        (asked("A"), RESERVED, wrote("B", EXPIRE, RUNNING, UNKNOWN), held("A")),
    ),
    (
        checkers.handlers_run_under_a_lease,
        (
            asked("A"),
            RESERVED,
            refused("A", RESERVE, RUNNING, RUNNING),
            held("A", own_ms=AT_MS + 10_001),
        ),
    ),
    (
        checkers.only_its_owner_ends_an_attempt,
        (RESERVED, wrote("B", COMPLETE, RUNNING, COMPLETED)),
    ),
    (
        checkers.only_its_owner_ends_an_attempt,
        (RESERVED, wrote("S", DENIAL, UNKNOWN, DENIED), COMPLETION),
    ),
    (checkers.refused_writes_change_nothing, (refused("B", RESERVE, RUNNING, None),)),
    (
        checkers.refused_writes_change_nothing,
        (refused("B", RESERVE, RUNNING, replace(RUNNING, owner="B/1")),),
    ),
    (
        checkers.revisions_grow_by_one,
        (wrote("A", COMPLETE, RUNNING, replace(COMPLETED, rev=1)),),
    ),
    (checkers.revisions_grow_by_one, (wrote("A", RESERVE, None, replace(RUNNING, rev=2)),)),
    (
        checkers.nothing_in_doubt_expires,
        (wrote("B", RESUME, RETRYABLE, replace(TAKEN, expires_at_s=EXPIRES_AT_S)),),
    ),
    (checkers.nothing_in_doubt_expires, (wrote("B", RESERVE, UNKNOWN, RUNNING),)),
    (checkers.nothing_in_doubt_expires, (Swept(at_ms=AT_MS, actor="", record=UNKNOWN),)),
    (
        checkers.everything_in_doubt_is_due,
        (wrote("B", EXPIRE, RUNNING, replace(UNKNOWN, due=None)),),
    ),
    (
        checkers.everything_in_doubt_is_due,
        (wrote("A", COMPLETE, RUNNING, replace(COMPLETED, due=RUNNING.due)),),
    ),
    (checkers.stored_answers_stay, (wrote("B", COMPLETE, COMPLETED, COMPLETED),)),
    (checkers.stored_answers_stay, (wrote("B", RESERVE, COMPLETED, RUNNING),)),
    (checkers_of_answers.replays_equal_the_first_answer, (replayed("B"),)),
    (
        checkers_of_answers.replays_equal_the_first_answer,
        (RESERVED, COMPLETION, replayed("B", replace(COMPLETED, response="op/2/B"))),
    ),
    (checkers_of_answers.replays_equal_the_first_answer, (began("A"), ran("A"))),
    (
        checkers_of_answers.replays_equal_the_first_answer,
        (RESERVED, COMPLETION, ran("A", expires_at_s=EXPIRES_AT_S + 1)),
    ),
    (checkers_of_answers.answers_belong_to_their_request, (replayed("B", body="b"),)),
    (
        checkers_of_answers.answers_belong_to_their_request,
        (began("A", operation_id="former"), replayed("A")),
    ),
    (checkers_of_answers.answers_belong_to_their_request, (began("B"), ran("B", by="A"))),
    (
        checkers_of_answers.nothing_ran_where_it_was_said,
        (began("A"), turned_away("A", Reason.STORE_UNAVAILABLE)),
    ),
    (
        checkers_of_answers.nothing_ran_where_it_was_said,
        (turned_away("A", Reason.NOT_EXECUTED), affected("A")),
    ),
    (checkers_of_answers.nothing_ran_where_it_was_said, (ran("A"),)),
    (
        checkers_of_answers.final_answers_are_kept,
        (RESERVED, ran("A", expires_at_s=None), began("B", 2)),
    ),
    (
        checkers_of_answers.final_answers_are_kept,
        (RESERVED, ran("A", expires_at_s=None), wrote("S", DENIAL, UNKNOWN, DENIED)),
    ),
    (
        checkers_of_answers.final_answers_are_kept,
        (
            RESERVED,
            wrote("S", DENIAL, UNKNOWN, DENIED),
            ran("B", expires_at_s=None),
            began("C", 2),
        ),
    ),
    (checkers.ids_are_reserved_once, (RESERVED, RESERVED)),
    (checkers.ids_are_reserved_once, (RESERVED, replace(RESERVED, late=True))),
    (checkers.ids_are_reserved_once, (RESERVED, EXPIRY, RESERVED)),
    (checkers.ids_are_reserved_once, (RESERVED, DELETION, wrote("B", RESERVE, None, RUNNING))),
    (answers_come_at_last, (HEALED, REFUSAL)),
    (answers_come_at_last, (HEALED, *[REFUSAL] * MOST_RETRIES, replayed("B"))),
]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_breaks_no_rule(name: str) -> None:
    """No checker finds anything in a history that is as it should be."""
    good = history(*GOOD[name])

    assert [str(found) for check in (*SAFETY, *ANSWERS) for found in check(good)] == []
    assert list(answers_come_at_last(good)) == []


@pytest.mark.parametrize(
    ("check", "events"), BAD, ids=[f"{check.__name__}-{n}" for n, (check, _) in enumerate(BAD)]
)
def test_a_bad_history_is_found_with_its_story(check: Checker, events: tuple[Event, ...]) -> None:
    """Each checker finds the breach of its rule, and tells it by events of the history."""
    found = next(check(history(*events)), None)

    assert found is not None
    assert found.story
    assert set(found.story) <= set(events)
    assert found.rule in str(found)


def test_every_checker_is_shown_to_fail() -> None:
    """No checker stands in the list that no bad history has turned red."""
    shown = {check for check, _ in BAD}

    assert {*SAFETY, *ANSWERS, answers_come_at_last} == shown


def test_an_answer_that_comes_after_the_stated_time_is_found() -> None:
    """What is final in time is fine, and what comes later is told with the end of the faults."""
    late = replace(replayed("B"), at_ms=AT_MS + 1_001)

    (found,) = answers_come_in_time(history(HEALED, late, progress_ms=1_000))

    assert found.story == (HEALED, late)
    assert list(answers_come_in_time(history(HEALED, late, progress_ms=1_001))) == []
    assert list(answers_come_in_time(history(HEALED, replace(REFUSAL, at_ms=late.at_ms)))) == []


def test_a_false_settlement_excuses_the_second_effect() -> None:
    """What a settlement denied falsely is its author's fault, and not that of the protocol."""
    denied = (RESERVED, wrote("S", DENIAL, UNKNOWN, DENIED), affected("A"), affected("B", 2))

    assert list(checkers.at_most_one_effect(history(*denied))) == []
    assert list(checkers.settlements_are_true(history(*denied, killed_in_time=False))) == []


def test_a_denied_attempt_that_begins_all_the_same_excuses_the_second_run() -> None:
    """Who was neither killed nor done began after its denial; another run was answered since."""
    denied = (RESERVED, wrote("S", DENIAL, UNKNOWN, DENIED), ran("B", expires_at_s=None))

    assert list(checkers_of_answers.final_answers_are_kept(history(*denied, began("A")))) == []


def test_a_frozen_caller_may_reserve_its_id_again_after_the_retention() -> None:
    """No platform kills it in time, so it outlives the record that it had reserved."""
    again = history(RESERVED, EXPIRY, RESERVED, killed_in_time=False)

    assert list(checkers.ids_are_reserved_once(again)) == []


def test_a_late_reservation_may_outlive_the_record_that_it_repeats() -> None:
    """It arrives within the retention of its sending; the record was made a moment before that."""
    again = (RESERVED, EXPIRY, replace(RESERVED, late=True))

    assert list(checkers.ids_are_reserved_once(history(*again))) == []


@pytest.mark.parametrize("circumstance", ["killed_in_time", "clocks_agree"])
def test_without_platform_or_clocks_runs_may_overlap(circumstance: str) -> None:
    """Nobody can promise that leases do not overlap where clocks differ or nobody is killed."""
    overlapping = (asked("A"), asked("B"), began("A"), began("B", 2))

    assert list(checkers.runs_do_not_overlap(history(*overlapping, **{circumstance: False}))) == []


def test_repeatable_operations_may_have_more_than_one_effect() -> None:
    """Their author has declared that running again is harmless."""
    repeatable = replace(RUNNING, effects=Effects.REPEATABLE)
    twice = (wrote("A", RESERVE, None, repeatable), affected("A"), affected("B", 2))

    assert list(checkers.at_most_one_effect(history(*twice))) == []
