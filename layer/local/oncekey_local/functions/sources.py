"""The Python files of a project, and which of them have changed since the last look."""

from __future__ import annotations

import os
from importlib.util import cache_from_source
from pathlib import Path

# Folders with no code of the functions.
_OTHERS = frozenset({"__pycache__", "cdk.out", "node_modules", "tests"})
Stamps = dict[str, tuple[int, int]]


class Sources:
    """The files below `root`, without tests, hidden folders and virtual environments."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._seen = _stamps(root)

    def changed(self) -> set[str]:
        """The files that are new, changed or gone since the last call."""
        now = _stamps(self._root)
        changed = {path for path in {*now, *self._seen} if now.get(path) != self._seen.get(path)}
        self._seen = now
        for path in changed:
            # Python compares its compiled copy by size and by the second of the change only.
            Path(cache_from_source(path)).unlink(missing_ok=True)
        return changed


def _stamps(folder: str) -> Stamps:
    stamps: Stamps = {}
    try:
        entries = [*os.scandir(folder)]
    except OSError:  # removed meanwhile
        return stamps
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return stamps
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in _OTHERS:
                    stamps |= _stamps(entry.path)
            elif entry.name.endswith(".py"):
                status = entry.stat()
                stamps[entry.path] = (status.st_mtime_ns, status.st_size)
        except OSError:
            continue
    return stamps
