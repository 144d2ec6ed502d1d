"""What a flow asks of the world, as values that it awaits.

A flow is a coroutine: `reply = await Write(transition)` hands the command to whoever drives the
flow, and goes on with the reply. The same flow thus serves threads, event loops and scheduled
interleavings.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from oncekey.value import Value, field

if TYPE_CHECKING:
    # Quoted below as types of replies, where the linter does not look.
    from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable  # noqa: F401
    from oncekey.record.counter import Counter  # noqa: F401
    from oncekey.record.record import Record  # noqa: F401
    from oncekey.record.stored_answer import Blob, StoredRef
    from oncekey.record.transitions import Transition
    from oncekey.store.store import Refused, Written  # noqa: F401

T = TypeVar("T")
R = TypeVar("R")


class Asked(Value, Generic[R]):
    """A command; awaited, it gives its reply."""

    def __await__(self) -> Generator[Asked[R], R, R]:
        """Hand the command to the driver; its reply."""
        return (yield self)


class Write(Asked["Written | Refused"]):
    """One conditional write; a `StoreError` is thrown into the flow."""

    transition: Transition


class Transact(Asked["Written | Refused | ConditionsFailed | Inapplicable"]):
    """One fenced transaction; a `StoreError` is thrown into the flow."""

    commit: Commit


class Read(Asked["Record | None"]):
    """One strongly consistent read; a `StoreError` is thrown into the flow."""

    pk: str


class ReadCounter(Asked["Counter | None"]):
    """One strongly consistent read of a counter; a `StoreError` is thrown into the flow."""

    name: str


class Save(Asked[None]):
    """Save an answer beside its record; a `StoreError` is thrown into the flow."""

    blob: Blob


class Fetch(Asked[bytes | None]):
    """Fetch an answer from beside its record; a `StoreError` is thrown into the flow."""

    at: StoredRef


class Pause(Asked[None]):
    """Let about `duration_ms` milliseconds pass."""

    duration_ms: int


class Outside(Asked[R]):
    """A call of what is neither the store nor the handler, such as a resolver or a queue.

    What the call raises is thrown into the flow.
    """

    @abstractmethod
    def carry_out(self) -> R:
        """Make the call; its reply."""


class Answered(Value, Generic[T], kw_only=True):
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


class Unserialisable(Value):
    """The handler ended with a final answer that has no stored form; `error` tells its author."""

    error: BaseException = field(repr=False)
    commits: bool = True


class Raised(Value):
    """The attempt ended with an exception.

    `has_returned`: the handler itself had ended; what went wrong came after it. `is_proof`: what
    the author's rule said of it, where it has been asked already.
    """

    error: BaseException = field(repr=False)
    has_returned: bool = False
    is_proof: bool | None = None


Result = Answered[Any] | Unserialisable | Raised


def as_it_is(value: Any, _operation: Any) -> Result:
    """The result of a handler whose answer is passed on and not stored."""
    return Answered(value=value, stored="", is_final=True)


class Invoke(Asked[Result]):
    """Run the handler. The reply is a `Result`; nothing is thrown into the flow.

    `journal` is that of a recorded operation. `running` is the attempt, whose block the handler
    runs in. `returned` makes a result of what the handler returned, given its operation, and
    `raised` one of what it raised. Neither raises; both are called within that block.
    """

    # These belong to the room above. Only that room uses their members.
    operation: Any = field(repr=False)
    journal: Any = field(default=None, repr=False)
    running: Any = field(default=None, repr=False)
    returned: Callable[[Any, Any], Result] = field(default=as_it_is, repr=False)
    raised: Callable[[BaseException], Result] = field(default=Raised, repr=False)


Command = Write | Transact | Read | ReadCounter | Save | Fetch | Pause | Invoke | Outside[Any]
Flow = Coroutine[Any, Any, R]
