"""An exception that comes at a chosen point of our own code, as a signal's handler raises one."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import oncekey
from oncekey.effects.running import _around

if TYPE_CHECKING:
    from types import FrameType

_PACKAGE = str(Path(oncekey.__file__).parent)
# The store in memory stands for DynamoDB, which no signal of ours reaches.
_STORE = str(Path(_PACKAGE) / "testing" / "memory.py")


@dataclass
class Interrupting:
    """Raises `error` at the point with this number, of those that the block comes to in oncekey.

    A point is the beginning of a line. `points` counts them, and `where` says which one it was.
    """

    at: int | None = None
    error: BaseException | None = None
    points: int = 0
    where: str = ""
    _before: Any = None

    def __enter__(self) -> Interrupting:
        self._before = sys.gettrace()
        sys.settrace(self._entered)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
        # What is interrupted while it tidies up leaves what it said of the call that is over.
        _around.set(())

    def _entered(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        return self._inside if _is_ours(frame) else None

    def _inside(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line":
            self.points += 1
            if self.error is not None and self.points - 1 == self.at:
                code = frame.f_code
                self.where = f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}"
                raise self.error
        return self._inside


def _is_ours(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return path.startswith(_PACKAGE) and path != _STORE
