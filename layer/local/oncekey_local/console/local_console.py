"""The console of a running `oncekey dev`: its tables, what it has seen, and its faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey_local.console.workshop import LocalWorkshop
from oncekey_local.functions.environment import queue_url
from oncekey_local.identifiers import new_letters
from oncekey_operator.console.console import Access, Console
from oncekey_operator.console.target_desk import TargetDesk

if TYPE_CHECKING:
    import asyncio
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
    """The desk of a local runtime, which has seen more than its tables, and has all its queues."""

    def __init__(self, target: Target, service: Service, journal: Journal) -> None:
        super().__init__(target)
        self._queues = {
            queue.name: queue_url(service, queue.name, target.endpoint_url or "")
            for queue in service.queues
        }
        self._journal = journal

    def history(self, record: Record) -> Sequence[Event]:
        """See `Desk.history`."""
        return [*super().history(record), *self._journal.events_of(record)]

    def _queue_urls(self) -> Mapping[str, str]:
        return self._queues


def local_console(
    service: Service,
    target: Target,
    *,
    loop: asyncio.AbstractEventLoop,
    url: str,
    servers: Sequence[Server],
    event_sources: EventSources,
    processes: Callable[[], list[dict[str, Any]]],
    journal: Journal,
) -> Console:
    """The console. Its actions on the service run in `loop`."""
    desk = LocalDesk(target, service, journal)
    workshop = LocalWorkshop(
        service,
        loop=loop,
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
    return Console(desk, access, workshop=workshop)
