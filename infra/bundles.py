"""The cache folder for layers, tools and separate environments."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".bundles"


def publish(made: Path, folder: Path) -> None:
    """Give a finished folder its name, unless another run has done so with the same content."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
