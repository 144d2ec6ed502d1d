"""The run of the registry: every weakening is shown to its tests until one of them fails."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants import registry
from tests.mutants.processes import Warm, cold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pytest

    from tests.mutants.child import Verdict
    from tests.mutants.registry import Weakening

# Which test has caught each weakening. It is shown it first, and the page names it.
CAUGHT = Path(__file__).parent / "caught.toml"
# No weakening needs longer, whatever tests it is shown.
_MOST_CPU_S = 400


def caught() -> dict[str, dict[str, str]]:
    """The test that caught each weakening, by area and name, as it was found last."""
    if not CAUGHT.exists():
        return {}
    return tomllib.loads(CAUGHT.read_text("utf-8"))


def write_caught(found: dict[str, dict[str, str]]) -> None:
    """Write them, in the registry's order. What is in the registry no more is left out."""
    areas: dict[str, list[str]] = {}
    for each in registry.everything():
        areas.setdefault(each.area, [])
        by = found.get(each.area, {}).get(each.name)
        if by:
            areas[each.area].append(f"{each.name} = {json.dumps(by)}")
    head = "# Written by `make mutants`: the test that caught each weakening of the registry.\n"
    tables = (f"\n[{area}]\n" + "\n".join(lines) + "\n" for area, lines in areas.items())
    # In one step, since another process may read it now.
    written = CAUGHT.with_suffix(f".{os.getpid()}")
    written.write_text(head + "".join(tables), "utf-8")
    written.replace(CAUGHT)


def show(
    weakenings: Sequence[Weakening], process: Warm, say: Callable[[str], None]
) -> list[Weakening]:
    """Show them all. Returns those that no test has caught."""
    survivors: list[Weakening] = []
    for each in weakenings:
        before = caught().get(each.area, {}).get(each.name, "")
        verdict = _met(each, before, process)
        # Another process may show another area meanwhile.
        known = caught()
        if verdict.is_caught:
            known.setdefault(each.area, {})[each.name] = verdict.by
            say(f"caught   {verdict.seconds:5.1f} s  {each.area}/{each.name}  by {verdict.by}")
        else:
            known.get(each.area, {}).pop(each.name, None)
            survivors.append(each)
            say(f"SURVIVED {verdict.seconds:5.1f} s  {each.area}/{each.name}  {each.weakens}")
        write_caught(known)
    return survivors


def _met(each: Weakening, before: str, process: Warm) -> Verdict:
    first = (before,) if before in process.items else ()
    mutant = each.mutant(*first)
    tests = in_turn(each, process.named(mutant.tests), first)
    verdict = process.meet(mutant, tests, cpu_s=_MOST_CPU_S)
    if verdict is not None:
        return verdict
    if first:
        verdict = cold(each.mutant_of(first), cpu_s=_MOST_CPU_S, marked="")
        if verdict.is_caught:
            return verdict
    return cold(each.mutant_of(tests), cpu_s=_MOST_CPU_S, marked="")


def in_turn(each: Weakening, items: Iterable[pytest.Item], first: Sequence[str]) -> list[str]:
    """The ids of `items`, what is known to catch first and what takes long last.

    A condition is shown first to the tests that write its own transition, and of these first to
    those whose record has another value of what the weakening ignores.
    """
    names = set(each.name.split("-"))
    others = [f"other {name}" for name in ("owner", "rev") if f"#{name} " in each.weakens]

    def rank(item: pytest.Item) -> tuple[bool, int, bool, bool]:
        params = getattr(getattr(item, "callspec", None), "params", {})
        written = re.findall("[A-Z][a-z]*", type(params.get("transition")).__name__)
        is_its_own = names.issuperset(word.lower() for word in written)
        return (
            item.nodeid not in first,
            -len(written) if is_its_own else 0,
            not all(other in item.nodeid for other in others),
            item.get_closest_marker("proof") is not None,
        )

    return [item.nodeid for item in sorted(items, key=rank)]


def tests_of(weakenings: Sequence[Weakening]) -> list[str]:
    """The folders and files of their tests, and of those that have caught them."""
    known = caught()
    tests = {test for each in weakenings for test in each.tests}
    catchers = {known.get(each.area, {}).get(each.name, "") for each in weakenings}
    tests |= {by.partition("::")[0] for by in catchers if "::" in by}
    inside = {test for test in tests for other in tests if test.startswith(f"{other}/")}
    return sorted(tests - inside)
