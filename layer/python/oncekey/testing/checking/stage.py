"""The stage of one play: a fresh store, its clock, and the processes that use them."""

from __future__ import annotations

import contextlib
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from oncekey.clock import SystemClock
from oncekey.engine.job import TOPIC
from oncekey.errors import StoreError
from oncekey.http.answer import answer_from
from oncekey.http.job import job_of
from oncekey.outbox.envelope import sealed
from oncekey.outbox.inbox import delivered
from oncekey.outbox.sweep import Swept
from oncekey.queued.jobs import Jobs
from oncekey.reconciler.reconciler import Reconciler
from oncekey.record import transitions
from oncekey.record.commit import Commit
from oncekey.record.record import Status
from oncekey.record.stored_answer import AnswerDamaged, Blob, StoredRef, opened
from oncekey.store.store import Written
from oncekey.testing.checking.calling import awaited
from oncekey.testing.checking.processes import (
    COMMITTED,
    Intended,
    Process,
    Sent,
    names_time,
    open_step,
)
from oncekey.testing.checking.threads import inherited
from oncekey.testing.crash_points import Call, CrashPoint, Killed, Trap, WatchedStore
from oncekey.testing.memory import ManualClock
from oncekey.testing.replacement import use_store

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from oncekey.record.business_write import BusinessWrite
    from oncekey.record.message import Message
    from oncekey.record.record import Record
    from oncekey.record.stored_answer import StoredAnswer
    from oncekey.record.transitions import Transition
    from oncekey.store.store import Store
    from oncekey.testing.checking.lock_step import LockStep
    from oncekey.testing.checking.processes import Observed

R = TypeVar("R")

_ENDS = (transitions.Complete, transitions.Release, transitions.MarkUnknown)
_STARTS = (transitions.Reserve, transitions.Resume, transitions.TakeOver, transitions.Begin)
# Long enough for everything that only waits for time.
_MINUTE_MS = 60_000
_RECONCILED_FOR_MS = 50_000


_current: ContextVar[Process | None] = ContextVar("oncekey_process", default=None)


class PlayClock(ManualClock):
    """Time that the play moves. Ids are random, because a provider's memory outlives a play."""

    def __init__(self, stage: Stage) -> None:
        system = SystemClock()
        super().__init__(system.now_ms())
        self.new_owner = system.new_owner  # type: ignore[method-assign]
        self.new_operation_id = system.new_operation_id  # type: ignore[method-assign]
        self._stage = stage

    def now_ms(self) -> int:
        """See `oncekey.clock.Clock.now_ms`. A step asks for the time before it runs."""
        self._stage.look_at_step()
        return super().now_ms()

    def pause(self, duration_ms: int) -> None:
        """Let the others go on, and then the time pass."""
        self._stage.turn()
        super().pause(duration_ms)


class PlayStore(WatchedStore):
    """The store of a play. Each call is a place where a process may be killed, or have to wait."""

    def __init__(self, stage: Stage, store: Store) -> None:
        super().__init__(store)
        self._stage = stage

    def around(self, call: Call, send: Callable[[], R]) -> R:
        """Make the call, unless the process is dead or is killed here."""
        stage, process = self._stage, self._stage.process
        stage.look()
        stage.turn()
        if process.is_dead:
            raise Killed
        stage.note_intention(call)

        def noted() -> R:
            reply = send()
            stage.note(process, call, reply)
            return reply

        try:
            return stage.trap.passed(call, noted)
        except Killed:
            process.is_dead = True
            raise


