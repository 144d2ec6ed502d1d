"""What happens next with a record, by the layer's own decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.reconciler.decisions import (
    Ask,
    End,
    Escalate,
    HandBack,
    Leave,
    Visitor,
    Wait,
)
from oncekey.reconciler.settings import ReconcilerSettings
from oncekey.reconciler.timed_out import TimedOut
from oncekey.record.judgement import Verdict, judge
from oncekey.record.record import Effects, Status
from oncekey.record.references import reference_to
from oncekey.settings import Settings
from oncekey.settlement.stopped_operations import is_stopped

if TYPE_CHECKING:
    from oncekey.record.record import Record

_OF_CLIENT = {
    Verdict.EXPIRED: "runs as a new operation, because this one has expired",
    Verdict.GONE: "is answered 410: the answer is no longer given",
    Verdict.PENDING: "is told that the operation waits for a worker",
    Verdict.REPLAY: "gets the stored answer",
    Verdict.RESUME: "runs the operation, after its finished steps",
    Verdict.RUNNING: "is answered 409, because the first attempt still runs",
    Verdict.TAKE_OVER: "takes the operation over and runs it, after its finished steps",
    Verdict.LEASE_EXPIRED: "marks the outcome as unknown, and is answered 409",
    Verdict.UNKNOWN: "is answered 409 until somebody settles the operation",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What happens next, in sentences.

    Attributes:
        client: what the next request with the key gets.
        reconciler: what the reconciler does at its next visit; empty if it never visits.
        person: what a person has to do; empty if nothing.
        command: the command that does it; empty if there is none.
        ending: the command that ends it for good, if a person may do that; else empty.
    """

    client: str
    reconciler: str
    person: str
    command: str
    ending: str


def outlook(record: Record, now_ms: int) -> Outlook:
    """What happens next with `record`.

    The deployed reconciler may have other settings and resolvers than the defaults assumed here.
    """
    verdict = judge(
        record,
        owner="",
        fingerprint=record.fingerprint,
        effects=record.effects,
        now_ms=now_ms,
    )
    person, command = _settling(record, now_ms)
    return Outlook(
        client=f"the next request with the key {_OF_CLIENT[verdict]}",
        reconciler=_visit(record, now_ms),
        person=person,
        command=command,
        ending=""
        if why_not_ended(record, now_ms)
        else f"oncekey resolve {reference_to(record)} --end-with FILE",
    )


def why_not_ended(record: Record, now_ms: int) -> str:
    """Why a person may not end the operation for good, and what to do instead; empty if they may.

    Only what is not in doubt is ended: it failed, waits for a worker, or was stopped.
    """
    if record.is_expired(now_ms) or record.status is Status.COMPLETED:
        return "it has ended already: `oncekey show` has its answer"
    if record.status is Status.IN_PROGRESS and record.is_lease_over(now_ms):
        return (
            "its attempt is dead, and nobody has ended it yet: try again after the next run of the"
            " reconciler"
        )
    if record.status is Status.IN_PROGRESS:
        return "its attempt still runs: try again when it has failed"
    if record.status is Status.UNKNOWN and not is_stopped(record):
        return (
            "it may have taken effect: look at the provider first, and settle it with --completed"
            " FILE or --not-executed"
        )
    return ""


def _visit(record: Record, now_ms: int) -> str:
    if record.due is None:
        return ""
    visitor = Visitor(
        # The visit is decided for the time when the record is due.
        now_ms=max(now_ms, record.due.at_ms + 1),
        chance=0.0,
        settings=Settings(),
        turns=ReconcilerSettings(),
        has_resolver=lambda _: True,
        timed_out=lambda each: TimedOut(()).ending(each, Settings(), now_ms),
    )
    match visitor.visit(record):
        case End() if record.status is Status.PENDING:
            return "answers it 408, because no worker began it in time"
        case End():
            return "ends the dead attempt"
        case Ask():
            return "asks the resolver, or escalates it if there is none"
        case HandBack():
            return "hands it to a worker"
        case Wait():
            return "looks at it, and waits for its client or its worker"
        case Escalate():
            return "escalates it to a person, again if that was done before"
        case Leave():
            return "leaves it as it is"


def _settling(record: Record, now_ms: int) -> tuple[str, str]:
    over = record.status is Status.IN_PROGRESS and record.is_lease_over(now_ms)
    if record.status is not Status.UNKNOWN and not (over and not record.may_run_again):
        return "", ""
    command = f"oncekey resolve {reference_to(record)} --attempt {record.attempt}"
    if is_stopped(record):
        return (
            (
                "its handler no longer fits its record: deploy a release whose steps fit and let it"
                " go on (--not-executed), or end it with an answer (--completed FILE)"
            ),
            command,
        )
    if record.effects is Effects.RECORDED and record.is_in_doubt:
        name = record.step_in_doubt
        return (
            (
                f"look at the provider whether step {name!r} was done: then --completed FILE with"
                " what the step returns; else --not-executed"
            ),
            f"{command} --step {name!r}",
        )
    if record.effects is Effects.RECORDED:
        return "nothing is in doubt: let it go on (--not-executed)", command
    return (
        (
            "look at the provider what became of it: then --completed FILE with the answer that the"
            " client gets, or --not-executed if it is certain that nothing happened"
        ),
        command,
    )
