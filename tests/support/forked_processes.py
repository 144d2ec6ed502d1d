"""A process that forks one for each order, the journals of those, and the store that they share.

Store and provider are real servers, so a call that was sent takes effect whatever becomes of its
sender.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from oncekey_local.functions.environment import REGION
from oncekey_local.store.store import READY
from tests.support.dev_service import ROOT
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.support.tripwire import Stop


@dataclass(frozen=True)
class Run:
    """One process: how it ended, and what its journal says."""

    what: str
    pid: int
    ended: str
    journal: Path
    events: tuple[dict[str, Any], ...]

    @property
    def calls(self) -> tuple[str, ...]:
        """The names of the calls that it came to, sent or about to be."""
        return tuple(event["call"] for event in self.events if event["event"] == "sending")

    @property
    def ran(self) -> tuple[str, ...]:
        """The steps that it ran."""
        return tuple(event["step"] for event in self.events if event["event"] == "ran")

    @property
    def keys(self) -> set[str]:
        """The idempotency keys that it showed the provider."""
        return {event["key"] for event in self.events if event.get("key")}

    @property
    def last_moment(self) -> tuple[str, int, str]:
        """Where its journal ends: before or after which call, and that call's name."""
        event = self.events[-1]
        when = {"sending": "before", "answered": "after"}.get(event["event"], event["event"])
        return when, event.get("number", 0), event.get("call", "")

    @property
    def answer(self) -> Any:
        """What the handler answered, or what became of the settlement."""
        assert self.ended == "exit 0", self
        return self.events[-1]["answer"]

    @property
    def code(self) -> str | None:
        """The code of the problem that it answered, if it is one."""
        if self.what != "invoke" or self.ended != "exit 0" or self.answer["statusCode"] < 400:
            return None
        code: str = json.loads(self.answer["body"])["type"].rpartition(":")[2]
        return code


@dataclass
class Forks:
    """The process that forks, and the folder with the journals and the clock."""

    parent: subprocess.Popen[str]
    folder: Path
    _journals: int = 0

    def start(self, what: str, order: dict[str, Any], stop: Stop | None) -> Run:
        """Have a fork carry out an order; it has ended, or is stopped, when this returns."""
        self._journals += 1
        journal = self.folder / f"{self._journals}.journal"
        whole = {**order, "continue": 0, "journal": str(journal), "stop": stop and asdict(stop)}
        return self._ordered(what, journal, whole)

    def resume(self, stopped: Run) -> Run:
        """Let a fork that is stopped go on to its end; only what it does from then on."""
        run = self._ordered(stopped.what, stopped.journal, {"continue": stopped.pid})
        return replace(run, events=run.events[len(stopped.events) :])

    def set_clock(self, ahead_ms: int) -> None:
        """From now on it is so much later, for every process, than in reality."""
        clock_file(self.folder).write_text(str(ahead_ms))

    def advance_clock(self, by_ms: int) -> None:
        """From now on it is so much later than it was."""
        self.set_clock(int(clock_file(self.folder).read_text()) + by_ms)

    def _ordered(self, what: str, journal: Path, order: dict[str, Any]) -> Run:
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        self.parent.stdin.write(json.dumps(order) + "\n")
        self.parent.stdin.flush()
        reply = json.loads(self.parent.stdout.readline())
        events = [json.loads(line) for line in journal.read_text().splitlines()]
        return Run(what, reply["pid"], reply["ended"], journal, tuple(events))


@contextlib.contextmanager
def running_forks(module: str, folder: Path, environment: Mapping[str, str]) -> Iterator[Forks]:
    """The process of `module`, which ends with the block, and what is stopped in it as well."""
    clock = {"CLOCK_FILE": str(clock_file(folder))}
    # A group of its own, so that what is stopped in it ends as well.
    with subprocess.Popen(
        [sys.executable, "-m", module],
        cwd=ROOT,
        env={**environment, **clock},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Forks(process, folder)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def clock_file(folder: Path) -> Path:
    """The file that says how much later it is than in reality."""
    return folder / "clock"


@contextlib.contextmanager
def running_store() -> Iterator[str]:
    """The URL of a local store, which ends with the block, or with this process."""
    command = [sys.executable, "-m", "oncekey_local.child", str(os.getpid())]
    command += ["oncekey_local.store.store", "--port", "0"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(READY), line
        try:
            yield line.removeprefix(READY).strip()
        finally:
            process.kill()


def connection(store_url: str) -> dict[str, Any]:
    """What a client of boto3's needs to reach the local store."""
    return {
        "endpoint_url": store_url,
        "region_name": REGION,
        "aws_access_key_id": "local",
        "aws_secret_access_key": "local",
        "config": Config(retries={"total_max_attempts": 1}),
    }
