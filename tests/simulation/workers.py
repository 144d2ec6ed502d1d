"""Requests that are accepted, and the workers that take their messages, in the simulated world.

Messages are delivered as often as a worker comes, whoever has acknowledged them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from oncekey.engine.engine import attempt
from oncekey.engine.job import TOPIC, Job, job_message_in
from oncekey.engine.job_begin import begin
from oncekey.engine.operation_options import OperationOptions
from oncekey.engine.request import Request
from oncekey.engine.reservation import reserve
from oncekey.engine.store_state import StoreState
from oncekey.errors import NotExecuted
from oncekey.record.outcome import Reason, Refusal
from oncekey.record.record import Effects, Status
from tests.simulation.actors import IDENTITY, Actor
from tests.simulation.checkers_of_jobs import JOBS, Took
from tests.simulation.explorer import run, verdict
from tests.simulation.recorded_handler import with_handler
from tests.simulation.scenario import CALL_TIMEOUT_MS, Caller
from tests.simulation.story import Violation
from tests.simulation.world import World

if TYPE_CHECKING:
    from oncekey.engine.job import JobMessage
    from oncekey.record.message import Message
    from oncekey.record.outcome import Outcome
    from oncekey.store.due_index import OpenRecords
    from oncekey.store.store import Store

TIMED_OUT = "not started in time"
# Once all is well: one that meets the dead attempt, one that accepts it anew, one that is answered.
_MOST_ROUNDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker(Caller):
    """A worker that takes the message of this number, or the newest if there are fewer."""

    takes: int = 0


@dataclass(slots=True)
class JobActor(Actor):
    """A client whose request is accepted, or a worker."""

    took: Message | None = None

    def open(self, store: OpenRecords) -> None:
        """Make the flow. A worker that finds no message has come for nothing."""
        caller = self.caller
        assert caller is not None
        request = Request(
            identity=IDENTITY,
            fingerprint=self.fingerprint,
            options=OperationOptions(
                effects=caller.effects,
                settings=self.settings,
                is_not_executed=lambda error: isinstance(error, NotExecuted),
                is_queued=True,
            ),
            store_state=StoreState(call_timeout_ms=CALL_TIMEOUT_MS),
            deadline_ms=self.clock.now_ms() + caller.remaining_ms,
            job=None if isinstance(caller, Worker) else Job(event="{}"),
            timed_out=TIMED_OUT,
        )
        self.until_ms = self.clock.now_ms() - self.clock.skew_ms + caller.remaining_ms
        reserving = reserve
        if isinstance(caller, Worker):
            messages = jobs_in(store)
            if not messages:
                self.flow = _nothing()
                return
            self.took = messages[min(caller.takes, len(messages) - 1)]
            self.trace = hash((self.trace, self.took.id))
            reserving = partial(begin, task_in(self.took))
        self.flow = attempt(
            request,
            self.clock,
            reserving=reserving,
            raised=self._result_of,
        )
        if request.options.effects is Effects.RECORDED:
            self.flow = with_handler(self.flow, lambda invoke: self._begun(invoke, store))


def jobs_in(store: Store) -> list[Message]:
    """The messages that tell of accepted requests, in the order in which they were written."""
    messages: list[Message] = store.messages  # type: ignore[attr-defined]  # it is one in memory
    return [message for message in messages if message.topic == TOPIC]


def task_in(message: Message) -> JobMessage:
    """What a worker reads in a message."""
    return job_message_in(json.loads(message.payload), message.operation_id)


async def _nothing() -> Outcome:
    return Refusal(reason=Reason.SUPERSEDED)


class JobsWorld(World):
    """A world of accepted requests."""

    actor_type = JobActor

    def _go_on(self, actor: Actor, reply: object) -> None:
        if actor.command is None and isinstance(actor, JobActor) and actor.took is not None:
            owner = task_in(actor.took).owner
            self._say(Took(at_ms=self._now, actor=actor.name, owner=owner))
        super()._go_on(actor, reply)


def judge_jobs(world: World, *, is_late: bool = False) -> Violation | None:
    """The verdict on a run that is over, after all was well for a while.

    With `is_late` nobody comes until what waits has waited for too long.
    """
    world.heal()
    record = world.record
    if is_late and record is not None and record.due is not None:
        world.advance(max(0, record.due.at_ms + 1 - world.time.now_ms()))
    unrecorded, effects = Effects.UNRECORDED, world.scenario.callers[0].effects
    for number in range(_MOST_ROUNDS):
        run(world, world.add(Caller(name=f"again-{number}", effects=effects)).name)
        worker = Worker(name=f"worker-again-{number}", effects=effects, takes=10)
        run(world, world.add(worker).name)
        record = world.record
        if record is not None and record.lease_until_ms is not None:
            world.advance(max(0, record.lease_until_ms + 1 - world.time.now_ms()))
    history = world.history()
    found = (violation for checker in JOBS for violation in checker(history))
    violation = next(found, None) or verdict(history)
    is_settled = record is not None and (
        record.status is Status.COMPLETED
        or (record.status is Status.UNKNOWN and effects is unrecorded)
    )
    return violation or (None if is_settled else Violation("a request is never answered", ()))
