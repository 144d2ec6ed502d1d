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
