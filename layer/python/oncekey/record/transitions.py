"""The transitions of a record: the writes that exist.

```
 from               by           to                 who
 absent, expired    Reserve      IN_PROGRESS        a request
 absent, expired    Reserve      PENDING            a request, to be worked on later
 absent, expired    Reserve      COMPLETED          a webhook, with its message
 PENDING            Begin        IN_PROGRESS        a worker
 PENDING            TimeOut      COMPLETED          anybody who reads it after its deadline
 PENDING            SettlePending COMPLETED         a webhook or an operator
 IN_PROGRESS        Complete     COMPLETED          its owner
 IN_PROGRESS        Release      FAILED_RETRYABLE   its owner
 IN_PROGRESS        MarkUnknown  UNKNOWN            its owner
 IN_PROGRESS, over  TakeOver     IN_PROGRESS        a request; no step in doubt
 IN_PROGRESS, over  ExpireLease  UNKNOWN            a request, the reconciler or a settlement
 IN_PROGRESS, over  ExpireLease  FAILED_RETRYABLE   a job's request or the reconciler;
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

Each is one conditional write in a store. A plain read never guards a write.
`oncekey.record.rules` says when each is permitted and how it changes the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.value import Value, field

if TYPE_CHECKING:
    from oncekey.record.policy import Policy
    from oncekey.record.record import Due, Effects, Record
    from oncekey.record.steps import FinishedStep, StartedStep
    from oncekey.record.stored_answer import StoredAnswer


class Seen(Value, kw_only=True):
    """The version of a record that a decision was made from."""

    owner: str
    rev: int


class Lease(Value, kw_only=True):
    """A new attempt's right to run.

    `policy` says how this attempt's answer is stored; None keeps the policy on record.
    """

    owner: str
    until_ms: int
    due: Due
    effects: Effects
    policy: Policy | None = None


class Ending(Value, kw_only=True):
    """A stored answer."""

    response: StoredAnswer = field(repr=False)
    completed_at_ms: int
    expires_at_s: int
    response_version: int = 1


class Retry(Value, kw_only=True):
    """The operation may run again.

    A record with finished steps is half done: it never expires, and somebody must look at it when
    it is `due`.
    """

    reason: str
    expires_at_s: int | None
    due: Due | None = None


class Doubt(Value, kw_only=True):
    """The outcome is unknown; somebody must look at the record when it is `due`.

    `escalated_at_ms` is set if no resolver can help, so that a person must settle it.
    """

    reason: str
    due: Due
    escalated_at_ms: int | None = None


class Reserve(Value, kw_only=True):
    """Absent, or settled and expired → IN_PROGRESS, PENDING or COMPLETED, as `record`."""

    record: Record
    now_ms: int

    @property
    def pk(self) -> str:
        """The record's partition key."""
        return self.record.pk


class Resume(Value, kw_only=True):
    """FAILED_RETRYABLE → IN_PROGRESS, with a new owner and the next attempt."""

    pk: str
    seen: Seen
    lease: Lease


class TakeOver(Value, kw_only=True):
    """IN_PROGRESS with its lease over → IN_PROGRESS, with a new owner and the next attempt.

    Repeatable effects, or recorded ones with no step in doubt.
    """

    pk: str
    seen: Seen
    lease: Lease
    now_ms: int


class ExpireLease(Value, kw_only=True):
    """IN_PROGRESS with its lease over → UNKNOWN, or FAILED_RETRYABLE where a new run is harmless.

    The owner stays.
    """

    pk: str
    seen: Seen
    now_ms: int
    to: Doubt | Retry


class Complete(Value, kw_only=True):
    """IN_PROGRESS or UNKNOWN → COMPLETED, by its own owner."""

    pk: str
    owner: str
    ending: Ending


class Release(Value, kw_only=True):
    """IN_PROGRESS → FAILED_RETRYABLE, by its own owner.

    Proven not executed, or harmless to repeat.
    """

    pk: str
    owner: str
    retry: Retry


