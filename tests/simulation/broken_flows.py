"""The flows' decisions, each with one protection removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.effects import disposition
from oncekey.engine import engine, reservation
from oncekey.engine.recorder import Recorder
from oncekey.engine.request import Request
from oncekey.record import judgement
from oncekey.record.judgement import Verdict
from oncekey.record.record import Effects, Record, Status
from oncekey.settlement.settlement import Settler
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from oncekey.flow.commands import Answered, Flow
    from oncekey.record.outcome import Outcome


def is_old(record: Record, now_ms: int) -> bool:
    """Whether a day has passed since the reservation."""
    return record.created_at_ms + 24 * 3_600_000 <= now_ms


def judge_with(change: Callable[..., Verdict | None]) -> Callable[[pytest.MonkeyPatch], None]:
    """A patch of the judgement: `change` decides, or leaves it to the rule by None."""

    def judge(record: Record, **given: Any) -> Verdict:
        verdict = change(record, **given)
        return judgement.judge(record, **given) if verdict is None else verdict

    return lambda patch: patch.setattr(reservation, "judge", judge)


def ours_after_the_lease(record: Record, *, owner: str, **_: Any) -> Verdict | None:
    """A lost reserve is ours even after its lease."""
    is_ours = record.status is Status.IN_PROGRESS and record.owner == owner
    return Verdict.OURS if is_ours else None


def ours_when_unknown(record: Record, *, owner: str, **_: Any) -> Verdict | None:
    """A lost reserve is ours even after somebody marked it unknown."""
    is_ours = record.status is Status.UNKNOWN and record.owner == owner
    return Verdict.OURS if is_ours else None


def over_means_take_over(record: Record, *, now_ms: int, **_: Any) -> Verdict | None:
    """A dead attempt is taken over, whatever its effects."""
    is_dead = record.status is Status.IN_PROGRESS and record.is_lease_over(now_ms)
    return Verdict.TAKE_OVER if is_dead else None


def running_means_take_over(record: Record, *, owner: str, **_: Any) -> Verdict | None:
    """A running attempt is taken over."""
    is_other = record.status is Status.IN_PROGRESS and record.owner != owner
    return Verdict.TAKE_OVER if is_other else None


def old_means_expired(record: Record, *, now_ms: int, **_: Any) -> Verdict | None:
    """A record expires by its age, settled or not."""
    return Verdict.EXPIRED if is_old(record, now_ms) else None


def fingerprint_ignored(record: Record, **_: Any) -> Verdict | None:
    """A stored answer is for everybody."""
    return Verdict.REPLAY if record.status is Status.COMPLETED else None


def exceptions_release(patch: pytest.MonkeyPatch) -> None:
    """Whatever raises may run again."""

    def decide(
        result: Any, effects: Effects, is_proof: Any, **others: Any
    ) -> disposition.Disposition:
        found = disposition.decide(result, effects, is_proof, **others)
        return (
            disposition.Disposition.RETRYABLE if found is disposition.Disposition.UNKNOWN else found
        )

    patch.setattr(engine, "decide", decide)


def answer_of_whoever_is_there(patch: pytest.MonkeyPatch) -> None:
    """A late owner is answered from whatever operation it meets."""
    original = Recorder._answer_in_place_of

    def answer(self: Recorder, answered: Answered[Any], met: Record | None) -> Flow[Outcome]:
        if met is not None:
            met = replace(met, operation_id=self.record.operation_id)
        return original(self, answered, met)

    patch.setattr(Recorder, "_answer_in_place_of", answer)


def no_margin(patch: pytest.MonkeyPatch) -> None:
    """A lease ends at the deadline by its owner's clock."""

    def until_ms(self: Request, now_ms: int) -> int:
        return self.deadline_ms

    patch.setattr(Request, "lease_until_ms", until_ms)


def no_grace(patch: pytest.MonkeyPatch) -> None:
    """A resolver is asked at the end of the lease."""

    def due(self: Request, lease_until_ms: int) -> Any:
        return self.due(lease_until_ms)

    def is_too_early(_self: Settler, record: Record, at_ms: int) -> bool:
        return at_ms <= (record.lease_until_ms or 0)

    patch.setattr(Request, "due_after_lease", due)
    patch.setattr(Settler, "_is_too_early", is_too_early)
