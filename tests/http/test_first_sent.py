"""When a request was first sent, by its header."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncekey.errors import RequestRefused
from oncekey.http.key import first_sent_ms

DATE = "Fri, 27 Nov 2026 10:00:00 GMT"
DATE_MS = 1_795_773_600_000


def test_a_date_is_read_in_milliseconds() -> None:
    """An IMF-fixdate, with white space around it, or sent twice alike, is one time."""
    assert first_sent_ms([DATE]) == first_sent_ms([f" {DATE} ", DATE]) == DATE_MS


def test_no_header_says_nothing() -> None:
    """Most requests do not say when they were first sent."""
    assert first_sent_ms([]) is None


@given(
    st.datetimes(
        min_value=datetime(1970, 1, 1),  # noqa: DTZ001 -- hypothesis adds the zone itself
        max_value=datetime(2999, 1, 1),  # noqa: DTZ001
        timezones=st.just(UTC),
    )
)
def test_every_date_comes_back(moment: datetime) -> None:
    """What is written by the rules of HTTP is read as the same second."""
    second = moment.replace(microsecond=0)

    assert first_sent_ms([format_datetime(moment, usegmt=True)]) == second.timestamp() * 1000


@pytest.mark.requirement("C13")
@pytest.mark.parametrize(
    "lines",
    [
        [""],
        ["yesterday"],
        ["1795773600"],
        ["2026-11-27T10:00:00Z"],
        ["Friday, 27-Nov-26 10:00:00 GMT"],
        ["Fri Nov 27 10:00:00 2026"],
        ["Fri, 27 Nov 2026 10:00:00 +0000"],
        ["Fri, 27 Nov 2026 10:00:00"],
        ["Fri, 32 Nov 2026 10:00:00 GMT"],
        ["Fri, 30 Feb 2026 10:00:00 GMT"],
        ["Fri, 27 Nov 2026 25:00:00 GMT"],
        ["Fri, 27 Nov 0000 10:00:00 GMT"],
        ["Fri, 27 Nov 0026 10:00:00 GMT"],
        ["fri, 27 nov 2026 10:00:00 gmt"],
        [DATE, "Fri, 27 Nov 2026 10:00:01 GMT"],
        [f"{DATE},{DATE}"],
        [DATE[:-1]],
        ["Fri, ٢٧ Nov 2026 10:00:00 GMT"],
    ],
)
def test_what_is_no_date_is_refused(lines: list[str]) -> None:
    """Anything but one IMF-fixdate is `request-invalid`, and the detail shows a right one.

    Red when a lenient parser, or the first of several lines, decides.
    """
    with pytest.raises(RequestRefused) as refusal:
        first_sent_ms(lines)

    assert refusal.value.code == "request-invalid"
    assert DATE in refusal.value.detail
