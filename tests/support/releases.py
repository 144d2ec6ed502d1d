"""Two releases of the layer on one table: each process of a function is of the one or the other."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from tests.released.packages import BEFORE_PAUSES, ROOT, unpack

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EARLIER, PRESENT = "earlier", "present"
# Python runs this before all else. Each process says which release it is of, and stays with that:
# what it imports later must not come from the release that is current by then.
_SAYS_WHICH = """
import sys
with open({said!r}, "a") as said:
    print({release!r}, file=said)
sys.path[:] = [{folder!r} if path == {current!r} else path for path in sys.path]
"""


class Releases:
    """An earlier release beside the present code. A process started later is of the current one."""

    def __init__(self, folder: Path) -> None:
        self._said = folder / "said"
        self._current = folder / "current"
        self._folder = folder
        unpack(BEFORE_PAUSES, folder / EARLIER)
        for release in (EARLIER, PRESENT):
            (folder / release).mkdir(exist_ok=True)
            text = _SAYS_WHICH.format(
                said=str(self._said),
                release=release,
                folder=str(folder / release),
                current=str(self._current),
            )
            (folder / release / "sitecustomize.py").write_text(text, "utf-8")
        self.current = PRESENT
        self.roll_to(EARLIER)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of functions that start with the current release."""
        return {"PYTHONPATH": f"{self._current}{os.pathsep}{ROOT}", "PYTHONSAFEPATH": "1"}

    def roll_to(self, release: str) -> None:
        """Functions that start from now on are of this release."""
        link = self._folder / "next"
        link.symlink_to(self._folder / release)
        link.replace(self._current)
        self.current = release

    def roll(self) -> None:
        """Forward or back."""
        self.roll_to(PRESENT if self.current == EARLIER else EARLIER)

    def started(self) -> Counter[str]:
        """How many processes of each release there were."""
        return Counter(self._said.read_text("utf-8").split())
