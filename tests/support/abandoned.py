"""Half-done work whose client never comes back, and who finishes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey.errors import JobUnfinished
from oncekey.outbox.envelope import sealed
from oncekey.outbox.inbox import Delivered, delivered
from oncekey.queued.jobs import Jobs
from oncekey.reconciler.reconciler import Reconciler
from oncekey.reconciler.settings import ReconcilerSettings
from tests.support.steps import FAILED, Steps, step

if TYPE_CHECKING:
    from oncekey.reconciler.report import Report

HOLD = step("hold", "h-1")


class Abandoned(Steps):
    """A handler whose abandoned work is completed, its reconciler and its worker."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"on_abandoned": "complete", **options})
        self.jobs = Jobs(self.handler)

    def reconciles(self, *, max_attempts: int = 10) -> Report:
        """A run of the reconciler once the record is due."""
        due = self.record.due
        if due is not None:
            self.clock.advance(max(0, due.at_ms + 1 - self.clock.now_ms()))
        turns = ReconcilerSettings(max_attempts=max_attempts)
        reconciler = Reconciler(store=self.store, clock=self.clock, turns=turns)
        return reconciler.run(self.clock.now_ms() + 50_000)

    @property
    def messages(self) -> list[Delivered]:
        """What was handed back, as a worker gets it."""
        return [delivered(sealed(message)) for message in self.store.messages]

    def works(self) -> None:
        """A delivery of the last message."""
        self.jobs.perform(self.messages[-1], self.context())

    def works_in_vain(self) -> None:
        """A delivery whose handler fails again."""
        self.handles(HOLD, ends=FAILED)
        with pytest.raises(JobUnfinished):
            self.works()
