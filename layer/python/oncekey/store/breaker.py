"""A circuit breaker in front of the store, local to one sandbox.

While DynamoDB is down, every request would wait for its time-outs before it is refused, and would
occupy a sandbox for that time. After several failures in a row, requests are refused at once.
"""

from __future__ import annotations

# One failure can be a single bad connection. This many failed requests in a row, each with its
# retries, are an outage. A wrong guess only costs time.
FAILURES_TO_OPEN = 3
OPEN_FOR_MS = 5_000


class Breaker:
    """Counts failed requests in a row, and opens after `FAILURES_TO_OPEN` of them.

    While open, it refuses requests for `OPEN_FOR_MS`. Then the next request tries the store, and
    its outcome decides. Threads may count one failure too many or too few, which costs at most one
    try.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._opened_at_ms = 0

    def refuses_for_ms(self, now_ms: int) -> int:
        """For how long requests are refused from now on; 0 if they are not refused."""
        if self._failures < FAILURES_TO_OPEN:
            return 0
        # A clock that was set back must not keep the breaker open longer than `OPEN_FOR_MS`.
        open_for_ms = self._opened_at_ms + OPEN_FOR_MS - now_ms
        return open_for_ms if 0 < open_for_ms <= OPEN_FOR_MS else 0

    def failed(self, now_ms: int) -> None:
        """A request was refused because the store did not answer."""
        self._failures += 1
        self._opened_at_ms = now_ms

    def succeeded(self) -> None:
        """The store answered."""
        self._failures = 0
