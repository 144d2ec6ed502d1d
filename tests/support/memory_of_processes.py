"""How much memory the processes of a running service hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey_local.dev_process import DevProcess

# They hold every item and every charge in memory, so they grow with what they are told.
_STORES = {"store", "provider"}


def memory_kb(dev: DevProcess) -> dict[tuple[str, int], int]:
    """The resident memory of `oncekey dev` and of each function's processes, by name and id."""
    processes = [("oncekey dev", dev.process.pid)]
    processes += [
        (str(each["function"]), int(each["pid"]))
        for each in dev.processes()
        if each["role"] not in _STORES
    ]
    return {process: _resident_kb(process[1]) for process in processes}


def grown(
    before_kb: Mapping[tuple[str, int], int], after_kb: Mapping[tuple[str, int], int]
) -> dict[str, int]:
    """By how much the largest growth of each name is, of those that were there both times."""
    most: Counter[str] = Counter()
    for process, kb in after_kb.items():
        if process in before_kb:
            most[process[0]] = max(most[process[0]], kb - before_kb[process])
    return dict(most)


def _resident_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith("VmRSS:")]
    return int(line.split()[1])
