"""Code that calls a store, in threads of which one runs at a time: all interleavings of its calls.

The world of the other simulations interleaves flows. What drives its flows by itself, as the
reconciler does, is interleaved here: each actor stops before every call that others can see.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from oncekey.store.store import Written
from oncekey.testing.memory import ManualClock, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from oncekey.record.commit import Commit
    from oncekey.record.transitions import Transition


class _Abandoned(BaseException):
    """Nobody wants to know how this run ends."""


class _Actor:
    """One thread, and what it has met so far."""

    def __init__(self) -> None:
        self.go = threading.Semaphore(0)
        self.stopped = threading.Semaphore(0)
        self.is_over = False
        self.is_abandoned = False
        self.trace: int = 0
        self.result: Any = None
        self.thread: threading.Thread | None = None


class LockStep:
    """Actors that run one at a time, from one call to the next."""

    def __init__(self) -> None:
        self._actors: dict[str, _Actor] = {}
        self._mine = threading.local()

    def add(self, name: str, function: Callable[[], Any]) -> None:
        """One more actor, which stands before its first call."""
        actor = self._actors[name] = _Actor()

        def run() -> None:
            self._mine.name = name
            actor.go.acquire()
            try:
                if not actor.is_abandoned:
                    actor.result = function()
            except _Abandoned:
                pass
            except Exception as error:  # noqa: BLE001 -- what a check looks at
                actor.result = error
            finally:
                actor.is_over = True
                actor.stopped.release()

        actor.thread = threading.Thread(target=run, name=name, daemon=True)
        actor.thread.start()
        self.step(name)

    @property
    def waiting(self) -> list[str]:
        """Who can go on."""
        return [name for name, actor in self._actors.items() if not actor.is_over]

    @property
    def names(self) -> list[str]:
        """Everybody."""
        return list(self._actors)

    @property
    def running(self) -> str:
        """Who runs now; empty where it is none of the actors."""
        return str(getattr(self._mine, "name", ""))

    def step(self, name: str) -> None:
        """Let this one carry out the call that it stands before, and go on to its next one."""
        actor = self._actors[name]
        actor.go.release()
        actor.stopped.acquire()

    def stop(self) -> None:
        """Wait until it is the calling actor's turn."""
        actor = self._actors.get(self.running)
        if actor is None:
            return
        self.met("stops")
        if not actor.is_abandoned:
            actor.stopped.release()
            actor.go.acquire()
        if actor.is_abandoned:
            raise _Abandoned

    def met(self, what: Hashable) -> None:
        """The calling actor has learnt this."""
        actor = self._actors.get(self.running)
        if actor is not None:
            actor.trace = hash((actor.trace, what))

    def result(self, name: str) -> Any:
        """What this actor's function returned, or raised."""
        return self._actors[name].result

    def state(self) -> Hashable:
        """What each actor has met."""
        return tuple((actor.trace, actor.is_over) for actor in self._actors.values())

    def abandon(self) -> None:
        """End all threads."""
        for actor in self._actors.values():
            actor.is_abandoned = True
            actor.go.release()
        for actor in self._actors.values():
            assert actor.thread is not None
            actor.thread.join()


class SteppedStore(MemoryStore):
    """A store before each call of which an actor waits for its turn.

    `applied` names the transitions that were.
    """

    def __init__(self, steps: LockStep) -> None:
        super().__init__()
        self._steps = steps
        self.applied: list[str] = []

    def write(self, transition: Transition) -> Any:
        """Wait, and write."""
        self._steps.stop()
        return self._answer(type(transition).__name__, self._write(transition))

    def commit(self, commit: Commit) -> Any:
        """Wait, and commit."""
        self._steps.stop()
        return self._answer(type(commit.transition).__name__, super().commit(commit))

    def read(self, pk: str) -> Any:
        """Wait, and read."""
        self._steps.stop()
        record = super().read(pk)
        self._steps.met(("read", record))
        return record

    def _write(self, transition: Transition) -> Any:
        return super().write(transition)

    def _answer(self, name: str, reply: Any) -> Any:
        if isinstance(reply, Written):
            self.applied.append(name)
        self._steps.met((name, reply))
        return reply


class SteppedClock(ManualClock):
    """A clock whose owners bear the name of who draws them, whatever the order of the draws."""

    def __init__(self, steps: LockStep) -> None:
        super().__init__()
        self._steps = steps
        self._counts: dict[str, int] = {}

    def new_owner(self) -> str:
        """`owner-1`, `webhook-1`, ..."""
        name = self._steps.running or "nobody"
        self._counts[name] = self._counts.get(name, 0) + 1
        return f"{name}-{self._counts[name]}"


class Scene(ABC):
    """One run: its actors, its store, and what must hold at its end."""

    def __init__(self) -> None:
        self.steps = LockStep()
        self.store: SteppedStore = SteppedStore(self.steps)
        self.clock = SteppedClock(self.steps)

    def state(self) -> Hashable:
        """From equal states, equal steps lead to equal ends."""
        return (tuple(self.store.records.values()), self.steps.state())

    @abstractmethod
    def check(self) -> None:
        """Assert what must hold once everybody has come to an end."""


def explore(make: Callable[[], Scene]) -> int:
    """Carry out all interleavings, check each end, and say how many ends there were.

    A state that has been met is not followed again: all that can come after it is known.
    """
    path: list[tuple[list[str], int]] = []
    met: set[Hashable] = set()
    ends = 0
    while True:
        scene = make()
        try:
            for names, choice in path:
                scene.steps.step(names[choice])
            while (state := scene.state()) not in met and scene.steps.waiting:
                met.add(state)
                names = scene.steps.waiting
                path.append((names, 0))
                scene.steps.step(names[0])
            if not scene.steps.waiting:
                ends += 1
                scene.check()
        finally:
            scene.steps.abandon()
        while path and path[-1][1] + 1 == len(path[-1][0]):
            path.pop()
        if not path:
            return ends
        names, choice = path.pop()
        path.append((names, choice + 1))