class Stage:
    """One play. `call` calls the handler with an event."""

    def __init__(
        self,
        call: Callable[[Any], Any],
        store: Store,
        observed: Sequence[Observed],
        *,
        queued: Sequence[Any] = (),
        point: CrashPoint | None = None,
    ) -> None:
        self._call = call
        self.store = store
        self.observed = observed
        self._queued = queued
        self._jobs = Jobs(*queued) if queued else None
        self._system = SystemClock()
        self.trap = Trap(point)
        self.clock = PlayClock(self)
        self.watched = PlayStore(self, store)
        self.lock_step: LockStep[Sent] | None = None
        self.processes: list[Process] = []
        # The partition keys of the requests' records, in order; and those that no other encloses.
        self.keys: dict[str, None] = {}
        self._outermost: dict[str, None] = {}
        self.intended: list[Intended] = []
        self.written = 0
        self._is_kill_told = False
        self._blobs: dict[str, bytes] = {}
        self._seen: list[Message] = []
        self._handed = 0
        self._undelivered: list[Message] = []
        self._counts = {each.name: each.count() for each in observed}
        self._first = dict(self._counts)

    @property
    def process(self) -> Process:
        """The process that is running here; the last, in a thread from before this play."""
        current = _current.get()
        is_mine = any(each is current for each in self.processes)
        return current if current is not None and is_mine else self.processes[-1]

    def grown(self, kind: Observed) -> int:
        """How many effects the whole play made."""
        return kind.count() - self._first[kind.name]

    def send(self, event: Any) -> Sent:
        """A process that handles `event`."""
        with self._in_use():
            return self._carried_out(self._new(), partial(self._call, event))

    def send_at_once(self, events: Sequence[Any], lock_step: LockStep[Sent]) -> list[Sent]:
        """One process for each event. They take turns."""
        works: list[tuple[Hashable, Callable[[], Sent]]] = []
        for event in events:
            process = self._new()
            work = partial(self._carried_out, process, partial(self._call, event))
            works.append((process.name, partial(copy_context().run, work)))
        self.lock_step = lock_step
        try:
            with self._in_use():
                return lock_step.run(works)
        finally:
            self.lock_step = None

    def deliver(self) -> None:
        """Processes for the jobs' messages. A message stays until its job has returned."""
        jobs = self._jobs
        if jobs is None:
            return
        handlers = [job for each in self._queued if (job := job_of(each)) is not None]
        messages: Sequence[Message] = getattr(self.store, "messages", self._seen)
        self._undelivered += messages[self._handed :]
        self._handed = len(messages)
        for message in tuple(self._undelivered):
            brought = delivered(sealed(message))
            if not jobs.takes(brought):
                self._undelivered.remove(message)
                continue
            is_async = any(job.name == brought.operation and job.is_coroutine for job in handlers)
            perform = jobs.perform_async if is_async else jobs.perform
            with self._in_use():
                sent = self._carried_out(self._new(), partial(awaited, perform, brought, None))
            if not sent.is_killed and sent.error is None:
                self._undelivered.remove(message)

    def let_pass(self, *, reconciles: bool) -> None:
        """Let time pass until the lease is over, or until the reconciler has looked at the rest."""
        now_s = self._system.now_ms() // 1000
        if self.intended and names_time(repr(self.intended), now_s):
            # The handler may have read the real clock, which this play cannot move. If it did, the
            # next attempt must read another second.
            self._system.pause((now_s + 1) * 1000 - self._system.now_ms() + 1)
        now_ms = self.clock.now_ms()
        until_ms = [now_ms + _MINUTE_MS]
        for record in self.records():
            if record.status is not Status.COMPLETED:
                until_ms.append(record.lease_until_ms or 0)
                # A message that was not handled is delivered again long before that.
                # Once people are told, more time alone changes nothing.
                is_told = record.escalated_at_ms is not None
                if reconciles and record.due is not None and not is_told and not self._undelivered:
                    until_ms.append(record.due.at_ms)
        self.clock.advance(max(until_ms) + 1_000 - now_ms)
        if reconciles:
            self._reconcile()

    def _reconcile(self) -> None:
        reconciler = Reconciler(
            store=cast("Any", self.store),
            clock=self.clock,
            escalations=cast("Any", _NoQueue()),
            outbox=cast("Any", _NoOutbox()),
            handlers=self._queued,
        )
        # If no resolver answers, the reconciler looks again in its next run.
        with contextlib.suppress(StoreError), use_store(self.store, clock=self.clock):
            reconciler.run(self.clock.now_ms() + _RECONCILED_FOR_MS)
        self.look()

    def records(self) -> list[Record]:
        """The records that the requests of this play are about, in order."""
        found = [self.store.read(pk) for pk in self.keys]
        return [record for record in found if record is not None]

    def record(self) -> Record | None:
        """The first record of the requests that is not completed, or else the first."""
        found = [record for record in self.records() if record.pk in self._outermost]
        is_open = (record for record in found if record.status is not Status.COMPLETED)
        return next(is_open, found[0] if found else None)

    def stored(self) -> Any:
        """The answer that is stored in `record()`: a proxy answer, or a function's text."""
        record = self.record()
        text = None if record is None or record.response is None else self._text(record.response)
        if text is None:
            return None
        try:
            return answer_from(text)
        except ValueError:
            return text

    @property
    def has_jobs(self) -> bool:
        """Whether messages are delivered to a worker."""
        return self._jobs is not None

    def takes_kill(self) -> bool:
        """Whether a process was killed, and nobody has asked since."""
        is_new = self.trap.has_sprung and not self._is_kill_told
        self._is_kill_told = self.trap.has_sprung
        return is_new

    def turn(self) -> None:
        """Let other processes go on, if several run."""
        if self.lock_step is not None:
            self.lock_step.turn(self.process.name)

    def look(self, place: str | None = None) -> None:
        """Note the effects that were made since the last look, and where: by default by itself."""
        if not self.processes:
            return
        process = self.process
        step = open_step()
        for each in self.observed:
            count = each.count()
            grown = count - self._counts[each.name]
            if grown:
                process.made[each.name, place or process.place(step)] += grown
                self._counts[each.name] = count
        process.last_step = step

    def look_at_step(self) -> None:
        """Look if a step has begun or ended since the last look."""
        if self.processes and open_step() != self.process.last_step:
            self.look()

    def note_intention(self, call: Call) -> None:
        """Note what an attempt is about to write, whether it will be killed here or not."""
        what, transition = call.what, call.transition
        if isinstance(what, Blob):
            self._blobs[what.at.name] = what.data
        if transition is None:
            return
        self.process.has_asked = True
        writes: tuple[BusinessWrite, ...] = ()
        messages: tuple[Message, ...] = ()
        if isinstance(what, Commit):
            writes, messages = what.writes, what.messages
            if what.companion is not None:
                self._blobs[what.companion.at.name] = what.companion.data
        answer: str | None = None
        match transition:
            case transitions.Complete():
                answer = self._text(transition.ending.response)
            case transitions.FinishStep() if isinstance(what, Commit):
                pass
            case _:
                return
        self.intended.append(
            Intended(
                pk=transition.pk,
                owner=transition.owner,
                call=call.name,
                answer=answer,
                writes=tuple(f"{each.kind} {each.parameters}" for each in writes),
                messages=tuple(f"{each.topic} {each.payload}" for each in messages),
            )
        )

    def note(self, process: Process, call: Call, reply: object) -> None:
        """Note what a call came to."""
        transition = call.transition
        if transition is None:
            return
        if isinstance(transition, transitions.Reserve):
            self.keys.setdefault(transition.pk)
            if not process.attempts:
                self._outermost.setdefault(transition.pk)
            if isinstance(reply, Written):
                process.reserved.append(transition.record)
        if not isinstance(reply, Written):
            return
        if isinstance(call.what, Commit):
            own = [each for each in call.what.messages if each.topic != TOPIC]
            self.written += len(call.what.writes) + len(own)
            self._seen += call.what.messages
            # Rows of the transaction are in the author's tables now.
            self.look(COMMITTED)
        if isinstance(transition, _STARTS) and not _is_acceptance(transition):
            process.attempts.add(transition.pk)
        elif isinstance(transition, _ENDS):
            process.attempts.discard(transition.pk)

    def _text(self, response: StoredAnswer) -> str | None:
        at = response if isinstance(response, StoredRef) else None
        with contextlib.suppress(AnswerDamaged):
            return opened(response, None if at is None else self._blobs.get(at.name))
        return None

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """All handlers use the store and the clock of this play, each time in a new sandbox."""
        with use_store(self.watched, clock=self.clock), inherited(_current):
            yield

    def _new(self) -> Process:
        process = Process(len(self.processes))
        self.processes.append(process)
        return process

    def _carried_out(self, process: Process, work: Callable[[], Any]) -> Sent:
        token = _current.set(process)
        try:
            self.look()
            return Sent(process, value=work())
        except Exception as error:  # noqa: BLE001 -- the play judges it
            return Sent(process, error=error)
        except BaseException:
            if not process.is_dead:
                raise
            return Sent(process)
        finally:
            self.look()
            _current.reset(token)


def _is_acceptance(transition: Transition) -> bool:
    """Whether it reserves a key for a worker, and begins no attempt."""
    if not isinstance(transition, transitions.Reserve):
        return False
    return transition.record.status is Status.PENDING


class _NoQueue:
    """The escalation queue of a play: nobody is told."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_args, **_options: None


class _NoOutbox:
    """The reconciler's sweep of a play: messages are handed to the jobs directly."""

    def run(self, **_options: Any) -> Swept:
        return Swept()
