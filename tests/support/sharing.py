"""How the processes of a run share the tests: by file or by service, the long ones first.

A long test that begins last keeps one process busy while the other has nothing left to do.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

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
# The files that use one running service, or the apps that the CDK synthesises, go to one process.
# The key is the file that starts the service, or the CDK's node.
_ONE_SERVICE = {
    "tests/infra/conftest.py": ("tests/infra/",),
    "tests/e2e/conftest.py": tuple(
        f"tests/e2e/test_{name}.py"
        for name in ("bad_input", "crashes", "operating", "reports", "webhooks")
    ),
    "tests/local/conftest.py": tuple(
        f"tests/local/test_{name}.py"
        for name in ("dev_malformed", "dev_requests", "first_steps", "openapi")
    ),
}
# What goes to one process and takes longest comes first.
_LONG = ("tests/infra/", "tests/e2e/", "tests/local/", "tests/benchmarks/", *_EACH_ALONE)


def begin_elsewhere(config: pytest.Config, number: int, processes: int) -> None:
    """Let each process begin the collection with another folder.

    A process that meets a test file for the first time compiles it, for all of them. That takes
    three times as long as the rest of the collection.
    """
    tests = config.rootpath / "tests"
    if [Path(each).absolute() for each in config.args] == [tests]:
        rooms = sorted(str(each) for each in tests.iterdir() if each.is_dir())
        first = len(rooms) * number // processes
        config.args[:] = [*rooms[first:], *rooms[:first]]


def in_order(items: list[pytest.Item]) -> None:
    """The long ones first, the files by their names, the tests of a file as they stand there."""
    items.sort(key=lambda item: (_place(item.nodeid), item.nodeid.partition("::")[0]))


def _place(nodeid: str) -> int:
    return next((at for at, long in enumerate(_LONG) if nodeid.startswith(long)), len(_LONG))


def others_proofs(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests of `make proof` that this run leaves to other runs.

    `PROOF_TURN` is the number of the turn, and of how many: with 1/3, 2/3 and 3/3 each of them runs
    once. What has a file's expensive beginning in common stays together. Without it, nothing is
    left out.
    """
    turn = os.environ.get("PROOF_TURN")
    if turn is None:
        return []
    number, _, turns = turn.partition("/")
    if not (number.isdecimal() and turns.isdecimal() and 1 <= int(number) <= int(turns)):
        raise pytest.UsageError(f"PROOF_TURN is {turn!r}, and must be as 1/3, 2/3 or 3/3")
    proofs = [item for item in items if item.get_closest_marker("proof")]
    groups = list(dict.fromkeys(_together(item.nodeid) for item in proofs))
    taken = set(groups[int(number) - 1 :: int(turns)])
    return [item for item in proofs if _together(item.nodeid) not in taken]


def unlisted(items: list[pytest.Item]) -> list[str]:
    """The files that use a running service, and of which `_ONE_SERVICE` does not know.

    A second process that got one of them would start a second service.
    """
    return sorted(
        {
            item.nodeid.partition("::")[0]
            for item in items
            for service, users in _ONE_SERVICE.items()
            if _starts(item, service) and not item.nodeid.startswith(users)
        }
    )


def _starts(item: pytest.Item, service: str) -> bool:
    fixtures = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009 -- pytest's own
    return any(
        each[-1].scope == "session" and f"{each[-1].baseid}/conftest.py" == service
        for each in fixtures
    )


def _together(nodeid: str) -> str:
    for service, users in _ONE_SERVICE.items():
        if nodeid.startswith(users):
            return service
    return nodeid if nodeid.startswith(_EACH_ALONE) else nodeid.partition("::")[0]


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of a file go to one process, in the order of the collection."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return _together(nodeid)
