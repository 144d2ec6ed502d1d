"""Those who serve in the background of a service: relay, reconciler, operator, provider's hooks."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from oncekey.errors import StoreError
from oncekey.flow.commands import ReadPauses
from oncekey.outbox.sweep import OutboxSweep
from oncekey.reconciler.report import Report
from oncekey.reconciler.visits import Visits
from oncekey.record.pause import EVERYTHING, Pause, PauseScope
from oncekey.record.record import SETTLED
from tests.simulation.scenario import TURNS
from tests.simulation.settlers import QUEUE, RUN_MS, TIMED_OUT, Operate, Settling, always
from tests.support.memory_outbox import failed_of, stream_of
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.flow.commands import Flow
    from tests.simulation.system import Service

_FIRST_NUMBER = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving(Settling):
    """One who serves. What it settles is the first open record that it finds."""

    service: Service
    name: str

    async def relay(self) -> None:
        """An invocation of the relay, with what the stream has for it."""
        service = self.service
        batch = service.stream.take(self.name)
        relay = service.relay(self.clock)
        answer = await relay.relay_flow(stream_of(batch), always)
        failed = [int(each) - _FIRST_NUMBER for each in failed_of(answer)]
        service.stream.done(self.name, batch[min(failed) :] if failed else ())

    async def run(self) -> Report:
        """A run of the reconciler: the outbox first, then every due record."""
        service, now_ms = self.service, self.clock.now_ms()
        # Such a failure is raised at the end of the run, so that somebody sees it.
        with suppress(StoreError):
            await OutboxSweep(relay=service.relay(self.clock)).sweep_flow(
                before_ms=now_ms - TURNS.outbox_grace_ms, is_time_left=always
            )
        pauses = await ReadPauses() if self.settings.pause_check_s else ()
        visits = Visits(
            store=self.store,
            clock=self.clock,
            settings=self.settings,
            turns=TURNS,
            escalations=QUEUE,
            timed_out=TIMED_OUT,
            report=Report(),
            run_ms=RUN_MS,
            pauses=pauses,
        )
        until_ms = now_ms + RUN_MS
        for pk in service.due(now_ms):
            await visits.look(pk)
        await visits.work(until_ms, always)
        await visits.end(always)
        await visits.work(until_ms, always)
        return visits.report

    async def pause_for_a_while(self) -> None:
        """An operator pauses everything, or one tenant, and resumes it later."""
        store: Any = self.store
        scope = PauseScope.ALL
        pause = Pause(scope=scope, name=EVERYTHING, reason="why", by="operator", since_ms=0)
        await Operate(partial(store.pause, pause), "pause")
        await Operate(partial(store.resume, scope, EVERYTHING), "resume")

    async def bust(self) -> None:
        """An operator deletes a settled record, on purpose: its key may run again."""
        for record in self.service.records:
            if record.status in SETTLED and not record.steps.finished:
                await Operate(partial(self.service.bust, record), f"bust {record.pk}")
                return

    async def resolve(self) -> object:
        """An operator, or a webhook, tells of what happened to an open operation."""
        for pk in self.service.open_keys():
            named = replace(self, pk=pk)
            settled = await named.tell_of_effects() or await named.tell_of_nothing()
            if settled is not None:
                return settled
        return None


SERVICES: dict[str, Callable[[Serving], Flow[Any]]] = {
    "relay": Serving.relay,
    "reconciler": Serving.run,
    "operator": Serving.pause_for_a_while,
    "bust": Serving.bust,
    "resolve": Serving.resolve,
}
