"""Sends again what has stayed in the outbox: its relay was killed, or given up on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.relay import OutboxRelay
from oncekey.sqs_queue import MOST_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from oncekey.dynamodb_outbox import OutboxTable
    from oncekey.outbox import Message

_VARIABLES = ("ONCEKEY_OUTBOX_TABLE", "ONCEKEY_QUEUE_URL")


@dataclass(slots=True, kw_only=True)
class Swept:
    """How many messages were sent again, how many failed, and whether all were looked at."""

    resent: int = 0
    failed: int = 0
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSweep:
    """Sweeps the outbox `table`, through its `relay`.

    Messages leave the table once the queue has them, so what is there is what is open, and reading
    all of it is cheap.
    """

    table: OutboxTable
    relay: OutboxRelay

    @classmethod
    def from_environment(cls) -> OutboxSweep | None:
        """The sweep of ONCEKEY_OUTBOX_TABLE to ONCEKEY_QUEUE_URL; None if one is not set.

        A reconciler without a queue may still write messages; somebody else's relay sends them.
        """
        if not all(os.environ.get(name, "").strip() for name in _VARIABLES):
            return None
        relay = OutboxRelay()
        return cls(table=relay.table, relay=relay)

    def run(self, *, before_ms: int, is_time_left: Callable[[], bool]) -> Swept:
        """Send every message again that was written before `before_ms`, and delete it.

        Raises:
            StoreError: the table did not answer; what was not sent is still there.
        """
        swept = Swept()
        for number, batch in enumerate(self._waiting(before_ms)):
            # Between batches, because a queue that does not answer takes seconds for each.
            if number and not is_time_left():
                swept.is_complete = False
                return swept
            gone = self.relay.send_again(batch)
            swept.resent += len(gone)
            swept.failed += len(batch) - len(gone)
        return swept

    def _waiting(self, before_ms: int) -> Iterator[Sequence[Message]]:
        after = None
        while True:
            page = self.table.waiting(before_ms, after)
            for start in range(0, len(page.messages), MOST_ENTRIES):
                yield page.messages[start : start + MOST_ENTRIES]
            after = page.after
            if after is None:
                return
