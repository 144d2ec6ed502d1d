"""The command: starts the service, plays the demo, prints the summary, and stops everything."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from oncekey_local.demo import report
from oncekey_local.demo.director import perform
from oncekey_local.demo.narrator import Narrator
from oncekey_local.demo.plays import LEASE_MARGIN_MS, TIMEOUT_S, VISIBILITY_TIMEOUT_S
from oncekey_local.demo.scenes import SCENES
from oncekey_local.demo.stage import REQUEST_TIMEOUT_S, Stage
from oncekey_local.dev_process import DevProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from oncekey_local.demo.director import Outcome

_LAST_LINES = 20
_ENDED_BY_SIGNAL = 128  # plus the signal's number, as in shells
_SETTINGS = {
    "ONCEKEY_LEASE_MARGIN_MS": str(LEASE_MARGIN_MS),
    # On one machine, no call arrives later than this.
    "ONCEKEY_RECONCILE_GRACE_MS": "1000",
}
_OPTIONS = {
    "timeout-s": TIMEOUT_S,
    "visibility-timeout-s": VISIBILITY_TIMEOUT_S,
    # Short delays, so that the demo does not wait longer than a charge takes.
    "retry-s": 0.2,
    "window-s": 0,
    # The scenes decide who settles what and when. So the provider holds its events, and the
    # schedule never calls the reconciler during the demo.
    "webhooks": "hold",
    "schedule-s": 300,
}


def run(*, protected: bool) -> int:
    """Plays the demo, stops all its processes, and returns the exit status.

    It is 0 if every promise was kept, 1 if one was not or the service did not start, and 128 plus
    the signal's number after a signal (130 for Ctrl-C).
    """
    try:
        return asyncio.run(_play_until_told(Narrator.to(sys.stdout), protected=protected))
    except BrokenPipeError:
        # The reader of the output has gone. Without this, the interpreter would fail again when it
        # flushes the output at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


async def _play_until_told(narrator: Narrator, *, protected: bool) -> int:
    """Plays until the end or a signal."""
    playing = asyncio.create_task(_play(narrator, protected=protected))
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not received:  # a second signal must not interrupt the clean-up
            playing.cancel()
        received.append(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        return await playing
    except asyncio.CancelledError:
        if not received:
            raise
        narrator.line()
        narrator.line(f"stopped by {received[0].name}; no process is left")
        return _ENDED_BY_SIGNAL + received[0]


async def _play(narrator: Narrator, *, protected: bool) -> int:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    narrator.line(
        "oncekey demo: every payment and refund once, whatever happens on the way", "bold"
    )
    narrator.paragraph(
        "Real requests over HTTP, to functions in processes of their own. What counts is what the "
        "payment provider has charged and given back in the end.",
        indent="",
    )
    if not protected:
        narrator.paragraph(
            "The protection is switched off (ONCEKEY_DISABLED=1): see what becomes of it.",
            "bold",
            "red",
            indent="",
        )
    narrator.line()
    narrator.line("starting service, store and payment provider on this machine")
    log: list[str] = []
    try:
        async with _service(log, protected=protected) as (dev, session):
            narrator.line(f"ready after {loop.time() - begun:.1f} s")
            outcome = await perform(Stage(dev, session, narrator), SCENES)
    except RuntimeError as error:  # from `DevProcess`: the service did not start or did not end
        what = str(error).splitlines()[0].rstrip(":")
        narrator.line(f"oncekey demo: the service failed: {what}", "red")
        _show_log(narrator, "\n".join(log) or str(error))
        return 1
    report.tell(narrator, outcome, protected=protected, seconds=loop.time() - begun)
    if _is_log_of_interest(outcome, protected=protected):
        _show_log(narrator, "\n".join(log))
    return 0 if outcome.kept else 1


@contextlib.asynccontextmanager
async def _service(
    log: list[str], *, protected: bool
) -> AsyncIterator[tuple[DevProcess, aiohttp.ClientSession]]:
    """The running service. However the block is left, the service has ended afterwards.

    Its output is then in `log`.
    """
    settings = _SETTINGS if protected else {**_SETTINGS, "ONCEKEY_DISABLED": "1"}
    arguments = [f"--{name}={value}" for name, value in _OPTIONS.items()]
    for name, value in settings.items():
        arguments += ["--env", f"{name}={value}"]
    starting = asyncio.ensure_future(asyncio.to_thread(DevProcess, *arguments))
    try:
        dev = await asyncio.shield(starting)
        async with aiohttp.ClientSession(
            # A new connection for each request, as from independent clients.
            connector=aiohttp.TCPConnector(force_close=True),
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
        ) as session:
            yield dev, session
    finally:
        # This waits even after a signal, because the service can be stopped only once it started.
        await asyncio.wait({starting})
        if starting.exception() is None:
            dev = starting.result()
            try:
                await asyncio.to_thread(dev.stop)
                log.append(dev.log())
            finally:
                dev.close()


def _is_log_of_interest(outcome: Outcome, *, protected: bool) -> bool:
    # Without protection, broken promises are expected, and the log does not explain them.
    troubled = any(each.log.trouble for each in outcome.performances)
    return troubled or (protected and not outcome.kept)


def _show_log(narrator: Narrator, log: str) -> None:
    path = Path(tempfile.mkdtemp(prefix="oncekey-demo-")) / "service.log"
    path.write_text(log, "utf-8")
    narrator.line()
    narrator.line(f"The last lines of the service's log, {path}:")
    for line in log.splitlines()[-_LAST_LINES:]:
        narrator.line(f"  {line}", "dim")
