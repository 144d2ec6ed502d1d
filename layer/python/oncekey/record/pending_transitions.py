"""The transitions of an operation that is accepted now and worked on later.

They are among those of `oncekey.transitions`, whose docstring has them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey.policy import Policy
    from oncekey.record import Due, Effects
    from oncekey.transitions import Ending, Lease, Seen


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
