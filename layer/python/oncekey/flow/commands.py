"""The commands of a flow: values that it awaits to get something done outside.

A flow is a coroutine. `reply = await Write(transition)` passes the command to the flow's driver,
and continues with the reply. So the same flow runs in threads, in event loops, and in tests that
choose the interleaving.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from oncekey.value import Value, field

if TYPE_CHECKING:
    # These are used below in quoted types of replies, which the linter does not read.
    from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable  # noqa: F401
    from oncekey.record.counter import Counter  # noqa: F401
    from oncekey.record.pause import Pause as OperatorsPause  # noqa: F401
    from oncekey.record.record import Record  # noqa: F401
    from oncekey.record.stored_answer import Blob, StoredRef
    from oncekey.record.transitions import Transition
    from oncekey.store.store import Refused, Written  # noqa: F401

T = TypeVar("T")
R = TypeVar("R")


class Asked(Value, Generic[R]):
    """A command. Awaiting it returns its reply."""

    def __await__(self) -> Generator[Asked[R], R, R]:
        """Pass the command to the driver, and return the reply."""
        return (yield self)


class Write(Asked["Written | Refused"]):
    """One conditional write. A `StoreError` is thrown into the flow."""

    transition: Transition


class Transact(Asked["Written | Refused | ConditionsFailed | Inapplicable"]):
    """One fenced transaction. A `StoreError` is thrown into the flow."""

    commit: Commit


class Read(Asked["Record | None"]):
    """One strongly consistent read of a record. A `StoreError` is thrown into the flow."""

    pk: str


class ReadCounter(Asked["Counter | None"]):
    """One strongly consistent read of a counter. A `StoreError` is thrown into the flow."""

    name: str


class ReadPauses(Asked["tuple[OperatorsPause, ...]"]):
    """One strongly consistent read of all pauses. A `StoreError` is thrown into the flow."""


class Save(Asked[None]):
    """Save a companion or an object. A `StoreError` is thrown into the flow."""

    blob: Blob


class Fetch(Asked[bytes | None]):
    """Fetch a companion or an object, or None. A `StoreError` is thrown into the flow."""

    at: StoredRef


class Pause(Asked[None]):
    """Let about `duration_ms` milliseconds pass."""

    duration_ms: int


class Outside(Asked[R]):
    """A call of something other than the store and the handler, such as a resolver or a queue.

    An exception of the call is thrown into the flow.
    """

    @abstractmethod
    def carry_out(self) -> R:
        """Make the call, and return the reply."""


class Answered(Value, Generic[T], kw_only=True):
    """The handler ended with `value`, whose stored form is `stored`.

    `is_final` says whether the answer may be stored. `commits` says whether the collected writes
    and messages are applied with it. `is_failure` says whether it reports a failure, even if it is
    stored. `is_refusal` says whether it tells the client that the request was not done, for
    whatever reason.
    """

    value: T = field(repr=False)
    stored: str = field(repr=False)
    is_final: bool
    commits: bool = True
    is_failure: bool = False
    is_refusal: bool = False


class Unserialisable(Value):
    """The handler ended with a final answer that has no stored form. `error` says why."""

    error: BaseException = field(repr=False)
    commits: bool = True


class Raised(Value):
    """The attempt ended with an exception.

    `has_returned` says whether the handler had ended before the exception. `is_proof` is the result
    of the author's `not_executed` rule; None if the rule was not asked yet.
    """

    error: BaseException = field(repr=False)
    has_returned: bool = False
    is_proof: bool | None = None


Result = Answered[Any] | Unserialisable | Raised


def as_it_is(value: Any, _operation: Any) -> Result:
    """The result of a handler whose answer is returned and not stored."""
    return Answered(value=value, stored="", is_final=True)


class Invoke(Asked[Result]):
    """Run the handler. The reply is a `Result`; nothing is thrown into the flow.

    `journal` is the journal of a recorded operation. `running` is the attempt: the handler runs
    inside its `with` block. `returned` makes a result of the handler's return value and its
    operation. `raised` makes a result of the handler's exception. Both are called inside that
    block, and never raise.
    """

    # These have types of `effects`, which this package must not import. So they are `Any`, and only
    # the packages above use their members.
    operation: Any = field(repr=False)
    journal: Any = field(default=None, repr=False)
    running: Any = field(default=None, repr=False)
    returned: Callable[[Any, Any], Result] = field(default=as_it_is, repr=False)
    raised: Callable[[BaseException], Result] = field(default=Raised, repr=False)


Command = (
    Write
    | Transact
    | Read
    | ReadCounter
    | ReadPauses
    | Save
    | Fetch
    | Pause
    | Invoke
    | Outside[Any]
)
Flow = Coroutine[Any, Any, R]
