"""What the mutation tool has found in each room, as it is kept between runs."""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.mutants.tool import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutants.operators import Fault

FOUND = Path(__file__).parent / "rooms.toml"


def found() -> dict[str, dict[str, object]]:
    """The rows by room."""
    return tomllib.loads(FOUND.read_text("utf-8")) if FOUND.exists() else {}


def last(room: str, possible: Sequence[Fault]) -> tuple[Result, list[Fault]]:
    """What the room's last run found, without its survivors, and these.

    A survivor whose code is gone counts as not drawn.
    """
    kept: dict[str, Any] = found()[room]
    names = set(kept.pop("survivors"))
    faults = [fault for fault in possible if fault.name in names]
    kept["drawn"] -= len(names) - len(faults)
    return Result(room, **kept), faults


def keep(result: Result) -> None:
    """Keep the result of a run in place of the room's last one."""
    kept: dict[str, dict[str, object]] = found()
    kept[result.room] = asdict(result)
    lines = ["# Written by `make mutants`: what the mutation tool has found in each room."]
    for room, row in sorted(kept.items()):
        row.pop("room", None)
        lines += ["", f"[{json.dumps(room)}]"]
        for key, value in row.items():
            if isinstance(value, list):
                listed = [f"    {json.dumps(each)}," for each in sorted(value)]
                lines += [f"{key} = [", *listed, "]"]
            else:
                lines.append(f"{key} = {json.dumps(value)}")
    FOUND.write_text("\n".join(lines) + "\n", "utf-8")
