"""A function whose module fails on import, unless a file says otherwise."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

# A file with one letter for each process that is killed as it starts.
_LOST = Path(os.environ.get("LOSE_WHEN", "no such file"))

if _LOST.exists() and (left := _LOST.read_text()):
    _LOST.write_text(left[1:])
    os.kill(os.getpid(), signal.SIGKILL)
if "BREAK_WHEN" not in os.environ or Path(os.environ["BREAK_WHEN"]).exists():
    raise RuntimeError("this module fails on import")


def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Answers, or ends its process when it has been broken since it started."""
    if Path(os.environ["BREAK_WHEN"]).exists() or (_LOST.exists() and _LOST.read_text()):
        os._exit(1)
    return {"statusCode": 200, "body": str(os.getpid())}
