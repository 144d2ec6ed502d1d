"""Whether what `cdk synth` has written is older than the project that it was made of."""

from __future__ import annotations

import os
from pathlib import Path

# Folders with no code of the functions.
_OTHERS = frozenset({"__pycache__", "cdk.out", "node_modules", "tests"})


def newer_source(assembly: Path, project: Path) -> Path | None:
    """A Python file of the project that was changed after the synthesis; None if none was.

    Tests, hidden folders and virtual environments do not count.
    """
    # The CDK writes it anew each time.
    manifest = assembly / "manifest.json"
    written_ns = manifest.stat().st_mtime_ns if manifest.is_file() else 0
    if not written_ns:
        return None
    for place, folders, files in os.walk(project):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = sorted(
            each for each in folders if each not in _OTHERS and not each.startswith(".")
        )
        for name in sorted(files):
            file = Path(place, name)
            if name.endswith(".py") and file.is_file() and file.stat().st_mtime_ns > written_ns:
                return file.relative_to(project)
    return None
