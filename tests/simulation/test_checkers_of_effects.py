"""The checkers of recorded effects, on histories with known verdicts: each can pass, and fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncekey.record.outcome import Reason
from oncekey.record.record import Status
from oncekey.record.transitions import Settle
from tests.simulation import checkers, checkers_of_answers, checkers_of_effects
from tests.simulation.checkers import SAFETY
from tests.simulation.checkers_of_answers import ANSWERS
from tests.simulation.checkers_of_effects import RECORDED
from tests.simulation.histories import (
    AT_MS,
    COMPLETE,
    ENDING,
    EXPIRE,
    EXPIRES_AT_S,
    RESERVE,
    TAKE_OVER,
    asked,
    began,
    held,
    history,
    turned_away,
    wrote,
)
from tests.simulation.histories_of_effects import (
    AFTER_STEP,
    ANSWER,
    COMPLETION,
    DENIED,
    DENYING,
    ENDED,
    FINDING,
    FINISHED,
    HALF_DONE,
    IN_DOUBT,
    IN_STEP,
    REACH,
    REACHED,
    RESERVED,
    START,
    STARTED,
    began_step,
    charged,
    committed,
    given_again,
    told,
)
from tests.simulation.histories_of_effects import RECORDED as RUNNING
from tests.simulation.history import Died, Returned, Swept
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.history import Event, History
    from tests.simulation.story import Violation

    Checker = Callable[[History], Iterator[Violation]]

EXPIRED = wrote("R", EXPIRE, IN_STEP, IN_DOUBT)
DENIAL = wrote("S", DENYING, IN_DOUBT, DENIED)
TAKEN = replace(RUNNING, owner="B/1", rev=2, attempt=2)
TAKEN_OVER = wrote("B", TAKE_OVER, RUNNING, TAKEN)
SETTLED = Settle(pk="pk", seen_owner="A/1", new_owner="S/1", to=ENDING)

GOOD: dict[str, tuple[Event, ...]] = {
    "a run with its step, and a replay": (
        asked("A"),
        RESERVED,
        held("A"),
        began("A"),
        STARTED,
        began_step("A"),
        charged("A"),
        FINISHED,
        Returned(at_ms=AT_MS, actor="A"),
        COMPLETION,
        told(),
        given_again(),
    ),
    "a recovery point": (asked("A"), RESERVED, held("A"), REACHED),
    "a step in doubt that is found to be done": (
        asked("A"),
        RESERVED,
        STARTED,
        began_step("A"),
        charged("A"),
        Died(at_ms=AT_MS, actor="A"),
        EXPIRED,
        wrote("S", FINDING, IN_DOUBT, HALF_DONE),
    ),
}

BAD: list[tuple[Checker, tuple[Event, ...]]] = [
    (
        checkers_of_effects.business_writes_are_made_once,
        (COMPLETION, committed(COMPLETE, ENDED, ENDED, "final")),
    ),
    (
        checkers_of_effects.business_writes_are_made_once,
        (COMPLETION, replace(COMPLETION, writes=())),
    ),
    (
        checkers_of_effects.business_writes_come_with_the_record,
        (replace(COMPLETION, permitted=False),),
    ),
    (
        checkers_of_effects.business_writes_come_with_the_record,
        (committed(RESERVE, None, RUNNING, "final"),),
    ),
    (
        checkers_of_effects.business_writes_come_with_the_record,
        (committed(REACH, RUNNING, AFTER_STEP, "final"),),
    ),
    (
        checkers_of_effects.business_writes_come_with_the_record,
        (replace(COMPLETION, messages=()),),
    ),
    (
        checkers_of_effects.business_writes_come_with_the_record,
        (replace(COMPLETION, writes=("former/final",)),),
    ),
    (
        checkers_of_effects.completions_tell_the_truth,
        (charged("A"), replace(COMPLETION, writes=(), messages=())),
    ),
    (checkers_of_effects.completions_tell_the_truth, (COMPLETION,)),
    (
        checkers_of_effects.completions_tell_the_truth,
        (charged("A"), replace(COMPLETION, transition=SETTLED)),
    ),
    (
        checkers_of_effects.completions_tell_the_truth,
        (charged("A"), replace(COMPLETION, answer=replace(ANSWER, writes=()).stored)),
    ),
    (checkers_of_effects.answers_are_on_record, (told(),)),
    (checkers_of_effects.answers_are_on_record, (COMPLETION, given_again("op/2/B"))),
    (checkers_of_effects.steps_have_one_effect, (RESERVED, charged("A"), charged("B", 2))),
    (checkers_of_effects.steps_begin_under_a_lease, (RESERVED, began_step("A"))),
    (checkers_of_effects.steps_begin_under_a_lease, (RESERVED, STARTED, EXPIRED, began_step("A"))),
    (
        checkers_of_effects.steps_begin_under_a_lease,
        (RESERVED, TAKEN_OVER, began_step("A", is_idempotent=True)),
    ),
    (checkers_of_effects.finished_steps_never_run_again, (FINISHED, began_step("A"))),
    (
        checkers_of_effects.finished_steps_never_run_again,
        (FINISHED, wrote("A", START, AFTER_STEP, replace(IN_STEP, rev=4))),
    ),
    (
        checkers_of_effects.nothing_in_doubt_goes_on,
        (wrote("B", TAKE_OVER, IN_STEP, replace(IN_STEP, owner="B/1")),),
    ),
    (
        checkers_of_effects.nothing_in_doubt_goes_on,
        (wrote("A", COMPLETE, IN_STEP, replace(ENDED, steps=IN_STEP.steps)),),
    ),
    (
        checkers_of_effects.nothing_in_doubt_goes_on,
        (wrote("R", EXPIRE, IN_STEP, replace(IN_STEP, status=Status.FAILED_RETRYABLE)),),
    ),
    (
        checkers_of_effects.settlements_write_a_fresh_owner,
        (wrote("S", FINDING, IN_DOUBT, replace(HALF_DONE, owner="A/1")),),
    ),
    # What the other checkers say of recorded effects.
    (checkers.settlements_are_true, (RESERVED, STARTED, DENIAL, charged("A"))),
    (checkers.only_its_owner_ends_an_attempt, (RESERVED, TAKEN_OVER, STARTED)),
    (checkers.only_its_owner_ends_an_attempt, (RESERVED, DENIAL, FINISHED)),
    (
        checkers.nothing_in_doubt_expires,
        (wrote("S", FINDING, IN_DOUBT, replace(HALF_DONE, expires_at_s=EXPIRES_AT_S)),),
    ),
    (checkers.nothing_in_doubt_expires, (wrote("B", RESERVE, HALF_DONE, RUNNING),)),
    (checkers.nothing_in_doubt_expires, (Swept(at_ms=AT_MS, actor="", record=HALF_DONE),)),
    (
        checkers.everything_in_doubt_is_due,
        (wrote("S", FINDING, IN_DOUBT, replace(HALF_DONE, due=None)),),
    ),
    (
        checkers_of_answers.nothing_ran_where_it_was_said,
        (RESERVED, began("A"), charged("A"), turned_away("A", Reason.NOT_EXECUTED)),
    ),
    (
        checkers_of_answers.nothing_ran_where_it_was_said,
        (RESERVED, began("A"), turned_away("A", Reason.KEY_REUSED)),
    ),
]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_breaks_no_rule(name: str) -> None:
    """No checker finds anything in a history that is as it should be."""
    good = history(*GOOD[name])

    found = [str(found) for check in (*SAFETY, *ANSWERS, *RECORDED) for found in check(good)]
    assert found == []


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
    """No checker of effects stands in the list that no bad history has turned red."""
    assert {*RECORDED} <= {check for check, _ in BAD}


def test_a_false_denial_of_a_step_excuses_its_second_effect() -> None:
    """What a resolver denied falsely is its author's fault, and not that of the protocol."""
    denied = (RESERVED, STARTED, EXPIRED, DENIAL, charged("A"), charged("B", 2))

    assert list(checkers_of_effects.steps_have_one_effect(history(*denied))) == []
    assert list(checkers.settlements_are_true(history(*denied, clocks_agree=False))) == []


