"""A relay's turn by its queue's answers: what is the queue's own fault, and failures in a row."""

from __future__ import annotations

import pytest

from tests.outbox.test_relay_turns import Line, down
from tests.support.memory_outbox import waiting
from tests.support.strict_sqs import StrictSqs, refusal

# What AWS answers where the queue, its name, its key or the credentials are at fault.
OF_THE_QUEUE = [
    *("AccessDeniedException", "AuthFailure", "ExpiredToken", "ExpiredTokenException"),
    *("IncompleteSignature", "InvalidAccessKeyId", "InvalidAddress", "InvalidClientTokenId"),
    *("InvalidSecurity", "InvalidSignatureException", "MissingAuthenticationToken"),
    *("MissingAuthenticationTokenException", "NonExistentQueue", "NotAuthorized"),
    *("OptInRequired", "OverLimit", "QueueDeletedRecently", "QueueDoesNotExist"),
    *("RequestExpired", "SignatureDoesNotMatch", "Throttling", "ThrottlingException"),
    "UnrecognizedClientException",
]


@pytest.mark.parametrize("code", OF_THE_QUEUE)
def test_no_code_that_speaks_of_the_queue_sets_a_message_aside(code: str) -> None:
    """All messages stay due, and none is tried singly."""
    line = Line([waiting(number) for number in range(15)], StrictSqs())

    def refuses(_ids: list[str]) -> None:
        raise refusal(code)

    line.sqs.happens = refuses

    assert len(line.relays()) == 15
    assert (line.table.aside, line.table.tries) == ({}, {})
    assert {len(call) for call in line.sqs.calls} == {10, 5}


def test_a_queue_that_answers_now_and_then_is_asked_on() -> None:
    """Only failures in a row are counted, from the last answer on."""
    messages = [waiting(number) for number in range(50)]
    line = Line(messages, StrictSqs())
    answers = iter([True, False, False, True, True])

    def sometimes(ids: list[str]) -> None:
        if not next(answers):
            down(ids)

    line.sqs.happens = sometimes

    assert len(line.relays()) == 20
    assert len(line.sqs.calls) == 5
