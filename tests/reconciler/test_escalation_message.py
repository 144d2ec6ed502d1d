"""What a person is told of an operation that nobody else can settle."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncekey.errors import StoreError
from oncekey.reconciler.escalation import TOPIC, TellPerson, escalation_body
from oncekey.record.record import Status
from oncekey.record.references import reference_to
from oncekey.store.sqs import Entry, Rejected, SqsQueue
from tests.support.records import NOW_MS, STEPS, record
from tests.support.replacing import replace

ESCALATED = record(
    status=Status.UNKNOWN,
    steps=STEPS["finished and started"],
    escalated_at_ms=NOW_MS,
    response="a stored answer",
    key="key-of-the-client",
    principal="user-1",
    request='{"card":"4242"}',
)


class Queue(SqsQueue):
    """A queue that answers as it is told to."""

    def __init__(self, *, rejects: bool = False, is_final: bool = False) -> None:
        super().__init__("https://sqs.example/queue")
        self.entries: list[Entry] = []
        self._rejects = rejects
        self._is_final = is_final

    def send(self, entries: Any) -> list[Rejected]:
        """Take them, or not."""
        self.entries += entries
        return [Rejected(each.id, "TooMuch", self._is_final) for each in entries if self._rejects]


def tell(queue: SqsQueue) -> None:
    """Send the message to a person."""
    TellPerson(ESCALATED.operation_id, escalation_body(ESCALATED), queue).carry_out()


def test_the_message_says_what_a_person_needs() -> None:
    """The message names the operation, how to settle it, where it stands and why."""
    body = json.loads(escalation_body(ESCALATED))

    assert body.pop("id")
    assert body == {
        "topic": TOPIC,
        "reference": reference_to(ESCALATED),
        "operation": "POST /payments",
        "operation_id": ESCALATED.operation_id,
        "tenant": "tenant-1",
        "status": "UNKNOWN",
        "reason": "TimeoutError",
        "step_in_doubt": "charge",
        "attempt": 3,
        "reconcile_attempts": 2,
        "created_at_ms": NOW_MS - 90_000,
        "escalated_at_ms": NOW_MS,
    }


def test_the_message_holds_no_key_and_nothing_that_was_sent() -> None:
    """Neither the client's key, the principal, the fingerprint, the owner's token, the request, a
    step's result nor an answer is in the message.
    """
    body = escalation_body(ESCALATED)

    secrets = ("key-of-the-client", "user-1", "f1:asked", "owner-1", "4242", '\\"id\\":1', "stored")
    assert [secret for secret in secrets if secret in body] == []


def test_repeats_of_an_escalation_have_one_id() -> None:
    """The id is that of the escalation: a second sending has the same one, another attempt, a later
    escalation of the same attempt, and another operation have others.
    """
    again = replace(ESCALATED, rev=9, reconcile_attempts=7, owner="owner-2")
    other_attempt = replace(ESCALATED, attempt=4)
    later = replace(ESCALATED, escalated_at_ms=NOW_MS + 1)
    other_operation = replace(ESCALATED, operation_id="0f8fad5b-d9cb-469f-a165-000000000000")

    ids = [
        json.loads(escalation_body(each))["id"]
        for each in (ESCALATED, again, other_attempt, later, other_operation)
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 4


def test_one_message_is_sent() -> None:
    """The queue gets one entry."""
    queue = Queue()

    tell(queue)
    assert queue.entries == [Entry(id=ESCALATED.operation_id, body=escalation_body(ESCALATED))]


@pytest.mark.parametrize("is_final", [False, True])
def test_what_the_queue_does_not_take_is_not_sent(is_final: bool) -> None:
    """A message that the queue rejects is a failure, and never taken for told."""
    with pytest.raises(StoreError, match="the escalation queue: TooMuch"):
        tell(Queue(rejects=True, is_final=is_final))
