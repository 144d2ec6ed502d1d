"""The two kinds of processes in which the tests meet a mutant.

A warm one has imported the layer and collected the tests. It forks for each mutant, and changes
the code of the functions concerned: a mutant costs little more than its tests. A cold one is a
fork that forgets the layer and the tests and imports them anew, for mutants of what runs when a
module is imported.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from tests.mutants.child import FirstFailure, Verdict, forked, options, run_items
from tests.mutants.mutant import ROOT, Mutant, install, patch_loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# What most tests import and no mutant changes.
_HEAVY = ("boto3", "botocore.session", "hypothesis", "moto", "moto.dynamodb", "pydantic")


def import_what_is_heavy() -> None:
    """Import it once, before the forks."""
    for name in _HEAVY:
        importlib.import_module(name)


def _forget_the_project() -> None:
    """The layer and its tests are imported anew by whoever needs them next."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        is_ours = file.startswith(f"{ROOT}/") and not file.startswith(f"{ROOT}/.venv/")
        if is_ours and not name.startswith("tests.mutants"):
            del sys.modules[name]


def cold(mutant: Mutant, *, cpu_s: float, marked: str = "not proof") -> Verdict:
    """Run the mutant's tests in a fork that imports the layer with the mutant in it."""

    def run(tell: Callable[[str], None]) -> None:
        _forget_the_project()
        install(mutant)
        # Before pytest, which would otherwise load the layer itself, to rewrite its assertions.
        importlib.import_module(mutant.module)
        status = pytest.main([*options(marked=marked), *mutant.tests], plugins=[FirstFailure(tell)])
        if status is not pytest.ExitCode.OK:
            tell(f"pytest ({status!r})")

    return forked(run, cpu_s=cpu_s)


class Warm:
    """A pytest plugin: after the collection, `work` runs in place of the tests.

    `items` are the collected tests by their ids.
    """

    def __init__(self, work: Callable[[Warm], None]) -> None:
        self._work = work
        self._session: pytest.Session | None = None
        self.items: dict[str, pytest.Item] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """The work, in place of pytest's own loop."""
        if session.testsfailed:
            raise session.Interrupted("a module of tests cannot be imported")
        self._session = session
        self.items = {item.nodeid: item for item in session.items}
        self._work(self)
        return True

    def named(self, tests: Iterable[str]) -> list[pytest.Item]:
        """The items of `tests`, each the id of one or the beginning of several."""
        found: dict[str, pytest.Item] = {}
        for test in tests:
            if test in self.items:
                found[test] = self.items[test]
            else:
                found.update({n: item for n, item in self.items.items() if _begins(n, test)})
        return list(found.values())

    def meet(self, mutant: Mutant, tests: Sequence[str], *, cpu_s: float) -> Verdict | None:
        """Run `tests` in a fork with the mutant. None if it needs a cold process."""
        session, items = self._session, self.named(tests)
        assert session is not None
        plugins = session.config.pluginmanager

        def run(tell: Callable[[str], None]) -> None:
            plugins.register(FirstFailure(tell))
            install(mutant)
            if not patch_loaded(mutant):
                tell(_NEEDS_A_NEW_IMPORT)
            run_items(session, items)

        verdict = forked(run, cpu_s=cpu_s)
        return None if verdict.by == _NEEDS_A_NEW_IMPORT else verdict


_NEEDS_A_NEW_IMPORT = "needs a new import"


def _begins(nodeid: str, test: str) -> bool:
    """Whether `test` is the folder, the file or the function that `nodeid` is in."""
    return nodeid.startswith(test) and nodeid[len(test) : len(test) + 1] in {"/", ":", "["}


def warm(tests: Sequence[str], work: Callable[[Warm], None], *, marked: str = "not proof") -> None:
    """Collect `tests` in this process and call `work`."""
    status = pytest.main([*options(marked=marked), *tests], plugins=[Warm(work)])
    if status is not pytest.ExitCode.OK:
        raise SystemExit(f"pytest ended with {status!r} while it collected {' '.join(tests)}")
