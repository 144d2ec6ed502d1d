"""What a sweep leaves to the next one, and what it reports of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey.errors import StoreError
from oncekey.outbox.sweep import OutboxSweep, Swept
from tests.outbox.test_sweep import Yard, many
from tests.support.memory_outbox import waiting

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("messages", ["new ones", "refused before", "one is refused"])
def test_what_a_run_did_not_come_to_makes_it_incomplete(messages: str) -> None:
    """Of the only page the time allows two calls: what they did not send is left for the next run,
    also of those that go last, and where SQS has refused a batch for one entry and the others go
    singly.
    """
    yard = Yard(many(10 if messages == "one is refused" else 30))
    yard.sqs.happens = lambda _ids: yard.clock.advance(8_000)
    if messages == "refused before":
        yard.table.tries = dict.fromkeys(yard.table.messages, 1)
    elif messages == "one is refused":
        yard.refuses("InvalidMessageContents", "message-0009")

    swept = yard.sweeps(15_000)

    assert (swept.resent, len(yard.sqs.calls)) == (1 if messages == "one is refused" else 20, 2)
    assert not swept.is_complete


def test_a_sweep_reads_no_further_while_the_queue_is_down() -> None:
    """After three failures in a row, in the second page, the others are left to the next run."""
    yard = Yard(many(100), page=20)
    yard.sqs.happens = raises(StoreError("no route to the queue", transient=True))

    swept = yard.sweeps()

    assert (yard.table.pages, len(yard.sqs.calls), swept.failed) == (2, 3, 40)
    assert not swept.is_complete


def raises(error: Exception) -> Callable[[object], Any]:
    """What is called raises so."""

    def happens(_of: object) -> Any:
        raise error

    return happens


def test_a_message_that_could_not_be_set_aside_has_failed() -> None:
    """The table did not answer: it is still due, and the report says so."""
    yard = Yard([waiting(1, payload='"' + "x" * 300_000 + '"')])

    def happens(verb: str) -> None:
        if verb == "set_aside":
            raise StoreError("no route to the table", transient=True)

    yard.table.happens = happens

    assert yard.sweeps() == Swept(failed=1)


def test_a_message_that_somebody_else_has_sent_meanwhile_is_gone() -> None:
    """It was refused here and is no longer in the table: nothing of it failed."""
    yard = Yard(many(1))
    yard.refuses("InvalidParameterValue", "message-0000")

    def happens(verb: str) -> None:
        if verb == "count_try":
            yard.table.messages.clear()

    yard.table.happens = happens

    assert yard.sweeps() == Swept(resent=1)


@pytest.mark.parametrize("missing", ["", "ONCEKEY_OUTBOX_TABLE", "ONCEKEY_QUEUE_URL"])
def test_the_environment_names_what_is_swept(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table and the queue; without one of them there is nothing to sweep."""
    for name in {"ONCEKEY_OUTBOX_TABLE", "ONCEKEY_QUEUE_URL"} - {missing}:
        monkeypatch.setenv(name, f"the-{name}")

    sweep = OutboxSweep.from_environment()

    assert (sweep is None) is bool(missing)
