"""`oncekey dev`: the life of the command, from its start to a signal or a failure."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oncekey_local.events.pumps import PumpSettings
from oncekey_local.local_service import LocalService, Options
from oncekey_local.log import log, say
from oncekey_local.processes import StartFailed
from oncekey_local.stdin_end import at_end_of_stdin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey_local.description import Service
    from oncekey_operator.local_runtime import LocalRuntime

__all__ = ["READY", "Options", "PumpSettings", "run"]

READY = "oncekey dev: listening on "


async def run(service: Service, options: Options, *, exit_with_stdin: bool = False) -> int:
    """Runs the service until a signal, and returns the exit status with no process left behind.

    0 after SIGINT, SIGTERM, SIGHUP or, if asked for, the end of standard input; 1 when something
    did not start, or a store or provider has died.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stopped.set)
    if exit_with_stdin:
        at_end_of_stdin(loop, stopped.set)
    local = LocalService(service, options)
    serving = asyncio.create_task(_serve(local))
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return _status(serving) if serving.done() else 0
    finally:
        for task in (serving, stopping):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await serving
        await local.stop()
        if stopped.is_set():
            log("oncekey dev: stopped")


async def _serve(local: LocalService) -> str:
    """Starts everything, says so, and returns what has died."""
    url = await local.start()
    with _found_by_commands(local.runtime(url)):
        log(local.notes(url))
        say(f"{READY}{url}", sys.stdout)
        pumps = local.event_sources.pumps if local.event_sources else set()
        ends: set[asyncio.Future[Any]] = {*(server.ended for server in local.servers), *pumps}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            if pump.done():
                pump.result()  # raises: a pump ends for no other reason
        return next(server.role for server in local.servers if server.ended.done())


@contextlib.contextmanager
def _found_by_commands(runtime: LocalRuntime) -> Iterator[None]:
    """The operator's commands find this runtime in the block. They are no reason to fail."""
    path: Path | None = None
    try:
        path = runtime.write(Path.cwd())
    except OSError as error:
        log(f"oncekey show and the others cannot find this service: {error.strerror or error}")
    try:
        yield
    finally:
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
                path.parent.rmdir()  # only the last one finds it empty


def _status(serving: asyncio.Task[str]) -> int:
    error = serving.exception()
    failures = error.exceptions if isinstance(error, ExceptionGroup) else [error]
    for failure in failures:
        if failure is None:
            log(f"oncekey dev: the {serving.result()} has died; stopping")
        elif isinstance(failure, StartFailed):
            log(f"oncekey dev: {failure}")
        elif isinstance(failure, OSError):
            log(f"oncekey dev: {failure.strerror or failure}")
        else:
            raise failure
    return 1
