"""The entries of the ledgers, the window of time, and the outcome of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict, model_validator

from oncekey.ledger import Different, LedgerTotals, OnlyOurs, OnlyTheirs

# Younger entries may still change: a message whose worker died is delivered again for half an hour,
# and a row may be visible only a moment after it was written.
SETTLING_S = 3600
# A day, and an hour that two days share: EventBridge does not call to the second.
LENGTH = timedelta(hours=25)


class Request(BaseModel):
    """The event: a schedule's, with its `time`, or a person's, with `start` and `end`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    time: AwareDatetime | None = None
    start: AwareDatetime | None = None
    end: AwareDatetime | None = None

    @model_validator(mode="after")
    def _check(self) -> Request:
        if (self.start is None) is not (self.end is None):
            raise ValueError("give both start and end, or neither")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError("start must be before end")
        return self


@dataclass(frozen=True, kw_only=True)
class Window:
    """The time in which a charge or refund was made, in epoch seconds. It excludes `end_s`."""

    start_s: int
    end_s: int

    @classmethod
    def of(cls, request: Request, *, now_ms: int, settling_s: int = SETTLING_S) -> Window:
        """The time that the event names, or the 25 hours until `settling_s` before its due time.

        A repeated call has the event of the first one, and so the same window.
        """
        if request.start is not None and request.end is not None:
            return cls(start_s=_seconds(request.start), end_s=_seconds(request.end))
        due = request.time or datetime.fromtimestamp(now_ms / 1000, UTC)
        end = due - timedelta(seconds=settling_s)
        return cls(start_s=_seconds(end - LENGTH), end_s=_seconds(end))

    def __str__(self) -> str:
        return f"{_text(self.start_s)} to {_text(self.end_s)}"

    @property
    def name(self) -> str:
        """Its end, in a form for the name of an object."""
        return _text(self.end_s).replace(":", "")


def _seconds(time: datetime) -> int:
    return int(time.timestamp())


def _text(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A payment or a refund on one side. A value that this side does not know is None.

    `id` is known to both sides. An object of the provider without our id has the provider's id,
    which equals none of ours.
    """

    id: str
    provider_id: str | None
    amount: int | None
    currency: str | None
    status: str | None
    # Whether money has moved, or may have moved. Otherwise the entry need not be on both sides.
    moves_money: bool


Found = OnlyOurs[Entry] | OnlyTheirs[Entry] | Different[Entry, Entry]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome for one ledger. It has `totals` only if it was compared to its end.

    `failure` is the error that ended it before: its text if it is ours, otherwise only its type.
    """

    ledger: str
    window: Window
    totals: LedgerTotals | None
    failure: str = ""

    @property
    def verdict(self) -> str:
        """The outcome in one line."""
        if self.totals is None:
            return f"INCOMPLETE ({self.failure}): what differs beyond the findings is not known"
        counts = self.totals
        state = "DIFFERENT" if counts.differences else "AGREED"
        return (
            f"{state}: {counts.compared} compared, {counts.equal} equal,"
            f" {counts.different} different,"
            f" {counts.only_ours} only ours (missing at the provider),"
            f" {counts.only_theirs} only theirs (missing in our table)"
        )
