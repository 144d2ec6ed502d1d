"""The file by which commands find the local runtime: `oncekey dev` writes it and removes it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# In the folder of the service, one file for each runtime.
FOLDER = ".oncekey"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRuntime:
    """A running `oncekey dev`.

    `variables` are the ONCEKEY_ variables of its functions, with the names of tables, queues and
    bucket as they are in its store. `pid` is its process. `reconciler_every_s` is how often the
    reconciler is called; 0 if no schedule calls it.
    """

    port: int
    pid: int
    url: str
    store_url: str
    region: str
    audit_table: str
    reconciler_every_s: float
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    def write(self, service: Path) -> Path:
        """Write the file into the service's folder, and return its path."""
        folder = service / FOLDER
        folder.mkdir(exist_ok=True)
        path = folder / f"dev-{self.port}.json"
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", "utf-8")
        return path


def running_in(service: Path) -> list[LocalRuntime]:
    """The local runtimes that run in the service's folder.

    The file of a runtime that was killed is still there: its process is looked for.
    """
    runtimes: list[LocalRuntime] = []
    for path in sorted((service / FOLDER).glob("dev-*.json")):
        try:
            runtime = LocalRuntime(**json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            continue  # being written or removed at this moment, or of another release
        if _is_alive(runtime.pid):
            runtimes.append(runtime)
    return runtimes


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # somebody else's
    return True
