"""What became of a refund whose function died, or never heard the provider's answer."""

from __future__ import annotations

from functions.refunds import logic
from functions.refunds.models import answer_of
from oncekey import Completed, NotExecuted, Question, resolver


@resolver("POST /refunds")
def what_became_of(question: Question) -> Completed | NotExecuted:
    """The answer that the client would have had, or that nothing was given back.

    It asks the provider, and writes the row that the function did not. What it raises leaves the
    refund unknown until the next turn.
    """
    made = logic.find_made(
        question.operation_id,
        since_ms=question.started_at_ms,
        until_ms=question.lease_until_ms,
    )
    if made is None:
        return NotExecuted()
    return Completed(answer_of(logic.restore(made)))