def test_a_late_clock_excuses_an_idempotent_step_alone() -> None:
    """Where clocks differ, a late attempt may repeat what is harmless, and nothing else."""
    apart = {"killed_in_time": False, "most_skew_ms": 20_000}
    late = (RESERVED, TAKEN_OVER, FINISHED)
    check = checkers_of_effects.steps_begin_under_a_lease
    again = checkers_of_effects.finished_steps_never_run_again

    for is_idempotent in (True, False):
        found = history(*late, began_step("A", is_idempotent=is_idempotent), **apart)
        assert (not list(check(found))) is is_idempotent
        assert (not list(again(found))) is is_idempotent


@pytest.mark.fault("K6.1")
def test_nothing_may_have_happened_where_a_caller_is_told_of_no_effect() -> None:
    """An effect of the attempt that is told so is a violation: whether it is on record or not,
    repeatable or not, and also where the attempt learned late of its loss.

    Red when the checker excuses what is on record, or what is late.
    """
    late = (RESERVED, began("A"), charged("A"), turned_away("A", Reason.NOT_EXECUTED))
    check = checkers_of_answers.nothing_ran_where_it_was_said

    idempotent = replace(charged("A"), key="key of the step")
    for found in (
        history(*late),
        history(*late, killed_in_time=False),
        history(RESERVED, began("A"), charged("A"), FINISHED, late[-1]),
        history(*late[:2], idempotent, late[-1]),
    ):
        assert list(check(found)) != []
