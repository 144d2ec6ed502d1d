"""Which pause stops whose new work."""

from __future__ import annotations

import pytest

from oncekey.record.pause import EVERYTHING, Pause, PauseScope, pause_of


def pause(scope: PauseScope, name: str) -> Pause:
    """A pause."""
    return Pause(scope=scope, name=name, reason="r", by="b", since_ms=1)


@pytest.mark.parametrize(
    ("made", "stops"),
    [
        (pause(PauseScope.ALL, EVERYTHING), True),
        (pause(PauseScope.OPERATION, "POST /payments"), True),
        (pause(PauseScope.TENANT, "tenant-1"), True),
        (pause(PauseScope.OPERATION, "POST /refunds"), False),
        (pause(PauseScope.TENANT, "tenant-2"), False),
        # A tenant may have the name of an operation, and the other way round.
        (pause(PauseScope.TENANT, "POST /payments"), False),
        (pause(PauseScope.OPERATION, "tenant-1"), False),
    ],
)
def test_a_pause_stops_its_own_operation_or_tenant(made: Pause, stops: bool) -> None:
    """A pause of everything stops all; one of an operation or a tenant stops that one alone."""
    found = pause_of([pause(PauseScope.TENANT, "others"), made], "POST /payments", "tenant-1")

    assert found == (made if stops else None)
