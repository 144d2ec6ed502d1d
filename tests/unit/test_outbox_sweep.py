"""Sweeping an outbox whose queue is slow, or does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey.dynamodb_outbox import OutboxPage
from oncekey.outbox import Message
from oncekey.outbox_sweep import OutboxSweep, Swept

if TYPE_CHECKING:
    from collections.abc import Sequence


def message(number: int) -> Message:
    """One that waits."""
    return Message(
        id=f"message-{number}",
        topic="ride.ordered",
        payload="{}",
        operation_id="an-operation",
        operation="POST /rides",
        tenant="acme",
        created_at_ms=1,
    )


class Outbox:
    """A table with pages of these lengths, and a relay that sends each message or none."""

    def __init__(self, *pages: int, sends: bool = True) -> None:
        self.pages = pages
        self.read: list[Any] = []
        self.batches: list[int] = []
        self._sends = sends

    def waiting(self, _before_ms: int, after: Any = None) -> OutboxPage:
        """The next page."""
        self.read.append(after)
        number = after or 0
        is_last = number + 1 == len(self.pages)
        messages = tuple(message(100 * number + each) for each in range(self.pages[number]))
        return OutboxPage(messages=messages, after=None if is_last else number + 1)

    def send_again(self, messages: Sequence[Message]) -> set[str]:
        """A batch."""
        self.batches.append(len(messages))
        return {each.id for each in messages} if self._sends else set()


def sweep(outbox: Any, *, batches: int) -> Swept:
    """A sweep that has time for so many batches."""
    return OutboxSweep(table=outbox, relay=outbox).run(
        before_ms=2, is_time_left=lambda: len(outbox.batches) < batches
    )


def test_all_pages_are_swept_in_batches_of_the_queue() -> None:
    """Every page is read and sent, ten messages at a time, and nothing is left."""
    outbox = Outbox(25, 0, 10)

    assert sweep(outbox, batches=99) == Swept(resent=35, failed=0, is_complete=True)
    assert outbox.batches == [10, 10, 5, 10]


@pytest.mark.parametrize("sends", [True, False])
def test_the_time_is_looked_at_between_two_batches(sends: bool) -> None:
    """A queue that takes seconds for each batch costs the run its share of the time and a batch,
    not a page: the records have their turn.
    """
    outbox = Outbox(100, 100, sends=sends)

    swept = sweep(outbox, batches=2)

    assert outbox.batches == [10, 10]
    assert (swept.resent, swept.failed) == ((20, 0) if sends else (0, 20))
    assert not swept.is_complete


def test_what_is_sent_to_its_end_is_complete_however_long_it_took() -> None:
    """Where nothing is left, nothing was left for want of time."""
    assert sweep(Outbox(10), batches=1).is_complete
    assert sweep(Outbox(0), batches=0).is_complete
