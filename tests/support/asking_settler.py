"""Settles a record as the reconciler does, without its turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.flow.driver import drive
from oncekey.settlement.settlement import Settlement, Settler

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.record.record import Record
    from oncekey.settings import Settings
    from oncekey.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """Settles records of `store`."""

    store: Store
    clock: Clock
    settings: Settings

    def settle(self, record: Record) -> Settlement:
        """Ask the resolver of `record`, and write what it says."""
        return drive(self._settled(record), store=self.store, clock=self.clock)

    async def _settled(self, record: Record) -> Settlement:
        settler = Settler(
            clock=self.clock,
            settings=self.settings,
            call_timeout_ms=self.store.call_timeout_ms,
            has_bucket=self.store.has_bucket,
        )
        finding = await settler.find_out(record)
        return finding if isinstance(finding, Settlement) else await settler.write(record, finding)
