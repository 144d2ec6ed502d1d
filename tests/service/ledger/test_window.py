"""Which time a run compares."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from functions.ledger.models import LENGTH, SETTLING_S, Request, Window

DUE = datetime(2026, 11, 28, 4, 0, tzinfo=UTC)


def window(*, now: datetime = DUE, **event: str) -> Window:
    """The window of an event."""
    return Window.of(Request.model_validate(event), now_ms=int(now.timestamp() * 1000))


@pytest.mark.requirement("C19")
def test_a_day_and_a_settling_time() -> None:
    """A window ends an hour before the run is due, and is longer than a day.

    Red when what is under way is compared, or two days leave a gap.
    """
    found = window(time="2026-11-28T04:00:00Z")

    assert str(found) == "2026-11-27T02:00:00Z to 2026-11-28T03:00:00Z"
    assert SETTLING_S > 0
    assert timedelta(days=1) < LENGTH


def test_a_run_that_is_tried_again_compares_the_same() -> None:
    """The window is that of the event, however late it is worked on."""
    late = window(now=DUE + timedelta(hours=5), time="2026-11-28T04:00:00Z")

    assert late == window(time="2026-11-28T04:00:00Z")
    assert late.name == "2026-11-28T030000Z"


def test_without_a_time_it_is_due_now() -> None:
    """An empty event, as from a console, is that of a run which is due now."""
    assert window() == window(time="2026-11-28T04:00:00Z")


def test_a_person_may_say_from_when_until_when() -> None:
    """A window that is given is taken as it is, in whatever zone it was given."""
    found = window(start="2026-11-20T01:00:00+01:00", end="2026-11-21T00:00:00Z")

    assert str(found) == "2026-11-20T00:00:00Z to 2026-11-21T00:00:00Z"
