"""What is compared, over which time, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict, model_validator

from oncekey.ledger import Different, LedgerTotals, OnlyOurs, OnlyTheirs

# What is younger may still be under way: a message whose worker died is delivered again for half an
# hour, and a row is read a moment after it was written.
SETTLING_S = 3600
# A day, and an hour that two days share: EventBridge does not call to the second.
LENGTH = timedelta(hours=25)


class Request(BaseModel):
    """The event: a schedule's, with its `time`, or a person's, who says from when until when."""

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
    """The seconds since the epoch in which a charge or refund was made: `end_s` is not in it."""

    start_s: int
    end_s: int

    @classmethod
    def of(cls, request: Request, *, now_ms: int, settling_s: int = SETTLING_S) -> Window:
        """The time that the event names, or 25 hours that ended `settling_s` before it was due.

        A call that is repeated has the event of the first one, and so the same window.
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
        """Its end, as it can stand in the name of an object."""
        return _text(self.end_s).replace(":", "")


def _seconds(time: datetime) -> int:
    return int(time.timestamp())


def _text(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A payment or a refund, as one side has it. What a side does not know of it is None.

    `id` is the one that both know. What the provider has without an id of ours is called as the
    provider calls it, which nothing of ours is.
    """

    id: str
    provider_id: str | None
    amount: int | None
    currency: str | None
    status: str | None
    # Whether money has moved, or may have. What moved none need not be on both sides.
    moves_money: bool


Found = OnlyOurs[Entry] | OnlyTheirs[Entry] | Different[Entry, Entry]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one ledger: `totals` are there only if it was compared to its end.

    `failure` is the error that ended it before that: its text if it is ours, else its type alone.
    """

    ledger: str
    window: Window
    totals: LedgerTotals | None
    failure: str = ""

    @property
    def verdict(self) -> str:
        """One line, which never sounds better than it is."""
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
