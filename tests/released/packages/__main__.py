"""Keeps the present code as the package of the release in `pyproject.toml`."""

from __future__ import annotations

from tests.released.packages import FOLDER, pack
from tests.released.stories import VERSION

pack(FOLDER / f"{VERSION}.zip")
