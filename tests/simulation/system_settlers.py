"""Who serves in the background of a service: relay, reconciler, operators, webhooks that settle."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from oncekey.errors import StoreError
from oncekey.outbox.sweep import OutboxSweep
from oncekey.record.record import SETTLED
from tests.simulation.scenario import TURNS
from tests.simulation.settlers import RUN_MS, Operate, Settling, always, end_visits
from tests.support.memory_outbox import failed_of, stream_of
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.flow.commands import Flow
    from oncekey.reconciler.report import Report
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
        visits = await self.begin_visits()
        for pk in service.due(now_ms):
            await visits.look(pk)
        return await end_visits(visits, now_ms + RUN_MS)

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


SERVERS: dict[str, Callable[[Serving], Flow[Any]]] = {
    "relay": Serving.relay,
    "reconciler": Serving.run,
    "operator": Serving.pause_and_resume,
    "bust": Serving.bust,
    "resolve": Serving.resolve,
}
