"""Where the CPU of oncekey goes in a case: by function, and by the package that asked for it."""

from __future__ import annotations

import cProfile
import io
import pstats
from collections import Counter
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING

from tests.benchmarks.cases import CASES
from tests.benchmarks.contest import contest
from tests.benchmarks.environment import in_fresh_process
from tests.benchmarks.measuring import timed
from tests.benchmarks.suite import source_of_replies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.benchmarks.contest import Contestant
    from tests.benchmarks.recording import Tapes
    from tests.benchmarks.transport import Source

    Function = tuple[str, int, str]
    # Calls, without recursion, own time, and time with what it calls.
    Numbers = tuple[int, int, float, float]
    Entries = Mapping[Function, tuple[int, int, float, float, Mapping[Function, Numbers]]]

_BLOCKS = 25
_PACKAGES = ("oncekey", "botocore", "boto3", "urllib3", "tests")
_OTHER = "other"


def profile(contestant: Contestant, source: Source, functions: int = 45) -> str:
    """The functions with most own time, and what each package takes of a call.

    A profiler slows calls of Python down more than those of C, so read shares, not times.
    """
    text = io.StringIO()
    stats = pstats.Stats(_profiled(contestant, source), stream=text)
    stats.sort_stats("tottime").print_stats(functions)
    shares = shares_of(stats.stats)  # type: ignore[attr-defined]
    lines = [f"{name:16} {share:6.1%}" for name, share in shares.items()]
    return "\n".join([text.getvalue().rstrip(), "by the package that asked for it:", *lines])


def shares(names: Sequence[str], tapes: Tapes, transport: str) -> dict[str, dict[str, float]]:
    """The share of each package in oncekey's calls of each case, on the stub."""
    return in_fresh_process(transport, _shares, names, tapes)


def _shares(names: Sequence[str], tapes: Tapes) -> dict[str, dict[str, float]]:
    found = {}
    with source_of_replies("stub") as source:
        for name in names:
            contestant = contest(CASES[name], tapes, source)["oncekey"]
            stats = pstats.Stats(_profiled(contestant, source))
            found[name] = shares_of(stats.stats)  # type: ignore[attr-defined]
    return found


def _profiled(contestant: Contestant, source: Source) -> cProfile.Profile:
    timed(contestant, source)
    profiler = cProfile.Profile()
    for _ in range(_BLOCKS):
        timed(contestant, source, profiler)
    return profiler


def shares_of(entries: Entries) -> dict[str, float]:
    """The share of each package in all own time.

    The time of C functions and of the standard library belongs to the packages that called them.
    """
    owners = _owners(entries)
    own: Counter[str] = Counter()
    for function, (_, _, own_s, _, _) in entries.items():
        for package, share in owners(function).items():
            own[package] += own_s * share  # type: ignore[assignment]  # a Counter adds any numbers
    whole = sum(own.values()) or 1
    return {package: own_s / whole for package, own_s in own.most_common()}


def _owners(entries: Entries) -> Callable[[Function], Mapping[str, float]]:
    under_way: set[Function] = set()

    @cache
    def owners(function: Function) -> Mapping[str, float]:
        parts = PurePath(function[0]).parts
        package = next((each for each in _PACKAGES if each in parts), None)
        if package is not None:
            return {package: 1.0}
        under_way.add(function)
        found: Counter[str] = Counter()
        for caller, (_, _, _, with_callees_s) in entries[function][4].items():
            # What calls itself belongs to those who called it first.
            if caller not in under_way:
                for name, share in owners(caller).items():
                    found[name] += with_callees_s * share  # type: ignore[assignment]
        under_way.discard(function)
        whole = sum(found.values())
        if not whole:
            return {_OTHER: 1.0}
        return {name: weight / whole for name, weight in found.items()}

    return owners
