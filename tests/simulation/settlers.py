"""Those who settle what is in doubt: the library's own flows, and whose webhook tells them.

They know a record's key, their clock, and what the provider says; nothing of the schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from oncekey.errors import NotExecuted, StoreError
from oncekey.flow.commands import Asked, Outside, ReadPauses
from oncekey.reconciler.report import Report
from oncekey.reconciler.timed_out import TimedOut
from oncekey.reconciler.visits import Visits
from oncekey.record.pause import EVERYTHING, Pause, PauseScope
from oncekey.settlement.late import settle_named
from oncekey.settlement.resolvers import Completed
from oncekey.settlement.settlement import Settler
from oncekey.store.sqs import SqsQueue
from oncekey.value import field
from tests.simulation.scenario import TURNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.flow.commands import Flow
    from oncekey.settings import Settings
    from oncekey.settlement.settlement import Settlement
    from oncekey.store.due_index import OpenRecords
    from tests.simulation.provider import Known

RUN_MS = 50_000
_PAUSE = Pause(scope=PauseScope.ALL, name=EVERYTHING, reason="why", by="operator", since_ms=0)
TIMED_OUT = TimedOut(()).ending
# The world answers instead of it.
QUEUE = SqsQueue("https://sqs.example/escalations")


class Operate(Outside[None]):
    """One command of an operator: to pause the operation, or to resume it."""

    command: Callable[[], object] = field(compare=False, repr=False)
    what: str

    def carry_out(self) -> None:
        """Carry the command out."""
        self.command()


class Hear(Asked["Known | None"]):
    """Hear from the provider what it knows of the operation; None where nothing is on record."""

    pk: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """Who settles the record under `pk`, on `store`, by `clock`."""

    pk: str
    clock: Clock
    settings: Settings
    store: OpenRecords

    async def reconcile(self) -> Report:
        """A run of the reconciler in which this record is due."""
        until_ms = self.clock.now_ms() + RUN_MS
        visits = await self.begin_visits()
        await visits.look(self.pk)
        return await end_visits(visits, until_ms)

    async def begin_visits(self) -> Visits:
        """Begin a run of the reconciler."""
        pauses = await ReadPauses() if self.settings.pause_check_s else ()
        return Visits(
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

    async def pause_and_resume(self) -> None:
        """An operator who pauses everything, and resumes it after some time."""
        store: Any = self.store
        await Operate(partial(store.pause, _PAUSE), "pause")
        await Operate(partial(store.resume, _PAUSE.scope, _PAUSE.name), "resume")

    async def tell_of_effects(self) -> Settlement | None:
        """A webhook that tells of what has happened."""
        known = await Hear(self.pk)
        if known is None or isinstance(known.finding, NotExecuted):
            return None
        return await self._settle(known, known.finding)

    async def tell_of_nothing(self) -> Settlement | None:
        """A webhook that tells that nothing has happened, with the time of the event.

        It may arrive much later, when another attempt has been executed.
        """
        known = await Hear(self.pk)
        found_at_ms = self.clock.now_ms()
        if known is None or isinstance(known.finding, Completed):
            return None
        return await self._settle(known, known.finding, found_at_ms)

    async def _settle(
        self, known: Known, finding: Completed | NotExecuted, found_at_ms: int | None = None
    ) -> Settlement | None:
        settler = Settler(
            clock=self.clock,
            settings=self.settings,
            call_timeout_ms=self.store.call_timeout_ms,
            has_bucket=self.store.has_bucket,
        )
        try:
            return await settle_named(
                self.pk,
                known.operation_id,
                finding,
                step=known.step,
                found_at_ms=found_at_ms,
                settler=settler,
            )
        except (StoreError, ValueError):
            # The provider says it again, or never. A step is in doubt by now that was not when it
            # was asked: what it says of the whole operation is turned down.
            return None


async def end_visits(visits: Visits, until_ms: int) -> Report:
    """Do the work of a run of the reconciler, and end it."""
    await visits.work(until_ms, always)
    await visits.end(always)
    await visits.work(until_ms, always)
    return visits.report


def always() -> bool:
    """There is always time left."""
    return True


SETTLERS: dict[str, Callable[[Settling], Flow[Report | Settlement | None]]] = {
    "reconciler": Settling.reconcile,
    "webhook": Settling.tell_of_effects,
    "denial": Settling.tell_of_nothing,
    "operator": Settling.pause_and_resume,
}
