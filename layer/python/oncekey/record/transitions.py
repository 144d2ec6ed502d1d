"""The transitions of a record: the writes that exist.

```
 from               by           to                 who
 absent, expired    Reserve      IN_PROGRESS        a request
 absent, expired    Reserve      PENDING            a request, to be worked on later
 absent, expired    Reserve      COMPLETED          a webhook, with its message
 PENDING            Begin        IN_PROGRESS        a worker
 PENDING            TimeOut      COMPLETED          whoever meets it, after its deadline
 PENDING            SettlePending COMPLETED         a webhook or an operator
 IN_PROGRESS        Complete     COMPLETED          its owner
 IN_PROGRESS        Release      FAILED_RETRYABLE   its owner
 IN_PROGRESS        MarkUnknown  UNKNOWN            its owner
 IN_PROGRESS, over  TakeOver     IN_PROGRESS        a request; no step in doubt
 IN_PROGRESS, over  ExpireLease  UNKNOWN            a request, the reconciler, or who settles
 IN_PROGRESS, over  ExpireLease  FAILED_RETRYABLE   an accepted request or the reconciler;
                                                    no step in doubt
 FAILED_RETRYABLE   Resume       IN_PROGRESS        a request, or a worker
 FAILED_RETRYABLE   Enqueue      PENDING            a request, to be worked on later
 FAILED_RETRYABLE   LateEffect   COMPLETED          a webhook or an operator
 UNKNOWN            Complete     COMPLETED          its owner, late
 UNKNOWN            Settle       COMPLETED          a resolver, a webhook or an operator
 UNKNOWN            Settle       FAILED_RETRYABLE   a resolver, a webhook or an operator
 UNKNOWN            SettleStep   FAILED_RETRYABLE   the same, recorded effects
 UNKNOWN, PENDING,  Reschedule   the same           the reconciler
 half done
```

Each is one conditional write in a store, and no plain read is ever the guard.
`oncekey.record.rules` says when each is permitted and what it leaves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey.record.policy import Policy
    from oncekey.record.record import Due, Effects, Record
    from oncekey.record.steps import FinishedStep, StartedStep
    from oncekey.record.stored_answer import StoredAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The version of a record that a decision was made from."""

    owner: str
    rev: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A new attempt's right to run.

    `policy` is how this attempt's answer is kept; None leaves what is on record.
    """

    owner: str
    until_ms: int
    due: Due
    effects: Effects
    policy: Policy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A stored answer."""

    response: StoredAnswer = field(repr=False)
    completed_at_ms: int
    expires_at_s: int
    response_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Safe to run again.

    For as long as the record lives; or half done, if it has finished steps: then it never expires,
    and somebody must look at it when it is `due`.
    """

    reason: str
    expires_at_s: int | None
    due: Due | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What happened is not known; somebody must look at `due`.

    `escalated_at_ms`: no resolver can help, a person must.
    """

    reason: str
    due: Due
    escalated_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Absent, or settled and expired → IN_PROGRESS, PENDING or COMPLETED, as `record`."""

    record: Record
    now_ms: int

    @property
    def pk(self) -> str:
        """The record's partition key."""
        return self.record.pk


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """FAILED_RETRYABLE → IN_PROGRESS, with a new owner and the next attempt."""

    pk: str
    seen: Seen
    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """IN_PROGRESS with its lease over → IN_PROGRESS, with a new owner and the next attempt.

    Repeatable effects, or recorded ones with no step in doubt.
    """

    pk: str
    seen: Seen
    lease: Lease
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireLease:
    """IN_PROGRESS with its lease over → UNKNOWN, or FAILED_RETRYABLE where a new run is harmless.

    The owner stays.
    """

    pk: str
    seen: Seen
    now_ms: int
    to: Doubt | Retry


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """IN_PROGRESS or UNKNOWN → COMPLETED, by its own owner."""

    pk: str
    owner: str
    ending: Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """IN_PROGRESS → FAILED_RETRYABLE, by its own owner.

    Proven not executed, or harmless to repeat.
    """

    pk: str
    owner: str
    retry: Retry


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkUnknown:
    """IN_PROGRESS → UNKNOWN, by its own owner. The lease stays."""

    pk: str
    owner: str
    doubt: Doubt


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """UNKNOWN → COMPLETED or FAILED_RETRYABLE, by a resolver, webhook or operator.

    Unrecorded effects only: what is recorded is completed by a run, which makes its writes. Writes
    `new_owner`, a fresh one, so that a late owner does not take the settlement for its own write.
    """

    pk: str
    seen_owner: str
    new_owner: str
    to: Ending | Retry


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleStep:
    """UNKNOWN → FAILED_RETRYABLE, by a resolver, webhook or operator; recorded effects.

    The step in doubt is `finished`, or `cleared` as never executed, by its name; both None where
    none is in doubt. The run that follows makes the business writes. Writes `new_owner`.
    """

    pk: str
    seen_owner: str
    new_owner: str
    retry: Retry
    finished: FinishedStep | None = None
    cleared: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LateEffect:
    """FAILED_RETRYABLE → COMPLETED, by a webhook or operator: an effect came to light after all."""

    pk: str
    seen: Seen
    new_owner: str
    ending: Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A new attempt that waits for a worker, which has until `due` to begin it.

    `policy` is how its answer is kept; None leaves what is on record.
    """

    owner: str
    due: Due
    effects: Effects
    # Of the event in its message.
    request_digest: str
    policy: Policy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueue:
    """FAILED_RETRYABLE → PENDING, with a new owner and the next attempt.

    The message that tells a worker is written in the same transaction.
    """

    pk: str
    seen: Seen
    waiting: Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """PENDING → IN_PROGRESS, with the worker as its new owner; the attempt is the one accepted.

    Half-done work by a handler of recorded effects only.
    """

    pk: str
    seen_owner: str
    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOut:
    """PENDING → COMPLETED: no worker has ever begun it, and its time is over."""

    pk: str
    seen_owner: str
    ending: Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlePending:
    """PENDING → COMPLETED, by a webhook or operator: it is done, and no worker is to do it.

    A late effect of an earlier attempt, or somebody's own doing before a worker began. Of recorded
    effects the first attempt only: once they were begun, a run makes their business writes. Writes
    `new_owner`, a fresh one; a worker, which needs a record that waits, begins it no more.
    """

    pk: str
    seen: Seen
    new_owner: str
    ending: Ending


PendingTransition = Enqueue | Begin | TimeOut | SettlePending


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStep:
    """The step is about to run: in doubt from now on. It and every other mark are absent."""

    pk: str
    owner: str
    step: StartedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishStep:
    """The step is done, or a commit has reached its recovery point; it is absent so far.

    `mark` is that of its start, or None if it was never marked: then no step is. A step that was
    marked is ended only if the mark on record is its own, by name, place and number.
    """

    pk: str
    owner: str
    step: FinishedStep
    mark: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearStep:
    """The step is proven not to have been executed; the mark on record is the very one."""

    pk: str
    owner: str
    step: StartedStep


StepTransition = StartStep | FinishStep | ClearStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Reschedule:
    """Somebody looks at the record now, and next when it is `due`.

    It is written before a resolver is asked: of two reconcilers one gets the turn, and a resolver
    that never returns has had its own. `attempts` counts the turns taken. `escalated_at_ms`: a
    person has to settle it, and is told so, or told again.
    """

    pk: str
    seen: Seen
    due: Due
    attempts: int
    escalated_at_ms: int | None = None


Transition = (
    Reserve
    | Resume
    | TakeOver
    | ExpireLease
    | Complete
    | Release
    | MarkUnknown
    | Settle
    | SettleStep
    | LateEffect
    | Reschedule
    | PendingTransition
    | StepTransition
)


def seen(record: Record) -> Seen:
    """The version that a decision from `record` must name in its write."""
    return Seen(owner=record.owner, rev=record.rev)
