"""Any number of random schedules: `make simulate SEEDS=...`.

    python -m tests.simulation.simulate --seeds 100000 [--first SEED] [--processes 2] [--log FILE]
    python -m tests.simulation.simulate --replay SEED
    python -m tests.simulation.simulate --sum FILE

Every eighth seed draws a whole service, the others a world of one record. With a log, a run goes on
after the seeds that the log has, and each line of it is the figures of a range of seeds, so that
the figures of several runs add up.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.simulation.asked import declare_resolvers
from tests.simulation.scenario import FAULTS
from tests.simulation.swarm import RECORDS
from tests.simulation.swarm_of_services import SERVICES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.simulation.swarm import Swarm

_EVERY = 8
# So many seeds are one task of a process, and one line of a log.
_TASK = 1_000
# Then a process ends, and leaves to the system what it has not freed: 30 MB for each task.
_TASKS_OF_A_PROCESS = 10
_COMMAND = "python -m tests.simulation.simulate --replay"


def swarm_of(seed: int) -> Swarm:
    """Which kind of world the seed draws."""
    return RECORDS if seed % _EVERY else SERVICES


def figures_of(seeds: range) -> dict[str, Any]:
    """Run the schedules of these seeds, and count."""
    moves: Counter[str] = Counter()
    failed: list[int] = []
    began_s = time.process_time()
    for seed in seeds:
        _, schedule, violation = swarm_of(seed).run(seed)
        moves.update(move.kind for move in schedule)
        if violation is not None:
            failed.append(seed)
    return {
        "first": seeds.start,
        "last": seeds.stop - 1,
        "schedules": len(seeds),
        "services": len(range(-(-seeds.start // _EVERY) * _EVERY, seeds.stop, _EVERY)),
        "moves": moves.total(),
        "faults": {kind: moves[kind] for kind in FAULTS},
        "failed": failed,
        "cpu_s": round(time.process_time() - began_s, 1),
    }


def added(figures: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The figures of several ranges of seeds, together."""
    faults: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    failed: list[int] = []
    for each in figures:
        faults.update(each["faults"])
        whole.update({name: each[name] for name in ("schedules", "services", "moves", "cpu_s")})
        failed += each["failed"]
    return {**whole, "faults": dict(faults), "failed": failed}


def told(figures: dict[str, Any], took_s: float | None = None) -> str:
    """The figures, for people."""
    if not figures.get("schedules"):
        return "no schedules"
    rate = figures["schedules"] / max(took_s or figures["cpu_s"], 0.001)
    unit = "a second" if took_s else "a second of one core"
    faults = ", ".join(f"{kind} {count}" for kind, count in figures["faults"].items() if count)
    services = f"({figures['services']} of whole services)"
    lines = [
        f"{figures['schedules']} schedules {services}: {rate:.0f} {unit}",
        f"moves: {figures['moves']}",
        f"faults injected: {sum(figures['faults'].values())} ({faults})",
        f"violations: {len(figures['failed'])}",
    ]
    lines += [f"replay it with: {_COMMAND} {seed}" for seed in figures["failed"][:10]]
    return "\n".join(lines)


def replayed(seed: int) -> str:
    """The shortest story of what goes wrong with this seed, or that nothing does."""
    found = swarm_of(seed).search([seed])
    return f"seed {seed}: no rule is broken" if found is None else str(found[1])


def _begin() -> None:
    declare_resolvers()
    # The collector would take an eighth of the time.
    gc.disable()


def _tasks(first: int, number: int) -> Iterator[range]:
    for start in range(first, first + number, _TASK):
        yield range(start, min(start + _TASK, first + number))


def _logged(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 -- it is a command


def simulate(options: argparse.Namespace) -> int:
    """Run the schedules, and say what they came to; 1 if a rule was broken."""
    known = _logged(options.log) if options.log else []
    first = options.first
    if first is None and known:
        first = max(each["last"] for each in known) + 1
    elif first is None:
        first = random.SystemRandom().randrange(2**32)  # noqa: TID251 -- printed, so that it can be given
    _say(f"seeds {first} to {first + options.seeds - 1}")
    began_s, found = time.monotonic(), []
    with multiprocessing.get_context("fork").Pool(
        options.processes, _begin, maxtasksperchild=_TASKS_OF_A_PROCESS
    ) as pool:
        for figures in pool.imap(figures_of, _tasks(first, options.seeds)):
            found.append(figures)
            if options.log:
                with options.log.open("a", encoding="utf-8") as log:
                    log.write(json.dumps(figures) + "\n")
    whole = added(found)
    _say(told(whole, time.monotonic() - began_s))
    return 1 if whole["failed"] else 0


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.simulate")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many")
    parser.add_argument("--first", type=int, help="the first of them; by default a random one")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--log", type=Path, help="adds the figures to it, and goes on after it")
    parser.add_argument("--replay", type=int, metavar="SEED", help="tell what happens with it")
    parser.add_argument("--sum", type=Path, metavar="FILE", help="the figures of a log together")
    options = parser.parse_args(arguments)
    if options.sum:
        _say(told(added(_logged(options.sum))))
        return 0
    if options.replay is not None:
        declare_resolvers()
        _say(replayed(options.replay))
        return 0
    return simulate(options)


if __name__ == "__main__":
    sys.exit(main())
