"""How the processes of a run share the tests: by file, the long ones first.

A long test that begins last keeps one process busy while the other has nothing left to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

if TYPE_CHECKING:
    import pytest

# Tests that take long and have little in common: each of them goes to the next free process.
_EACH_ALONE = (
    "tests/simulation/",
    "tests/reconciler/test_cost.py",
    "tests/store/test_store_contract.py",
    "tests/e2e/test_golden_kills.py",
    "tests/e2e/test_golden_races.py",
    "tests/e2e/test_kills_at_every_call.py",
    "tests/e2e/test_async_kills.py",
    "tests/e2e/test_three_steps_killed.py",
    "tests/effects/test_steps_interrupted.py",
)
_LONG = (*_EACH_ALONE, "tests/e2e/", "tests/local/", "tests/infra/", "tests/benchmarks/")


def in_order(items: list[pytest.Item]) -> None:
    """The long ones first, else in the order in which they were collected."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of a file go to one process, in the order of the collection."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(_EACH_ALONE) else str(super()._split_scope(nodeid))
