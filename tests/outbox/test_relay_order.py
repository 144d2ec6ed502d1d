"""What a relay with groups sends first, and what it leaves for later."""

from __future__ import annotations

import pytest

from oncekey.flow.driver import NO_STORE, drive
from oncekey.outbox.relay_order import in_order
from oncekey.testing.memory import ManualClock
from tests.support.memory_outbox import MemoryOutbox, waiting


@pytest.mark.fault("K10.1")
def test_a_new_message_waits_for_more_earlier_ones_than_one_turn_sends() -> None:
    """Of 1,001 earlier messages a turn sends the first 1,000, and the new one is not among them.

    Red when it goes out before the last of the earlier ones.
    """
    earlier = [waiting(number, tenant="a") for number in range(1_001)]
    new = waiting(2_000, tenant="a")
    reading = in_order(
        [new], MemoryOutbox(*earlier, new), lambda message: message.tenant, lambda: True
    )

    line = drive(reading, store=NO_STORE, clock=ManualClock())

    assert list(line.messages) == earlier[:1_000]
    assert line.behind == {new.id}


@pytest.mark.fault("K10.1")
def test_a_new_message_as_old_as_the_last_that_is_sent_goes_with_it() -> None:
    """Where more wait than a turn sends, each new message is sent or is left for later.

    Red when one of the same time as the last is neither.
    """
    earlier = [waiting(number, tenant="b") for number in range(1_001)]
    of_b = waiting(2_000, tenant="b")
    of_a = waiting(3_000, tenant="a", created_at_ms=earlier[999].created_at_ms)
    reading = in_order(
        [of_b, of_a],
        MemoryOutbox(*earlier, of_b, of_a),
        lambda message: message.tenant,
        lambda: True,
    )

    line = drive(reading, store=NO_STORE, clock=ManualClock())

    assert list(line.messages) == [*earlier[:1_000], of_a]
    assert line.behind == {of_b.id}
