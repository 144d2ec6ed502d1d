"""Requests under one quota, in all orders of their calls to the store, and with faults in between.

A transaction is two moves: it is prepared, and it lands. One that is prepared while another holds
one of its items is refused, as DynamoDB does it. Where there are faults it is one move, to keep the
runs few. Nothing is left to chance: equal scripts make equal runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.engine.engine import attempt
from oncekey.engine.store_state import StoreState
from oncekey.errors import StoreError
from oncekey.flow.commands import Answered, Invoke, Pause, Transact
from oncekey.flow.driver import perform
from oncekey.record.outcome import Ran, Refusal
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oncekey.engine.request import Request
    from oncekey.record.commit import Commit
    from oncekey.record.outcome import Outcome

LOST_ANSWER, LOST = "its answer is lost", "it is lost"
DIES_BEFORE, DIES_AFTER = "the process dies before it arrives", "the process dies as it lands"
FAULTS = (LOST_ANSWER, LOST, DIES_BEFORE, DIES_AFTER)


@dataclass
class Script:
    """The choices of one run: those given, then the first of each; `widths` says how many were."""

    given: list[int]
    taken: list[int] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)

    def choose(self, options: list[Any]) -> Any:
        """One of `options`."""
        number = self.given[len(self.taken)] if len(self.taken) < len(self.given) else 0
        self.taken.append(number)
        self.widths.append(len(options))
        return options[number]


def every_run(run: Callable[[Script], None]) -> int:
    """Do `run` under every script; how many there were."""
    given: list[int] | None = []
    runs = 0
    while given is not None:
        script = Script(given)
        run(script)
        runs += 1
        given = _next(script)
    return runs


def _next(script: Script) -> list[int] | None:
    for place in reversed(range(len(script.taken))):
        if script.taken[place] + 1 < script.widths[place]:
            return [*script.taken[:place], script.taken[place] + 1]
    return None


class RacingRequest:
    """One request in a sandbox of its own."""

    def __init__(self, request: Request, clock: ManualClock) -> None:
        self.flow = attempt(request, clock)
        self.command: Any = self.flow.send(None)
        self.outcome: Outcome | None = None
        self.is_dead = False
        self.is_prepared = False

    @property
    def is_over(self) -> bool:
        """Whether it makes no more moves."""
        return self.is_dead or self.outcome is not None

    @property
    def end(self) -> str:
        """What became of it."""
        if self.is_dead:
            return "dead"
        if isinstance(self.outcome, Refusal):
            return str(self.outcome.reason)
        return "ran" if isinstance(self.outcome, Ran) else "replayed"

    def go_on(self, reply: object) -> None:
        """Take the reply to what was asked."""
        try:
            if isinstance(reply, StoreError):
                self.command = self.flow.throw(reply)
            else:
                self.command = self.flow.send(reply)
        except StopIteration as end:
            self.outcome = end.value


class Race:
    """Requests against one store, whose moves a script puts in order."""

    def __init__(self, *requests: Request, faults: int = 0) -> None:
        self.store = MemoryStore()
        self.clock = ManualClock()
        self.runs = 0
        # Every transaction that was sent, once for each time.
        self.sent: list[Commit] = []
        self.faults_left = faults
        self.lands_at_once = faults > 0
        self.requests: list[RacingRequest] = []
        self.ask(*requests)

    def ask(self, *requests: Request) -> None:
        """More requests, each in a sandbox of its own."""
        self.requests += [RacingRequest(_remembering(request), self.clock) for request in requests]

    @property
    def ends(self) -> list[str]:
        """What became of each request, in their order."""
        return [request.end for request in self.requests]

    def play(self, script: Script) -> None:
        """All requests to their ends."""
        while moves := list(self._moves()):
            request, fault = script.choose(moves)
            self._move(request, fault)

    def play_one(self, request: RacingRequest) -> None:
        """The next move of `request`."""
        self._move(request, "")

    def _moves(self) -> Iterator[tuple[RacingRequest, str]]:
        for request in self.requests:
            if request.is_over:
                continue
            yield request, ""
            if self.faults_left and isinstance(request.command, Transact):
                yield from ((request, fault) for fault in FAULTS)

    def _move(self, request: RacingRequest, fault: str) -> None:
        command = request.command
        if isinstance(command, Transact) and not request.is_prepared:
            self.sent.append(command.commit)
        if fault:
            self.faults_left -= 1
            if fault in {LOST_ANSWER, DIES_AFTER}:
                self._land(command)
            if fault in {DIES_BEFORE, DIES_AFTER}:
                request.is_dead = True
            else:
                request.go_on(StoreError("no answer", transient=True))
        elif isinstance(command, Transact) and not (request.is_prepared or self.lands_at_once):
            self._prepare(request)
        elif isinstance(command, Pause):
            # Time that passes for all is no matter here, and would move the window.
            request.go_on(None)
        else:
            request.is_prepared = False
            request.go_on(self._land(command))

    def _prepare(self, request: RacingRequest) -> None:
        held = [other for other in self.requests if other.is_prepared]
        for other in held:
            if other.command.commit.transition.pk == request.command.commit.transition.pk:
                request.go_on(StoreError("held", transient=True, contention="conflict"))
                return
        if held:
            request.go_on(StoreError("held", transient=True, contention="counter"))
            return
        request.is_prepared = True

    def _land(self, command: Any) -> object:
        return perform(command, self.store, self.clock, self._invoked)

    def _invoked(self, _command: Invoke) -> Answered[Any]:
        self.runs += 1
        return Answered(value={"statusCode": 201}, stored="{}", is_final=True)


def _remembering(request: Request) -> Request:
    return replace(request, store_state=StoreState(call_timeout_ms=0))
