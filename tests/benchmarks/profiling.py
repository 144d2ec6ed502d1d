"""Where the CPU of oncekey goes in a case, by function and by package."""

from __future__ import annotations

import cProfile
import io
import pstats
from pathlib import PurePath
from typing import TYPE_CHECKING

from tests.benchmarks.measuring import timed

if TYPE_CHECKING:
    from tests.benchmarks.bouts import Bout
    from tests.benchmarks.transport import Source

_BLOCKS = 25
_PACKAGES = ("oncekey", "botocore", "boto3", "urllib3", "tests")


def profile(bout: Bout, source: Source, functions: int = 45) -> str:
    """The functions with most own time, and the own time of each package, a call."""
    timed(bout, source)
    profiler = cProfile.Profile()
    for _ in range(_BLOCKS):
        timed(bout, source, profiler)
    text = io.StringIO()
    stats = pstats.Stats(profiler, stream=text)
    stats.sort_stats("tottime").print_stats(functions)
    calls = _BLOCKS * len(bout.calls)
    own: dict[str, float] = {}
    entries: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = stats.stats  # type: ignore[attr-defined]
    for (file, _, _), (_, _, own_s, _, _) in entries.items():
        package = next((p for p in _PACKAGES if p in PurePath(file).parts), "others and C")
        own[package] = own.get(package, 0) + own_s
    lines = [f"{each:14} {1e6 * own[each] / calls:7.1f} us a call" for each in sorted(own)]
    return "\n".join([text.getvalue().rstrip(), "own time under the profiler:", *lines])
