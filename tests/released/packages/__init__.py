"""Earlier releases of the layer and of the reference service's functions, as they were deployed.

A rolling deployment has two releases at work on one table. `python -m tests.released.packages`
keeps the present code as the package of the release in `pyproject.toml`.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
# Until the first release: the code before pauses, metrics and traces came to record and message.
BEFORE_PAUSES = FOLDER / "2026-11-28.zip"


def unpack(package: Path, folder: Path) -> None:
    """Lay out a package's modules in `folder`, which a function then has first in its path."""
    with zipfile.ZipFile(package) as packed:
        packed.extractall(folder)


def pack(package: Path) -> None:
    """Keep the present code. The same code makes the same file."""
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, source in sorted(_modules()):
            packed.writestr(zipfile.ZipInfo(name), source.read_bytes(), zipfile.ZIP_DEFLATED)


def _modules() -> Iterator[tuple[str, Path]]:
    for base, room in ((ROOT / "layer" / "python", "oncekey"), (ROOT, "functions")):
        for source in (base / room).rglob("*.py"):
            yield source.relative_to(base).as_posix(), source
