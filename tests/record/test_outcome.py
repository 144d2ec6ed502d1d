"""What the outcome of a request says about time."""

from __future__ import annotations

import pytest

from oncekey.record.outcome import whole_seconds


@pytest.mark.parametrize(("duration_ms", "seconds"), [(0, 0), (1, 1), (1_000, 1), (1_001, 2)])
def test_a_wait_is_rounded_up_to_whole_seconds(duration_ms: int, seconds: int) -> None:
    """A client that comes back after Retry-After is never too early."""
    assert whole_seconds(duration_ms) == seconds
