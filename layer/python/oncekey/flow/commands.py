"""What the engine asks of the world, as values.

One flow can thus serve real calls and scheduled interleavings alike.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable
    from oncekey.record.counter import Counter
    from oncekey.record.record import Record
    from oncekey.record.stored_answer import Blob, StoredRef
    from oncekey.record.transitions import Transition
    from oncekey.store.store import Refused, Written

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Write:
    """One conditional write; a `StoreError` is thrown into the flow."""

    transition: Transition


@dataclass(frozen=True, slots=True)
class Transact:
    """One fenced transaction; a `StoreError` is thrown into the flow."""

    commit: Commit


@dataclass(frozen=True, slots=True)
class Read:
    """One strongly consistent read; a `StoreError` is thrown into the flow."""

    pk: str


@dataclass(frozen=True, slots=True)
class ReadCounter:
    """One strongly consistent read of a counter; a `StoreError` is thrown into the flow."""

    name: str


@dataclass(frozen=True, slots=True)
class Save:
    """Save an answer beside its record; a `StoreError` is thrown into the flow."""

    blob: Blob


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch an answer from beside its record; a `StoreError` is thrown into the flow."""

    at: StoredRef


@dataclass(frozen=True, slots=True)
class Pause:
    """Let about `duration_ms` milliseconds pass."""

    duration_ms: int


@dataclass(frozen=True, slots=True)
class Invoke:
    """Run the handler. Answers a `Result`, and never throws.

    `journal` is that of a recorded operation.
    """

    # `Operation` and `Journal` are of the room above, which alone looks into them.
    operation: Any = field(repr=False)
    journal: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[T]):
    """The handler ended with `value`, which is stored as `stored`.

    `is_final` says whether it may be stored at all; `commits`, whether what the operation has
    collected is applied with it; `is_failure`, that it reports a failure, stored though it may be;
    `is_refusal`, that it says the request was not done, by whoever's fault.
    """

    value: T = field(repr=False)
    stored: str = field(repr=False)
    is_final: bool
    commits: bool = True
    is_failure: bool = False
    is_refusal: bool = False


@dataclass(frozen=True, slots=True)
class Unserialisable:
    """The handler ended with a final answer that has no stored form; `error` tells its author."""

    error: BaseException = field(repr=False)
    commits: bool = True


@dataclass(frozen=True, slots=True)
class Raised:
    """The attempt ended with an exception.

    `has_returned`: the handler itself had ended; what went wrong came after it. `is_proof`: what
    the author's rule said of it, where it has been asked already.
    """

    error: BaseException = field(repr=False)
    has_returned: bool = False
    is_proof: bool | None = None


Result = Answered[Any] | Unserialisable | Raised
Command = Write | Transact | Read | ReadCounter | Save | Fetch | Pause | Invoke
Flow = Generator[Command, Any, R]


def write(transition: Transition) -> Flow[Written | Refused]:
    """Ask for one write."""
    reply: Written | Refused = yield Write(transition)
    return reply


def transact(commit: Commit) -> Flow[Written | Refused | ConditionsFailed | Inapplicable]:
    """Ask for one transaction."""
    reply: Written | Refused | ConditionsFailed | Inapplicable = yield Transact(commit)
    return reply


def read(pk: str) -> Flow[Record | None]:
    """Ask for one read."""
    reply: Record | None = yield Read(pk)
    return reply


def read_counter(name: str) -> Flow[Counter | None]:
    """Ask for one read of a counter."""
    reply: Counter | None = yield ReadCounter(name)
    return reply


def save(blob: Blob) -> Flow[None]:
    """Ask for an answer to be kept."""
    yield Save(blob)


def fetch(at: StoredRef) -> Flow[bytes | None]:
    """Ask for a kept answer."""
    reply: bytes | None = yield Fetch(at)
    return reply


def pause(duration_ms: int) -> Flow[None]:
    """Ask for time to pass."""
    yield Pause(duration_ms)


def invoke(operation: Any, journal: Any) -> Flow[Result]:
    """Ask for the handler to be run."""
    reply: Result = yield Invoke(operation, journal)
    return reply
