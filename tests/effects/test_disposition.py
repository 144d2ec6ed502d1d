"""How an attempt ends, for every kind of effects."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from oncekey.effects.disposition import Disposition, decide, is_proof, reason
from oncekey.errors import NotExecuted
from oncekey.flow.commands import Answered, Raised
from oncekey.record.record import Effects


class Declined(Exception):
    """What the author's rule accepts as proof."""


FINAL: Answered[Any] = Answered(value={}, stored="{}", is_final=True)
NOT_FINAL: Answered[Any] = Answered(value={}, stored="{}", is_final=False)
PROOFS = [NotExecuted("refused"), Declined("4242secret")]
NO_PROOFS: list[BaseException] = [
    RuntimeError("4242secret"),
    TimeoutError(),
    KeyboardInterrupt(),
    SystemExit(1),
]

# The contract's table: what happened, and what is recorded for each kind of effects. What recorded
# effects have finished is on the record, so that they can be resumed.
TABLE: dict[str, tuple[list[Any], Disposition, Disposition, Disposition]] = {
    "final answer": ([FINAL], Disposition.COMPLETED, Disposition.COMPLETED, Disposition.COMPLETED),
    "answer not final": (
        [NOT_FINAL],
        Disposition.UNKNOWN,
        Disposition.RETRYABLE,
        Disposition.RETRYABLE,
    ),
    "proof": (
        [Raised(e) for e in PROOFS],
        Disposition.NOT_EXECUTED,
        Disposition.NOT_EXECUTED,
        Disposition.NOT_EXECUTED,
    ),
    "no proof": (
        [Raised(e) for e in NO_PROOFS],
        Disposition.UNKNOWN,
        Disposition.RETRYABLE,
        Disposition.RETRYABLE,
    ),
}
COLUMNS = (Effects.UNRECORDED, Effects.REPEATABLE, Effects.RECORDED)


def is_declined(error: BaseException) -> bool:
    """The author's rule."""
    return isinstance(error, Declined)


@pytest.mark.requirement("D3")
@pytest.mark.parametrize("row", TABLE)
@pytest.mark.parametrize(("column", "effects"), list(enumerate(COLUMNS)))
def test_every_attempt_ends_as_the_contract_says(row: str, column: int, effects: Effects) -> None:
    """Only a final answer completes, and only what is proven or harmless may run again.

    Red when any exception, or an answer that is not final, releases unrecorded effects.
    """
    results, *fates = TABLE[row]

    for result in results:
        assert decide(result, effects, is_declined) is fates[column]


@pytest.mark.requirement("E6")
def test_with_a_step_in_doubt_nothing_but_unknown_is_recorded() -> None:
    """Whatever the handler made of it: an answer, a proof or an error.

    Red when `decide` asks what the handler returned before it asks for the step.
    """
    results = [result for row in TABLE.values() for result in row[0]]

    fates = {decide(result, Effects.RECORDED, is_declined, is_in_doubt=True) for result in results}

    assert fates == {Disposition.UNKNOWN}


def test_the_table_has_every_kind_of_effects() -> None:
    """No kind of effects is left out, and the authors' rule is asked in all of them."""
    assert set(COLUMNS) == set(Effects)


@pytest.mark.requirement("D3")
def test_without_a_rule_only_the_statement_itself_is_proof() -> None:
    """`NotExecuted` and its kinds prove that nothing happened; no other exception does so.

    Red when an error that is not declared counts as proof, such as a time-out.
    """

    class Refused(NotExecuted):
        pass

    def nothing(_: BaseException) -> bool:
        return False

    assert is_proof(Raised(NotExecuted()), nothing)
    assert is_proof(Raised(Refused("by the provider")), nothing)
    for error in itertools.chain(NO_PROOFS, [Declined()]):
        assert not is_proof(Raised(error), nothing)


def test_what_goes_wrong_after_the_handler_is_no_proof() -> None:
    """An answer that cannot be stored says nothing of what was done, whatever the rule accepts."""
    mistake = Raised(TypeError("no answer"), has_returned=True)

    assert not is_proof(mistake, lambda _error: True)
    assert decide(mistake, Effects.UNRECORDED, lambda _error: True) is Disposition.UNKNOWN


@pytest.mark.requirement("C8")
@pytest.mark.parametrize("effects", Effects)
def test_an_answer_that_is_not_final_is_never_stored(effects: Effects) -> None:
    """A 5xx completes nothing, whatever the effects.

    Red when `decide` completes every answer.
    """
    assert decide(NOT_FINAL, effects, is_declined) is not Disposition.COMPLETED


def test_a_reason_names_the_kind_of_error_only() -> None:
    """What is kept of an error is its kind; its text may hold a payload."""
    assert reason(Raised(RuntimeError("4242secret"))) == "RuntimeError"
    assert reason(Raised(Declined("4242secret"))) == "Declined"
    assert reason(NOT_FINAL) == "answer-not-final"
