"""The contract's table of transitions, a row each, in the words of the design.

It is written apart from the code that it judges: tests compare every store and every rule with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.record.record import Record, Status
from oncekey.record.transitions import (
    ClearStep,
    Complete,
    ExpireLease,
    FinishStep,
    LateEffect,
    MarkUnknown,
    Release,
    Reserve,
    Resume,
    Settle,
    SettleStep,
    StartStep,
    TakeOver,
)
from tests.support.pending_rows import PENDING_ROWS
from tests.support.records import FINISHED, NOW_MS, STARTED
from tests.support.replacing import replace
from tests.support.transition_rows import (
    ANSWERS,
    CHARGED,
    COMPLETED,
    DOUBT,
    DOUBTS,
    ENDING,
    ENDS,
    ESCALATED,
    FAILED,
    FRESH,
    HALF_DONE,
    IN_PROGRESS,
    LEASE,
    NOT_RECORDED,
    OTHER_STEP,
    PK,
    RECORDED,
    RECORDED_LEASE,
    RESTARTS,
    RETRY,
    STEPPED,
    UNKNOWN,
    Row,
    changing,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.record.transitions import Seen, Transition


# What a step is that has the number of the marked one, and not its name, or its place.
_OTHERS: dict[str, dict[str, Any]] = {"step": {"name": "other"}, "place": {"position": 0}}


def _of_another(change: dict[str, Any]) -> dict[str, Callable[[Seen], Transition]]:
    """The end and the clearing of a step that is not the marked one, though its number is."""
    return {
        "finished": lambda seen: FinishStep(
            pk=PK, owner=seen.owner, step=replace(CHARGED, **change), mark=STARTED.mark
        ),
        "cleared": lambda seen: ClearStep(pk=PK, owner=seen.owner, step=replace(STARTED, **change)),
    }


TABLE = [
    *PENDING_ROWS,
    Row(
        name="absent, or settled and expired -> IN_PROGRESS by reserve",
        build=lambda _: Reserve(record=FRESH, now_ms=NOW_MS),
        to=Status.IN_PROGRESS,
        from_status=COMPLETED | FAILED,
        from_absent=True,
        expired=True,
        changes=changing(*Record.fields_),
    ),
    Row(
        name="FAILED_RETRYABLE -> IN_PROGRESS by resume",
        build=lambda seen: Resume(pk=PK, seen=seen, lease=LEASE),
        to=Status.IN_PROGRESS,
        from_status=FAILED,
        owner=True,
        rev=True,
        changes=changing(*RESTARTS),
    ),
    Row(
        name="IN_PROGRESS, lease over, may run again -> IN_PROGRESS by takeover",
        build=lambda seen: TakeOver(pk=PK, seen=seen, lease=RECORDED_LEASE, now_ms=NOW_MS),
        to=Status.IN_PROGRESS,
        from_status=IN_PROGRESS,
        owner=True,
        rev=True,
        lease_over=True,
        may_run_again=True,
        changes=changing(*RESTARTS),
    ),
    Row(
        name="FAILED_RETRYABLE -> IN_PROGRESS by resume, recorded",
        build=lambda seen: Resume(pk=PK, seen=seen, lease=RECORDED_LEASE),
        to=Status.IN_PROGRESS,
        from_status=FAILED,
        owner=True,
        rev=True,
        changes=changing(*RESTARTS),
    ),
    Row(
        name="IN_PROGRESS, lease over -> UNKNOWN by a request or the reconciler",
        build=lambda seen: ExpireLease(pk=PK, seen=seen, now_ms=NOW_MS, to=DOUBT),
        to=Status.UNKNOWN,
        from_status=IN_PROGRESS,
        owner=True,
        rev=True,
        lease_over=True,
        changes=changing(*DOUBTS),
    ),
    Row(
        name="IN_PROGRESS, lease over, may run again -> FAILED_RETRYABLE by the reconciler",
        build=lambda seen: ExpireLease(pk=PK, seen=seen, now_ms=NOW_MS, to=RETRY),
        to=Status.FAILED_RETRYABLE,
        from_status=IN_PROGRESS,
        owner=True,
        rev=True,
        lease_over=True,
        may_run_again=True,
        changes=changing(*ENDS),
    ),
    Row(
        name="IN_PROGRESS, UNKNOWN -> COMPLETED by its own owner",
        build=lambda seen: Complete(pk=PK, owner=seen.owner, ending=ENDING),
        to=Status.COMPLETED,
        from_status=IN_PROGRESS | UNKNOWN,
        owner=True,
        doubt=False,
        changes=changing(*ANSWERS),
    ),
    Row(
        name="IN_PROGRESS -> FAILED_RETRYABLE by its own owner",
        build=lambda seen: Release(pk=PK, owner=seen.owner, retry=RETRY),
        to=Status.FAILED_RETRYABLE,
        from_status=IN_PROGRESS,
        owner=True,
        doubt=False,
        changes=changing(*ENDS),
    ),
    Row(
        name="IN_PROGRESS -> FAILED_RETRYABLE, half done, by its own owner",
        build=lambda seen: Release(pk=PK, owner=seen.owner, retry=HALF_DONE),
        to=Status.FAILED_RETRYABLE,
        from_status=IN_PROGRESS,
        owner=True,
        doubt=False,
        half_done=True,
        changes=changing(*ENDS),
    ),
    Row(
        name="IN_PROGRESS -> UNKNOWN, escalated, by its own owner",
        build=lambda seen: MarkUnknown(pk=PK, owner=seen.owner, doubt=ESCALATED),
        to=Status.UNKNOWN,
        from_status=IN_PROGRESS,
        owner=True,
        changes=changing(*DOUBTS),
    ),
    Row(
        name="IN_PROGRESS -> IN_PROGRESS, a step started, by its own owner",
        build=lambda seen: StartStep(pk=PK, owner=seen.owner, step=OTHER_STEP),
        to=Status.IN_PROGRESS,
        from_status=IN_PROGRESS,
        owner=True,
        effects=RECORDED,
        doubt=False,
        absent="another",
        changes=changing(*STEPPED),
    ),
    Row(
        name="IN_PROGRESS -> IN_PROGRESS, a finished step started again, by its own owner",
        build=lambda seen: StartStep(
            pk=PK, owner=seen.owner, step=replace(STARTED, name=FINISHED.name)
        ),
        to=Status.IN_PROGRESS,
        from_status=IN_PROGRESS,
        owner=True,
        effects=RECORDED,
        doubt=False,
        absent=FINISHED.name,
        changes=changing(*STEPPED),
    ),
    Row(
        name="IN_PROGRESS -> IN_PROGRESS, the started step finished, by its own owner",
        build=lambda seen: FinishStep(pk=PK, owner=seen.owner, step=CHARGED, mark=STARTED.mark),
        to=Status.IN_PROGRESS,
        from_status=IN_PROGRESS,
        owner=True,
        effects=RECORDED,
        doubt=True,
        mark=STARTED.mark,
        absent="charge",
        changes=changing(*STEPPED),
    ),
    Row(
        name="IN_PROGRESS -> IN_PROGRESS, an unmarked step finished, by its own owner",
        build=lambda seen: FinishStep(pk=PK, owner=seen.owner, step=FINISHED, mark=None),
        to=Status.IN_PROGRESS,
        from_status=IN_PROGRESS,
        owner=True,
        effects=RECORDED,
        doubt=False,
        absent=FINISHED.name,
        changes=changing(*STEPPED),
    ),
    Row(
        name="IN_PROGRESS -> IN_PROGRESS, the started step cleared, by its own owner",
        build=lambda seen: ClearStep(pk=PK, owner=seen.owner, step=STARTED),
        to=Status.IN_PROGRESS,
        from_status=IN_PROGRESS,
        owner=True,
        effects=RECORDED,
        doubt=True,
        mark=STARTED.mark,
        changes=changing(*STEPPED),
    ),
    Row(
        name="UNKNOWN, recorded -> FAILED_RETRYABLE, its step finished, by a resolver",
        build=lambda seen: SettleStep(
            pk=PK,
            seen_owner=seen.owner,
            new_owner="owner-9",
            retry=HALF_DONE,
            finished=CHARGED,
        ),
        to=Status.FAILED_RETRYABLE,
        from_status=UNKNOWN,
        owner=True,
        effects=RECORDED,
        doubt=True,
        half_done=True,
        changes=changing(*ENDS, "owner", "steps"),
    ),
    Row(
        name="UNKNOWN, recorded -> FAILED_RETRYABLE, its step cleared, by a resolver",
        build=lambda seen: SettleStep(
            pk=PK, seen_owner=seen.owner, new_owner="owner-9", retry=RETRY, cleared="charge"
        ),
        to=Status.FAILED_RETRYABLE,
        from_status=UNKNOWN,
        owner=True,
        effects=RECORDED,
        doubt=True,
        changes=changing(*ENDS, "owner", "steps"),
    ),
    Row(
        name="UNKNOWN, recorded -> FAILED_RETRYABLE, no step in doubt, by an operator",
        build=lambda seen: SettleStep(
            pk=PK, seen_owner=seen.owner, new_owner="owner-9", retry=HALF_DONE
        ),
        to=Status.FAILED_RETRYABLE,
        from_status=UNKNOWN,
        owner=True,
        effects=RECORDED,
        doubt=False,
        half_done=True,
        changes=changing(*ENDS, "owner"),
    ),
    Row(
        name="IN_PROGRESS -> UNKNOWN by its own owner",
        build=lambda seen: MarkUnknown(pk=PK, owner=seen.owner, doubt=DOUBT),
        to=Status.UNKNOWN,
        from_status=IN_PROGRESS,
        owner=True,
        changes=changing(*DOUBTS),
    ),
    Row(
        name="UNKNOWN -> COMPLETED by a resolver, webhook or operator",
        build=lambda seen: Settle(pk=PK, seen_owner=seen.owner, new_owner="owner-9", to=ENDING),
        to=Status.COMPLETED,
        from_status=UNKNOWN,
        owner=True,
        effects=NOT_RECORDED,
        changes=changing(*ANSWERS, "owner"),
    ),
    Row(
        name="UNKNOWN -> FAILED_RETRYABLE by a resolver, webhook or operator",
        build=lambda seen: Settle(pk=PK, seen_owner=seen.owner, new_owner="owner-9", to=RETRY),
        to=Status.FAILED_RETRYABLE,
        from_status=UNKNOWN,
        owner=True,
        effects=NOT_RECORDED,
        changes=changing(*ENDS, "owner"),
    ),
    Row(
        name="FAILED_RETRYABLE -> COMPLETED by a late effect",
        build=lambda seen: LateEffect(pk=PK, seen=seen, new_owner="owner-9", ending=ENDING),
        to=Status.COMPLETED,
        from_status=FAILED,
        owner=True,
        rev=True,
        effects=NOT_RECORDED,
        changes=changing(*ANSWERS, "owner"),
    ),
]
# Transitions that no record permits, written as rows.
NEVER = [
    *(
        Row(
            name=f"IN_PROGRESS -> IN_PROGRESS, the mark of another {what} {how}, by its own owner",
            build=build,
            to=Status.IN_PROGRESS,
            from_status=frozenset(),
            changes=changing(*STEPPED),
        )
        for what, change in _OTHERS.items()
        for how, build in _of_another(change).items()
    ),
    Row(
        name="IN_PROGRESS -> IN_PROGRESS, a step finished under another mark, by its own owner",
        build=lambda seen: FinishStep(pk=PK, owner=seen.owner, step=CHARGED, mark=99),
        to=Status.IN_PROGRESS,
        from_status=frozenset(),
        changes=changing(*STEPPED),
    ),
    Row(
        name="IN_PROGRESS -> IN_PROGRESS, a step cleared under another mark, by its own owner",
        build=lambda seen: ClearStep(pk=PK, owner=seen.owner, step=replace(STARTED, mark=99)),
        to=Status.IN_PROGRESS,
        from_status=frozenset(),
        changes=changing(*STEPPED),
    ),
    Row(
        name="UNKNOWN, recorded -> FAILED_RETRYABLE, another step cleared, by a resolver",
        build=lambda seen: SettleStep(
            pk=PK, seen_owner=seen.owner, new_owner="owner-9", retry=RETRY, cleared="another"
        ),
        to=Status.FAILED_RETRYABLE,
        from_status=frozenset(),
        changes=changing(*ENDS, "owner", "steps"),
    ),
]
