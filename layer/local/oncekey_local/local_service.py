"""A whole service on this machine: store, provider, functions, event sources and HTTP front.

Started together and ended together.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from oncekey_local.console.journal import Journal
from oncekey_local.console.mount import CONSOLE_PREFIX, MountedConsole
from oncekey_local.description import safe_visibility_timeout_s
from oncekey_local.events.event_sources import EventSources
from oncekey_local.events.pumps import NEVER, PumpSettings
from oncekey_local.first_steps import oncekey_command, request_to_send
from oncekey_local.front.control import CONTROL_PREFIX, Control
from oncekey_local.front.front import OPENAPI_PATH, Front
from oncekey_local.functions.environment import (
    REGION,
    Place,
    audit_table_name,
    function_arn,
    function_environment,
    needs_provider,
    webhook_path,
)
from oncekey_local.functions.pool import FunctionPool
from oncekey_local.functions.runtime_api import RuntimeApi
from oncekey_local.functions.sandboxes import SandboxSettings, State
from oncekey_local.functions.sources import Sources
from oncekey_local.log import log
from oncekey_local.openapi.serving import served_document
from oncekey_local.processes import LOOPBACK, StartFailed, free_port, listening_socket
from oncekey_local.provider import READY as PROVIDER_READY
from oncekey_local.server_log import keep_requests_out_of_the_log
from oncekey_local.servers import Server, process_entry
from oncekey_local.store.buckets import create_buckets
from oncekey_local.store.client import Refused, StoreClient
from oncekey_local.store.permissions import PERMISSIONS_PATH, permissions_of
from oncekey_local.store.queues import create_queues
from oncekey_local.store.store import READY as STORE_READY
from oncekey_local.store.tables import create_audit_table, create_tables
from oncekey_operator.exits import UsageError
from oncekey_operator.local_runtime import LocalRuntime
from oncekey_operator.targets import VARIABLES, of_runtime

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Mapping

    from oncekey_local.description import Function, Service
    from oncekey_local.events.pumps import Invoke
    from oncekey_local.functions.runtime_api import Outcome
    from oncekey_operator.console.console import Console

# How often changed code is looked for while no request comes.
_WATCH_S = 1.0
# The time for sending open answers at the end.
_SHUTDOWN_TIMEOUT_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of the command line.

    `service` is the reference of the description, from which the OpenAPI document is made. A port
    of 0 means any free port. A timeout of None means each function's own timeout.
    """

    service: str | None = None
    port: int = 0
    store_port: int = 0
    provider_port: int = 0
    # The processes of each function: at the most, and before a call comes.
    sandboxes: int = 8
    warm: int = 1
    timeout_s: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    holds_webhooks: bool = False
    # Whether functions run changed code from their next request on.
    reloads: bool = False
    pumps: PumpSettings = field(default_factory=PumpSettings)


def _pumps(service: Service, options: Options) -> PumpSettings:
    """The settings of the pumps. A given timeout changes the visibility timeouts as on AWS."""
    pumps = options.pumps
    if options.timeout_s is None or pumps.visibility_timeout_s is not None:
        return pumps
    windows_s = (trigger.window_s for each in service.functions for trigger in each.queues)
    hidden_s = safe_visibility_timeout_s(
        timeout_s=math.ceil(options.timeout_s), window_s=max(windows_s, default=0)
    )
    return replace(pumps, visibility_timeout_s=hidden_s)


