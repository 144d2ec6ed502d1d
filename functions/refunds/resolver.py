"""The resolver of refunds with an unknown outcome: it asks the provider."""

from __future__ import annotations

from functions.refunds import logic
from functions.refunds.models import answer_of
from oncekey import Completed, NotExecuted, Question, resolver


@resolver("POST /refunds")
def what_became_of(question: Question) -> Completed | NotExecuted:
    """The answer that the client would have got, or `NotExecuted` if nothing was refunded.

    It asks the provider, and writes the row that the function did not write. If it raises, the
    refund stays unknown until the next turn.
    """
    made = logic.find_made(
        question.operation_id,
        since_ms=question.started_at_ms,
        until_ms=question.lease_until_ms,
    )
    if made is None:
        return NotExecuted()
    return Completed(answer_of(logic.restore(made)))
