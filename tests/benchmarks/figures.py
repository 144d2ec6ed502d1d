"""Everything that a run has measured, and where."""

from __future__ import annotations

import datetime as dt
import os
import platform
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.benchmarks.batches import Throughput
    from tests.benchmarks.cold import ColdStarts
    from tests.benchmarks.load import Load
    from tests.benchmarks.measuring import Times
    from tests.benchmarks.suite import Costs

PACKAGES = ("aws-lambda-powertools", "boto3", "botocore", "urllib3")


@dataclass(frozen=True)
class Figures:
    """The figures of one run.

    Args:
        where: the machine, the day, the rounds and the versions, by what they are.
        costs: what a call sends and pays for, by case and contender.
        times: by oncekey's transport and by what the requests went over; then by case.
        cold: by oncekey's transport, and whether the server has TLS.
        shares: of packages in oncekey's own CPU, by transport and case.
        batches: the throughput of the functions that work in batches, by name.
        loads: the contenders in many threads and over many calls.
    """

    where: Mapping[str, str]
    costs: Mapping[str, Mapping[str, Costs]] = field(default_factory=dict)
    times: Mapping[tuple[str, str], Mapping[str, Times]] = field(default_factory=dict)
    cold: Mapping[tuple[str, bool], ColdStarts] = field(default_factory=dict)
    shares: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    batches: Mapping[str, Throughput] = field(default_factory=dict)
    loads: Mapping[str, Load] = field(default_factory=dict)


def where(rounds: int) -> dict[str, str]:
    """This machine, today, the number of rounds, and the versions of what is compared."""
    today = dt.datetime.now(dt.UTC).date()
    return {
        "Date": today.isoformat(),
        "Machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "Load while this was written": f"{os.getloadavg()[0]:.1f}",
        "Rounds": str(rounds),
        "Python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