class MarkUnknown(Value, kw_only=True):
    """IN_PROGRESS → UNKNOWN, by its own owner. The lease stays."""

    pk: str
    owner: str
    doubt: Doubt


class Settle(Value, kw_only=True):
    """UNKNOWN → COMPLETED or FAILED_RETRYABLE, by a resolver, webhook or operator.

    Not for recorded effects: there a run completes the operation and makes its writes. It writes a
    fresh `new_owner`, so that a late owner does not take the settlement for its own write.
    """

    pk: str
    seen_owner: str
    new_owner: str
    to: Ending | Retry


class SettleStep(Value, kw_only=True):
    """UNKNOWN → FAILED_RETRYABLE, by a resolver, webhook or operator; recorded effects.

    The step in doubt is either `finished`, or `cleared` by its name as never executed. Both are
    None if no step is in doubt. The next run makes the business writes. It writes `new_owner`.
    """

    pk: str
    seen_owner: str
    new_owner: str
    retry: Retry
    finished: FinishedStep | None = None
    cleared: str | None = None


class LateEffect(Value, kw_only=True):
    """FAILED_RETRYABLE → COMPLETED, by a webhook or operator who reports a late effect."""

    pk: str
    seen: Seen
    new_owner: str
    ending: Ending


class Waiting(Value, kw_only=True):
    """A new attempt that waits for a worker, which has until `due` to begin it.

    `policy` says how its answer is stored; None keeps the policy on record.
    """

    owner: str
    due: Due
    effects: Effects
    # The digest of the event in its message.
    request_digest: str
    policy: Policy | None = None


class Enqueue(Value, kw_only=True):
    """FAILED_RETRYABLE → PENDING, with a new owner and the next attempt.

    The message that tells a worker is written in the same transaction.
    """

    pk: str
    seen: Seen
    waiting: Waiting


class Begin(Value, kw_only=True):
    """PENDING → IN_PROGRESS, with the worker as its new owner; the attempt's number stays.

    If the work is half done, only a handler of recorded effects may begin it.
    """

    pk: str
    seen_owner: str
    lease: Lease


class TimeOut(Value, kw_only=True):
    """PENDING → COMPLETED: no worker has ever begun the job, and its deadline has passed."""

    pk: str
    seen_owner: str
    ending: Ending


class SettlePending(Value, kw_only=True):
    """PENDING → COMPLETED, by a webhook or operator: the work is done, and no worker may do it.

    An earlier attempt had a late effect, or somebody did the work by hand. With recorded effects,
    this is permitted only before the first run began: after that, a run makes the business writes.
    It writes a fresh `new_owner`. A worker cannot begin the record any more.
    """

    pk: str
    seen: Seen
    new_owner: str
    ending: Ending


PendingTransition = Enqueue | Begin | TimeOut | SettlePending


class StartStep(Value, kw_only=True):
    """The step is about to run and is in doubt from now on.

    Condition: no step is started, and this one is not finished.
    """

    pk: str
    owner: str
    step: StartedStep


class FinishStep(Value, kw_only=True):
    """The step is done, or a commit has reached its recovery point.

    Condition: the step is not finished yet, and the mark on record is the one of its start: the
    same name, position and `mark`. If `mark` is None, no step may be marked.
    """

    pk: str
    owner: str
    step: FinishedStep
    mark: int | None


class ClearStep(Value, kw_only=True):
    """The step is proven not to have been executed.

    Condition: the mark on record is the one of its start.
    """

    pk: str
    owner: str
    step: StartedStep


StepTransition = StartStep | FinishStep | ClearStep


class Reschedule(Value, kw_only=True):
    """Somebody looks at the record now, and next when it is `due`.

    It is written before a resolver is called. So only one of two reconcilers calls it, and a
    resolver that never returns is counted. `attempts` counts these turns. `escalated_at_ms` is set
    if the record is escalated, or escalated again.
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
