"""Crash points: every call of the store by name, and a store that kills its caller at one of them.

    store = CrashingStore(MemoryStore())
    with use_store(store), store.crash("after complete"):
        handler(event, None)

A crash point is `before` or `after` a call: `before complete` is a process that died before its
answer was recorded, and `after complete` one that died before it could send its recorded answer.
"""

from __future__ import annotations

import re
from collections import Counter as Counts
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from oncekey.options import store_faults
from oncekey.record import transitions
from oncekey.record.commit import Commit
from oncekey.value import Value, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oncekey.record.commit import ConditionsFailed, Inapplicable
    from oncekey.record.counter import Counter
    from oncekey.record.pause import Pause
    from oncekey.record.record import Record
    from oncekey.record.stored_answer import Blob, StoredRef
    from oncekey.record.transitions import Transition
    from oncekey.store.store import Refused, Store, Written

R = TypeVar("R")

# What each write is called. The name of a step follows that of its write: `finish step charge`.
CALLS: dict[type, str] = {
    transitions.Reserve: "reserve",
    transitions.Resume: "resume",
    transitions.TakeOver: "take over",
    transitions.StartStep: "start step",
    transitions.FinishStep: "finish step",
    transitions.ClearStep: "clear step",
    transitions.Complete: "complete",
    transitions.Release: "release",
    transitions.MarkUnknown: "mark unknown",
    transitions.ExpireLease: "expire lease",
    transitions.Enqueue: "enqueue",
    transitions.Begin: "begin",
    transitions.TimeOut: "time out",
    transitions.Reschedule: "reschedule",
    transitions.Settle: "settle",
    transitions.SettleStep: "settle step",
    transitions.SettlePending: "settle pending",
    transitions.LateEffect: "late effect",
}
# A recovery point, a transaction without a record, and the calls that are no transitions.
COMMIT, BARE = "commit", "transaction"
READ, READ_COUNTER, READ_PAUSES, SAVE, FETCH = (
    "read",
    "read counter",
    "read pauses",
    "save",
    "fetch",
)
NAMES = (*CALLS.values(), COMMIT, BARE, READ, READ_COUNTER, READ_PAUSES, SAVE, FETCH)
# These are followed by the name of the step or commit.
NAMED = {"start step", "finish step", "clear step", COMMIT}

_POINT = re.compile(r"(before|after) (.+?)(?: \(([1-9]\d*)\))?")


class Killed(BaseException):
    """The process was killed here. Every later call of the store by it raises this again.

    It is not an `Exception`, because a killed process handles no error. Code that catches it anyway
    can do nothing more to the store.
    """


class CrashPoint(Value):
    """Before or after a call of the store. `number` counts the calls of the same name, from 1."""

    call: str
    is_after: bool
    number: int = 1

    def __str__(self) -> str:
        number = f" ({self.number})" if self.number != 1 else ""
        return f"{'after' if self.is_after else 'before'} {self.call}{number}"


def crash_point(text: str) -> CrashPoint:
    """The point that `text` names, such as `before complete` or `after read (2)`.

    Raises:
        ValueError: it names none.
    """
    found = _POINT.fullmatch(text)
    call = "" if found is None else found[2]
    is_named = any(call.startswith(f"{name} ") for name in NAMED)
    if found is None or not (is_named or call in {*NAMES} - NAMED):
        raise ValueError(
            f"{text!r} is no crash point: write 'before' or 'after' and the call's name, such as"
            f" 'after complete'; the calls are {', '.join(NAMES)}"
        )
    return CrashPoint(call, found[1] == "after", int(found[3] or 1))


class Call(Value):
    """One call of the store: its name, and what is written or asked."""

    name: str
    what: Any = field(repr=False)

    @property
    def transition(self) -> Transition | None:
        """The transition that is written, alone or in a commit."""
        what = self.what.transition if isinstance(self.what, Commit) else self.what
        return what if type(what) in CALLS else None


def _named(transition: Transition | None) -> str:
    match transition:
        case None:
            return BARE
        case transitions.FinishStep(step=step) if step.is_commit:
            return f"{COMMIT} {step.name}"
        case transitions.StartStep() | transitions.FinishStep() | transitions.ClearStep():
            return f"{CALLS[type(transition)]} {transition.step.name}"
        case _:
            return CALLS[type(transition)]


