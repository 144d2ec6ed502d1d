"""The folder of what is made once and kept: layers, tools, and environments of their own."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".bundles"


def publish(made: Path, folder: Path) -> None:
    """Give a finished folder its name; whoever was first with the same content has done so."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
