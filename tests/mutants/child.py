"""A forked process that carries a mutant, and what its tests say."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest

# A mutant may allocate without end. The machine must survive it.
_MORE_MEMORY_BYTES = 3 << 30
# Waiting costs no CPU time, so a mutant that waits for ever is ended by the wall clock.
_WALL_PER_CPU = 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant. `by` is the test that failed first, or how the process ended."""

    is_caught: bool
    by: str
    seconds: float = 0.0


class FirstFailure:
    """A pytest plugin that ends its process at the first failure, and tells the parent."""

    def __init__(self, told: Callable[[str], None]) -> None:
        self._told = told

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The first test that fails is the last."""
        if report.failed:
            self._told(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that cannot be imported fails, too."""
        if report.failed:
            self._told(f"{report.nodeid} (import)")

    def pytest_internalerror(self, excrepr: object) -> None:
        """Pytest itself was ended."""
        self._told("pytest (internal error)")


def forked(run: Callable[[Callable[[str], None]], object], *, cpu_s: float) -> Verdict:
    """Run `run` in a fork. It calls its argument with the name of the test that fails."""
    began = time.monotonic()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _in_child(run, writer, cpu_s)
    os.close(writer)
    text = _read_until(reader, pid, began + 10 + cpu_s * _WALL_PER_CPU)
    _, status = os.waitpid(pid, 0)
    seconds = time.monotonic() - began
    if text:
        by = json.loads(text)
        return Verdict(is_caught=bool(by), by=by, seconds=seconds)
    ended = os.waitstatus_to_exitcode(status)
    slow = {-signal.SIGXCPU, -signal.SIGKILL}
    by = "no end (stopped by the time limit)" if ended in slow else f"the process died ({ended})"
    return Verdict(is_caught=True, by=by, seconds=seconds)


def _in_child(run: Callable[[Callable[[str], None]], object], writer: int, cpu_s: float) -> None:
    def tell(by: str) -> None:
        os.write(writer, json.dumps(by).encode())
        os._exit(0)

    try:
        os.setpgid(0, 0)
        limit = int(cpu_s) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        size = _memory_bytes() + _MORE_MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        nothing = os.open(os.devnull, os.O_RDWR)
        for each in (0, 1, 2):
            os.dup2(nothing, each)
        run(tell)
        tell("")
    except BaseException as error:  # noqa: BLE001 -- whatever ends the child is told, and nothing of it returns
        tell(f"the process raised {type(error).__name__}")
    finally:
        os._exit(1)


def _memory_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 -- after a fork, with as little as possible
        return int(file.read().split()[0]) * resource.getpagesize()


def _read_until(reader: int, pid: int, until: float) -> str:
    """What the child says, until it closes its end. It is killed if it takes too long."""
    text = b""
    with os.fdopen(reader, "rb", buffering=0) as file:
        while True:
            ready, _, _ = select.select([file], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                os.killpg(pid, signal.SIGKILL)
                return ""
            more = file.read(4096)
            if not more:
                return text.decode()
            text += more


def options(*more: str, marked: str = "not proof") -> list[str]:
    """The options of pytest in these processes: nothing is printed, and nothing is kept."""
    return [
        *("-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:faulthandler"),
        *("-o", "addopts=", "--import-mode=importlib", "-m", marked),
        *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
        *more,
    ]


def run_items(session: pytest.Session, items: Iterable[pytest.Item]) -> None:
    """Run `items`, as pytest's own loop does."""
    listed = list(items)
    for number, item in enumerate(listed):
        following: Any = listed[number + 1] if number + 1 < len(listed) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    sys.stdout.flush()