class WatchedStore:
    """Another store, with `around` about each of its calls. Everything else is that store's."""

    def __init__(self, store: Store) -> None:
        given: object = store
        faults = ["store is None"] if given is None else store_faults(store)
        if faults:
            raise TypeError(f"{type(self).__name__}: {'; '.join(faults)}")
        self.store = store

    @property
    def call_timeout_ms(self) -> int:
        """See `oncekey.store.store.Store.call_timeout_ms`."""
        return self.store.call_timeout_ms

    @property
    def has_outbox(self) -> bool:
        """See `oncekey.store.store.Store.has_outbox`."""
        return self.store.has_outbox

    @property
    def has_bucket(self) -> bool:
        """See `oncekey.store.store.Store.has_bucket`."""
        return self.store.has_bucket

    def around(self, call: Call, send: Callable[[], R]) -> R:
        """Make `call` by `send`, and return the store's reply."""
        del call
        return send()

    def write(self, transition: Transition) -> Written | Refused:
        """See `oncekey.store.store.Store.write`."""
        call = Call(_named(transition), transition)
        return self.around(call, partial(self.store.write, transition))

    def commit(self, commit: Commit) -> Written | Refused | ConditionsFailed | Inapplicable:
        """See `oncekey.store.store.Store.commit`."""
        call = Call(_named(commit.transition), commit)
        return self.around(call, partial(self.store.commit, commit))

    def read(self, pk: str) -> Record | None:
        """See `oncekey.store.store.Store.read`."""
        return self.around(Call(READ, pk), partial(self.store.read, pk))

    def counter(self, name: str) -> Counter | None:
        """See `oncekey.store.store.Store.counter`."""
        return self.around(Call(READ_COUNTER, name), partial(self.store.counter, name))

    def pauses(self) -> tuple[Pause, ...]:
        """See `oncekey.store.store.Store.pauses`."""
        return self.around(Call(READ_PAUSES, None), self.store.pauses)

    def save(self, blob: Blob) -> None:
        """See `oncekey.store.store.Store.save`."""
        return self.around(Call(SAVE, blob), partial(self.store.save, blob))

    def fetch(self, at: StoredRef) -> bytes | None:
        """See `oncekey.store.store.Store.fetch`."""
        return self.around(Call(FETCH, at), partial(self.store.fetch, at))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


class Trap:
    """Kills the process that comes to `point`, once. `calls` are the names of all calls so far."""

    def __init__(self, point: CrashPoint | None = None) -> None:
        self.point = point
        self.has_sprung = False
        self.calls: list[str] = []

    def passed(self, call: Call, send: Callable[[], R]) -> R:
        """Make the call.

        Raises:
            Killed: this is the point. The call was carried out if the point is after it.
        """
        self.calls.append(call.name)
        point = self.point
        if (
            self.has_sprung
            or point is None
            or point.call != call.name
            or point.number != self.calls.count(call.name)
        ):
            return send()
        self.has_sprung = True
        if point.is_after:
            send()
        raise Killed(str(point))

    def told(self) -> str:
        """The calls so far, for a message."""
        counts = Counts(self.calls)
        made = (f"{name} ({n} times)" if n > 1 else name for name, n in counts.items())
        return ", ".join(made) or "none"


class CrashingStore(WatchedStore):
    """A store whose caller is killed at a crash point, inside `with store.crash(...)`."""

    _trap: Trap | None = None

    def around(self, call: Call, send: Callable[[], R]) -> R:
        """Make the call, or kill the caller.

        Raises:
            Killed: the caller is dead.
        """
        trap = self._trap
        if trap is None:
            return send()
        if trap.has_sprung:
            raise Killed(str(trap.point))
        return trap.passed(call, send)

    @contextmanager
    def crash(self, point: str) -> Iterator[None]:
        """Run the block as one process, and kill it at `point`. The code after is the next process.

        From the crash point on, no call of the store is carried out in the block. The block ends
        where it is killed, and the statement after it goes on.

        Raises:
            ValueError: there is no such point.
            AssertionError: the block did not come to the point. The message lists its calls.
        """
        self._trap = trap = Trap(crash_point(point))
        try:
            yield
        except Killed:
            if not trap.has_sprung:
                raise
        finally:
            self._trap = None
        if not trap.has_sprung:
            raise AssertionError(
                f"nothing was killed: the block did not come to {point!r}."
                f" Its calls of the store: {trap.told()}"
            )
