"""A sandbox's memory of completed operations.

A replay from it asks the store for nothing but an answer that is stored outside its record.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from oncekey.record.record import Status

if TYPE_CHECKING:
    from oncekey.record.record import Record

# A completed record never changes, but a person may delete it. So a sandbox forgets it after this
# time.
LONGEST_BELIEF_MS = 300_000


class LocalCache:
    """The last `most` records that were read as completed. Threads may share it.

    A record found here must be judged like one from the store, by its fingerprint and expiry.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        # From the partition key to the record and the time when it was read.
        self._known: OrderedDict[str, tuple[Record, int]] = OrderedDict()

    def remember(self, record: Record, now_ms: int) -> None:
        """Remember `record`, which the store holds, if it is completed."""
        if record.status is not Status.COMPLETED:
            return
        with self._lock:
            self._known[record.pk] = (record, now_ms)
            self._known.move_to_end(record.pk)
            if len(self._known) > self._most:
                self._known.popitem(last=False)

    def find(self, pk: str, now_ms: int) -> Record | None:
        """The completed record under `pk`; None if the store must be asked."""
        record, seen_at_ms = self._known.get(pk, (None, 0))
        # If the clock was set back, the record must not be remembered for longer.
        return record if 0 <= now_ms - seen_at_ms < LONGEST_BELIEF_MS else None
