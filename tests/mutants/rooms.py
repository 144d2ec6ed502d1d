"""What the mutation tool has found in each room, as it is kept between runs."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutants.tool import Result

FOUND = Path(__file__).parent / "rooms.toml"


def found() -> dict[str, dict[str, object]]:
    """The rows by room."""
    return tomllib.loads(FOUND.read_text("utf-8")) if FOUND.exists() else {}


def keep(result: Result, *, sample: int, seed: int, folders: Sequence[str]) -> None:
    """Keep the result of a run in place of the room's last one."""
    kept = found()
    kept[result.room] = {
        "possible": result.possible,
        "drawn": min(sample, result.possible),
        "seed": seed,
        "tests": ", ".join(folders),
        "equivalent": result.equivalent,
        "caught": result.caught,
        "survivors": sorted(result.survivors + result.untested),
    }
    lines = ["# Written by `make mutants`: what the mutation tool has found in each room."]
    for room, row in sorted(kept.items()):
        lines += ["", f"[{json.dumps(room)}]"]
        for key, value in row.items():
            if isinstance(value, list):
                lines += [f"{key} = [", *(f"    {json.dumps(each)}," for each in value), "]"]
            else:
                lines.append(f"{key} = {json.dumps(value)}")
    FOUND.write_text("\n".join(lines) + "\n", "utf-8")
