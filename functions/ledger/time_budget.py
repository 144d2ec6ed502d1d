"""How long a run may still go on, and a call of it to AWS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.config import Config

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

# A page of a table takes a second at the most, and is asked for three times.
CALLS = Config(
    connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 3, "mode": "standard"}
)
# One more page of the provider's list may take 25 s (three tries), the report and logs the rest.
RESERVE_MS = 45_000


class OutOfTime(Exception):  # noqa: N818 -- how a run ended
    """There is not enough time left to compare on, and to say what came of it."""


class TimeBudget:
    """What is left of the invocation, less what it takes to report."""

    def __init__(self, context: LambdaContext) -> None:
        self._context = context

    def check(self) -> None:
        """Return if there is time for more.

        Raises:
            OutOfTime: there is not.
        """
        if self._context.get_remaining_time_in_millis() < RESERVE_MS:
            raise OutOfTime
