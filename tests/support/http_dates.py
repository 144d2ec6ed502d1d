"""What schemathesis sends for the format `http-date`: loaded by it, see SCHEMATHESIS_HOOKS."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import schemathesis
from hypothesis import strategies as st

schemathesis.openapi.format(
    "http-date",
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(  # noqa: DTZ001 -- naive bounds
        lambda moment: format_datetime(moment.replace(tzinfo=UTC), usegmt=True)
    ),
)