class LocalService:
    """A whole service on this machine, created in a running event loop.

    `stop` ends everything that `start` began, also after a failed start.
    """

    def __init__(self, service: Service, options: Options) -> None:
        self.servers: list[Server] = []
        self.event_sources: EventSources | None = None
        self._service = service
        self._options = replace(options, pumps=_pumps(service, options))
        self._pools: dict[str, FunctionPool] = {}
        self._api = RuntimeApi()
        self._front: web.ServerRunner | None = None
        self._home: str | None = None
        self._session = aiohttp.ClientSession()
        self._sources = Sources(str(Path.cwd())) if options.reloads else None
        self._watching: asyncio.Task[None] | None = None
        self._journal = Journal()
        self._console: MountedConsole | None = None
        self._place = Place(store_url="", provider_url=None, home="", overrides={})

    async def start(self) -> str:
        """Returns the front's address when everything answers.

        Raises `StartFailed`, or `OSError` for a taken port.
        """
        keep_requests_out_of_the_log()
        # Ports are checked first, so that a port in use is found before anything runs.
        listener = listening_socket(self._options.port, purpose="service")
        try:
            store_port = free_port(self._options.store_port, purpose="store")
            provider_port = free_port(self._options.provider_port, purpose="provider")
            front_url = f"http://{LOOPBACK}:{listener.getsockname()[1]}"
            place = await self._start_servers(store_port, provider_port, front_url)
            self._place = place
            await self._start_functions(place)
            control = Control(self.processes, self._start_event_sources(place))
            if self._sources:
                self._watching = asyncio.create_task(self._watch(self._sources))
            self._console = self._make_console(front_url)
            return await self._start_front(listener, control)
        except BaseException:
            listener.close()
            raise

    async def stop(self) -> None:
        """Returns when no process is left. Nothing is saved, so everything is killed."""
        if self._watching:
            self._watching.cancel()
        if self.event_sources:
            await self.event_sources.stop()
        for pool in self._pools.values():
            pool.kill()
        for server in self.servers:
            server.child.kill()
        await asyncio.gather(*(pool.gone() for pool in self._pools.values()))
        await asyncio.gather(*(server.ended for server in self.servers))
        if self._front:
            await self._front.cleanup()
        await self._api.stop()
        await self._session.close()
        if self._home:
            shutil.rmtree(self._home, ignore_errors=True)

    def processes(self) -> list[dict[str, object]]:
        """Every child process, and what it is doing."""
        servers: list[dict[str, object]] = [
            process_entry(server.role, server.child.pid, address=server.url)
            for server in self.servers
        ]
        sandboxes = [
            process_entry(
                "function",
                sandbox.pid,
                function=name,
                started=sandbox.started,
                busy=sandbox.state is State.BUSY,
                request_id=sandbox.invocation.request_id if sandbox.invocation else None,
            )
            for name, pool in self._pools.items()
            for sandbox in (*pool.sandboxes, *pool.retired)
            if sandbox.pid is not None
        ]
        return servers + sandboxes

    def runtime(self, url: str) -> LocalRuntime:
        """What the operator's commands need to find this service."""
        variables: dict[str, str] = {}
        for function in self._service.functions:
            variables |= function_environment(self._service, function, self._place)
        return LocalRuntime(
            port=urlsplit(url).port or 0,
            pid=os.getpid(),
            url=url,
            store_url=self._place.store_url,
            region=REGION,
            audit_table=audit_table_name(self._service),
            reconciler_every_s=self._reconciler_every_s(),
            variables={
                name: value for name, value in variables.items() if name in VARIABLES.values()
            },
        )

    def _reconciler_every_s(self) -> float:
        given_s = self._options.pumps.schedule_s
        minutes = [
            function.schedule.every_minutes
            for function in self._service.functions
            if function.reconciles is not None and function.schedule is not None
        ]
        if given_s == NEVER or not any(minutes):
            return 0.0
        return given_s or 60.0 * min(filter(None, minutes))

    def notes(self, url: str) -> str:
        """The notes for the developer after the start."""
        lines = [f"service {self._service.name!r}: Ctrl-C stops it, and nothing is kept"]
        lines += [f"  {server.role:<10} {server.url}" for server in self.servers]
        if self._options.service is not None:
            lines += [f"  openapi    {url}{OPENAPI_PATH}"]
        if self._console:
            lines += [f"  console    {url}{CONSOLE_PREFIX}"]
        lines += [f"  operations {oncekey_command()} list (and show, doctor)"]
        lines += [f"  processes  {url}{CONTROL_PREFIX}processes"]
        if self._service.queues:
            lines += [f"  queues     {url}{CONTROL_PREFIX}queues"]
        schedules = self.event_sources.schedules() if self.event_sources else {}
        for name, when in schedules.items():
            now = f"curl -X POST {url}{CONTROL_PREFIX}schedules/{name}"
            lines += [f"  schedule   {name} {when}, or now: {now}"]
        if request := request_to_send(self._service, url):
            lines += ["a request, to be sent twice:", *(f"  {line}" for line in request)]
        return "\n".join(lines)

    async def _start_servers(self, store_port: int, provider_port: int, front_url: str) -> Place:
        self.servers.append(
            await Server.start("store", "oncekey_local.store.store", store_port, STORE_READY)
        )
        provider: Server | None = None
        if needs_provider(self._service):
            path = webhook_path(self._service)
            webhook: tuple[str, ...] = () if path is None else ("--webhook-url", front_url + path)
            if self._options.holds_webhooks:
                webhook += ("--hold-webhooks",)
            provider = await Server.start(
                "provider", "oncekey_local.provider", provider_port, PROVIDER_READY, *webhook
            )
            self.servers.append(provider)
        store_url = await self.servers[0].ready()
        await self._create_resources(store_url)
        provider_url = await provider.ready() if provider else None
        self._home = tempfile.mkdtemp(prefix="oncekey-dev-")
        return Place(
            store_url=store_url,
            provider_url=provider_url,
            home=self._home,
            overrides=self._options.environment,
        )

    async def _create_resources(self, store_url: str) -> None:
        client = StoreClient(self._session, store_url)
        try:
            await create_tables(client, self._service)
            await create_audit_table(client, self._service)
            await create_queues(client, self._service, self._options.pumps.visibility_timeout_s)
        except Refused as error:
            raise StartFailed(str(error)) from error
        await create_buckets(self._session, store_url, self._service)
        permissions = permissions_of(self._service)
        await self._session.post(f"{store_url}{PERMISSIONS_PATH}", json=permissions)

    async def _start_functions(self, place: Place) -> None:
        await self._api.start()
        for function in self._service.functions:
            self._pools[function.name] = self._pool(function, place)
        async with asyncio.TaskGroup() as starting:
            for pool in self._pools.values():
                starting.create_task(pool.warm_up())

    def _pool(self, function: Function, place: Place) -> FunctionPool:
        settings = SandboxSettings(
            function=function.name,
            handler=function.handler,
            arn=function_arn(self._service, function),
            timeout_s=self._options.timeout_s or function.timeout_s,
            environment=function_environment(self._service, function, place),
            on_line=self._journal.line,
        )
        # A function that is not called soon is started at its first call.
        often = function.schedule is not None and function.schedule.every_minutes is not None
        triggered = function.streams or function.queues or often
        warm = min(self._options.warm, self._options.sandboxes)
        if not function.routes:
            warm = min(warm, 1 if triggered else 0)
        return FunctionPool(settings, self._api, warm=warm, most=self._options.sandboxes)

    def _start_event_sources(self, place: Place) -> EventSources:
        self.event_sources = EventSources(
            self._service,
            StoreClient(self._session, place.store_url),
            self._options.pumps,
            sandboxes=self._options.sandboxes,
        )
        self.event_sources.start(self._invoke())
        return self.event_sources

    def _make_console(self, url: str) -> MountedConsole | None:
        """The console; None for a service that keeps no records."""
        sources = self.event_sources
        assert sources is not None
        try:
            target = of_runtime(self.runtime(url))
        except UsageError:
            return None

        loop = asyncio.get_running_loop()

        def make() -> Console:
            # Few runs have a use for it.
            from oncekey_local.console.local_console import local_console  # noqa: PLC0415

            return local_console(
                self._service,
                target,
                loop=loop,
                url=url,
                servers=self.servers,
                event_sources=sources,
                processes=self.processes,
                journal=self._journal,
            )

        return MountedConsole(make)

    def _invoke(self) -> dict[str, Invoke]:
        def of(name: str, pool: FunctionPool) -> Invoke:
            async def invoke(event: bytes) -> Outcome:
                if self._sources:
                    self._reload(self._sources)
                call = self._journal.begin(name, event)
                outcome = await pool.invoke(event)
                self._journal.end(call, outcome)
                return outcome

            return invoke

        return {name: of(name, pool) for name, pool in self._pools.items()}

    async def _watch(self, sources: Sources) -> None:
        """Reload also without a request, so that a mistake is shown when it is saved."""
        while True:
            await asyncio.sleep(_WATCH_S)
            self._reload(sources)

    def _reload(self, sources: Sources) -> None:
        changed = sources.changed()
        if not changed:
            return
        own = changed & {getattr(module, "__file__", None) for module in sys.modules.values()}
        if changed - own:
            log(f"changed: {_named(changed - own)}; later requests run the new code")
        if own:
            log(
                f"changed: {_named(own)}; the description may have changed: restart oncekey dev to"
                " use it"
            )
        for pool in self._pools.values():
            pool.restart()

    async def _start_front(self, listener: socket.socket, control: Control) -> str:
        reference = self._options.service
        document = None if reference is None else partial(served_document, reference)
        front = Front(self._service, self._invoke(), control, document, self._console)
        # A body arrives as it was sent, compressed or not: the function decodes it.
        server = web.Server(front.handle, access_log=None, auto_decompress=False)
        self._front = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_TIMEOUT_S)
        await self._front.setup()
        await web.SockSite(self._front, listener).start()
        return f"http://{LOOPBACK}:{listener.getsockname()[1]}"


def _named(paths: Iterable[str]) -> str:
    return ", ".join(sorted(os.path.relpath(path) for path in paths))
