"""The time left for a run, and the timeouts of its AWS calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.config import Config

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

# A page of a table takes at most a second. A call is tried up to three times.
CALLS = Config(
    connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 3, "mode": "standard"}
)
# One more page of the provider's list may take 25 s (three tries). The rest is for the report.
RESERVE_MS = 45_000


class OutOfTime(Exception):  # noqa: N818 -- how a run ended
    """There is not enough time left to continue the comparison and to report."""


class TimeBudget:
    """The time left of the invocation, minus the time for the report."""

    def __init__(self, context: LambdaContext) -> None:
        self._context = context

    def check(self) -> None:
        """Return if there is time for more.

        Raises:
            OutOfTime: there is not enough.
        """
        if self._context.get_remaining_time_in_millis() < RESERVE_MS:
            raise OutOfTime
