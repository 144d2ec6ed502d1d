"""What the checkers say of an operation whose record an operator deletes, and which lives again.

A reservation that was still under way when the record was deleted finds the key free, and takes it
with the old id. What is promised of one operation is promised of each of its lives.
"""

from __future__ import annotations

import pytest

from oncekey.record.transitions import Ending, Settle
from tests.simulation.checkers import SAFETY
from tests.simulation.checkers_of_answers import ANSWERS, replays_equal_the_first_answer
from tests.simulation.checkers_of_effects import RECORDED as OF_EFFECTS
from tests.simulation.checkers_of_order import a_key_is_linearizable
from tests.simulation.checkers_of_statements import STATEMENTS
from tests.simulation.histories import (
    AT_MS,
    COMPLETE,
    COMPLETED,
    EXPIRE,
    EXPIRES_AT_S,
    RESERVE,
    RUNNING,
    TAKE_OVER,
    UNKNOWN,
    affected,
    asked,
    began,
    held,
    history,
    ran,
    replayed,
    wrote,
)
from tests.simulation.histories_of_effects import (
    AFTER_STEP,
    ANSWER,
    COMPLETION,
    ENDED,
    FINISH,
    FINISHED,
    IN_STEP,
    RECORDED,
    RESERVED,
    START,
    STARTED,
    began_step,
    charged,
    committed,
    told,
)
from tests.simulation.history import Died, Event, Returned, Swept
from tests.support.replacing import replace

OTHER = "what the provider says"
SETTLEMENT = Settle(
    pk="pk",
    seen_owner="A/1",
    new_owner="S/1",
    to=Ending(response=OTHER, completed_at_ms=AT_MS, expires_at_s=EXPIRES_AT_S),
)
SETTLED = replace(COMPLETED, owner="S/1", rev=3, response=OTHER)
DELETED = Swept(at_ms=AT_MS, actor="operator", record=COMPLETED)

# As in seed 571008: the first reservation arrives when its operation is completed and deleted. The
# key then is of an attempt that nobody makes, until a settlement ends it.
LATE: tuple[Event, ...] = (
    asked("A"),
    wrote("A", RESERVE, None, RUNNING),
    held("A"),
    began("A"),
    affected("A"),
    Returned(at_ms=AT_MS, actor="A"),
    wrote("A", COMPLETE, RUNNING, COMPLETED),
    ran("A"),
    DELETED,
    replace(wrote("A", RESERVE, None, RUNNING), late=True),
    wrote("R", EXPIRE, RUNNING, UNKNOWN),
    wrote("S", SETTLEMENT, UNKNOWN, SETTLED),
    asked("B"),
    replayed("B", SETTLED),
)

AGAIN = replace(RECORDED, owner="B/1", rev=2, attempt=2)
IN_STEP_AGAIN = replace(IN_STEP, owner="B/1", rev=3, attempt=2)
AFTER_STEP_AGAIN = replace(AFTER_STEP, owner="B/1", rev=4, attempt=2)
ANSWER_AGAIN = replace(ANSWER, attempt=2, by="B", effects=("charge by B",))
ENDED_AGAIN = replace(ENDED, owner="B/1", rev=5, attempt=2, response=ANSWER_AGAIN.stored)

# The same with recorded effects: another attempt takes the operation over, and makes it again.
RECORDED_AGAIN: tuple[Event, ...] = (
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
    replace(DELETED, record=ENDED),
    replace(RESERVED, late=True),
    asked("B"),
    wrote("B", TAKE_OVER, RECORDED, AGAIN),
    held("B", 2),
    began("B", 2),
    wrote("B", START, AGAIN, IN_STEP_AGAIN),
    began_step("B", 2),
    charged("B", 2),
    wrote("B", FINISH, IN_STEP_AGAIN, AFTER_STEP_AGAIN),
    Returned(at_ms=AT_MS, actor="B"),
    replace(committed(COMPLETE, AFTER_STEP_AGAIN, ENDED_AGAIN, "final"), actor="B"),
    told(ANSWER_AGAIN, "B"),
    Died(at_ms=AT_MS, actor="R"),
)


@pytest.mark.parametrize(
    ("events", "rules"),
    [(LATE, ()), (RECORDED_AGAIN, OF_EFFECTS)],
    ids=["settled", "recorded"],
)
def test_a_late_reservation_after_a_deletion_breaks_no_rule(
    events: tuple[Event, ...], rules: tuple[object, ...]
) -> None:
    """Each life has one effect and one answer, and the key is linearizable."""
    good = history(*events)
    checks = (*SAFETY, *ANSWERS, *rules, *STATEMENTS, a_key_is_linearizable)

    assert [str(found) for check in checks for found in check(good)] == []  # type: ignore[operator]


@pytest.mark.parametrize("events", [LATE, RECORDED_AGAIN], ids=["settled", "recorded"])
def test_without_the_deletion_the_second_life_is_found(events: tuple[Event, ...]) -> None:
    """A reservation that the store should have refused is no new life."""
    bad = history(*(event for event in events if not isinstance(event, Swept)))

    assert [found.rule for check in SAFETY for found in check(bad)]


def test_an_answer_of_no_life_is_found() -> None:
    """A replay that equals neither the first nor the second life's answer is nobody's."""
    bad = history(*LATE, replayed("C", replace(SETTLED, response="another")))

    (found,) = replays_equal_the_first_answer(bad)

    assert found.rule == "a replay is not what was stored first"
