"""A function whose module fails on import, unless a file says otherwise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

if "BREAK_WHEN" not in os.environ or Path(os.environ["BREAK_WHEN"]).exists():
    raise RuntimeError("this module fails on import")


def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Answers, or ends its process when it has been broken since it started."""
    if Path(os.environ["BREAK_WHEN"]).exists():
        os._exit(1)
    return {"statusCode": 200, "body": str(os.getpid())}
