"""The actors of a simulated run: flows that stop at each command until the schedule goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from oncekey.engine.engine import attempt
from oncekey.engine.operation_options import OperationOptions
from oncekey.engine.request import Request
from oncekey.engine.store_state import StoreState
from oncekey.errors import NotExecuted
from oncekey.flow.commands import Answered, Invoke, Raised
from oncekey.record.identity import Identity
from oncekey.record.record import Effects
from tests.simulation.history import Answer
from tests.simulation.recorded_handler import RecordedHandler, with_handler
from tests.simulation.scenario import (
    CALL_TIMEOUT_MS,
    ONE_STEP,
    Caller,
    Kind,
    Move,
    Plan,
    Work,
)
from tests.simulation.settlers import SETTLERS, Settling
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Generator

    from oncekey.effects.operation import Operation
    from oncekey.flow.commands import Flow, Result
    from oncekey.settings import Settings
    from oncekey.store.due_index import OpenRecords
    from oncekey.store.store import Store
    from oncekey.testing.memory import ManualClock

IDENTITY = Identity(tenant="tenant", operation="POST /simulated", key="a-key-of-sixteen")
PK = IDENTITY.pk

AFFECTING = frozenset({Plan.SUCCEED, Plan.FAIL_AFTER, Plan.UNAVAILABLE})


class ActorClock:
    """One actor's view of the true time, and ids of its own.

    Ids name their actor and not the order of the draws: two orders of independent moves then lead
    to equal states.
    """

    def __init__(self, true: ManualClock, name: str, number: int, skew_ms: int) -> None:
        self.skew_ms = skew_ms
        self._true = true
        self._name = name
        self._number = number
        self._drawn = 0

    def now_ms(self) -> int:
        """See `oncekey.clock.Clock.now_ms`."""
        return self._true.now_ms() + self.skew_ms

    def pause(self, duration_ms: int) -> None:
        """Never called: flows ask for their pauses."""
        raise AssertionError(f"Bug: {self._name} paused {duration_ms} ms without asking")

    def random_fraction(self) -> float:
        """Always a half."""
        return 0.5

    def new_owner(self) -> str:
        """`<actor>/1`, `<actor>/2`, ..."""
        return f"{self._name}/{self._next()}"

    def new_operation_id(self) -> str:
        """UUIDs that hold the actor's number and the number of the draw."""
        return f"{self._number:08d}-0000-4000-8000-{self._next():012d}"

    def _next(self) -> int:
        self._drawn += 1
        return self._drawn


# Worlds are many, and the names of their actors few.
_step = lru_cache(maxsize=10_000)(partial(Move, Kind.STEP))


@lru_cache(maxsize=1_000)
def options_of(effects: Effects, settings: Settings) -> OperationOptions:
    """The options of a handler, made once as in a sandbox."""
    return OperationOptions(effects=effects, settings=settings)


@dataclass(slots=True)
class Actor:
    """A flow, and where it stands.

    `trace` sums up all that the flow has seen: two runs in which it is equal have equal flows.
    """

    name: str
    clock: ActorClock
    caller: Caller | None
    settings: Settings
    work: Work = ONE_STEP
    # What its flow asks for is a command, or a call to the provider.
    flow: Flow[Any] | Generator[Any, Any, Any] | None = None
    command: Any = None
    handler: RecordedHandler | None = None
    result: Answered[Answer] | Raised | None = None
    # What a settler's flow has returned.
    outcome: object = None
    until_ms: int | None = None
    is_over: bool = False
    is_frozen: bool = False
    trace: int = 0
    # The same, before the first answer.
    begun: int = 0
    # The move that lets it go on.
    step: Move = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Make its move once, for there are many looks at what may move."""
        self.step = _step(self.name)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of a caller's request."""
        return f"f1:{self.caller.body}" if self.caller is not None else ""

    @property
    def kind(self) -> object:
        """What it does, whatever its name."""
        return replace(self.caller, name="") if self.caller else self.name.partition("-")[0]

    @property
    def may_fail(self) -> bool:
        """Whether its flow passes on a failure of the store: its next run begins anew."""
        return self.caller is None

    def open(self, store: OpenRecords) -> None:
        """Make the flow. A caller's time begins now."""
        if self.caller is None:
            settling = Settling(pk=PK, clock=self.clock, settings=self.settings, store=store)
            self.flow = SETTLERS[self.name.partition("-")[0]](settling)
            return
        request = Request(
            identity=IDENTITY,
            fingerprint=self.fingerprint,
            options=options_of(self.caller.effects, self.settings),
            store_state=StoreState(call_timeout_ms=CALL_TIMEOUT_MS),
            deadline_ms=self.clock.now_ms() + self.caller.remaining_ms,
            stored_event="{}" if self.caller.keeps_request else None,
        )
        self.until_ms = self.clock.now_ms() - self.clock.skew_ms + self.caller.remaining_ms
        self.flow = attempt(
            request,
            self.clock,
            raised=self._result_of,
        )
        if request.options.effects is Effects.RECORDED:
            self.flow = with_handler(self.flow, lambda invoke: self._begun(invoke, store))

    def handle(self, operation: Operation) -> Answered[Answer] | Raised:
        """How the handler will end; its effect is the world's business."""
        plan = self.caller.plan if self.caller is not None else Plan.SUCCEED
        if plan is Plan.NOT_EXECUTED:
            return Raised(NotExecuted())
        is_final = plan is Plan.SUCCEED
        if is_final or plan is Plan.UNAVAILABLE:
            answer = Answer(
                operation_id=operation.operation_id,
                attempt=operation.attempt,
                by=self.name,
                is_final=is_final,
            )
            return Answered(value=answer, stored=answer.stored, is_final=is_final)
        return Raised(RuntimeError("the handler failed"))

    def _begun(self, invoke: Invoke, store: Store) -> RecordedHandler:
        plan = self.caller.plan if self.caller is not None else Plan.SUCCEED
        self.handler = RecordedHandler(
            invoke, store, self.clock, by=self.name, plan=plan, work=self.work
        )
        return self.handler

    def _result_of(self, error: BaseException) -> Result:
        return Raised(error) if self.handler is None else self.handler.result_of(error)
