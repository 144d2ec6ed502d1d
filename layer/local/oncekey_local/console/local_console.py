"""The console of a running `oncekey dev`: its tables, what it has seen, and its faults."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from oncekey_local.console.mount import MountedConsole
from oncekey_local.console.workshop import LocalWorkshop
from oncekey_local.identifiers import new_letters
from oncekey_operator.console.console import Access, Console
from oncekey_operator.console.target_desk import TargetDesk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from oncekey.record.record import Record
    from oncekey_local.console.journal import Journal
    from oncekey_local.description import Service
    from oncekey_local.events.event_sources import EventSources
    from oncekey_local.servers import Server
    from oncekey_operator.console.life import Event
    from oncekey_operator.targets import Target

_REFRESH_MS = 1_000
_TOKEN_LETTERS = 32


class LocalDesk(TargetDesk):
    """The desk of a local runtime, which has seen more than its tables have, and knows its queues.

    Its methods are called by threads beside the loop.
    """

    def __init__(self, target: Target, journal: Journal, event_sources: EventSources) -> None:
        super().__init__(target)
        self._journal = journal
        self._event_sources = event_sources
        self._loop = asyncio.get_running_loop()

    def history(self, record: Record) -> Sequence[Event]:
        """See `Desk.history`."""
        return [*super().history(record), *self._journal.events_of(record)]

    def queues(self) -> Sequence[Mapping[str, Any]]:
        """See `Desk.queues`."""
        counted = asyncio.run_coroutine_threadsafe(self._event_sources.queues(), self._loop)
        return [{"name": name, **counts} for name, counts in counted.result().items()]


def local_console(
    service: Service,
    target: Target,
    *,
    url: str,
    servers: Sequence[Server],
    event_sources: EventSources,
    processes: Callable[[], list[dict[str, Any]]],
    journal: Journal,
) -> MountedConsole:
    """The console, to be mounted in the front. Created in the running event loop."""
    desk = LocalDesk(target, journal, event_sources)
    workshop = LocalWorkshop(
        service,
        url=url,
        servers=servers,
        event_sources=event_sources,
        processes=processes,
        journal=journal,
        record_of=desk.operation,
    )
    access = Access(
        token=new_letters(_TOKEN_LETTERS), is_open=True, changes=True, refresh_ms=_REFRESH_MS
    )
    return MountedConsole(Console(desk, access, workshop=workshop))
