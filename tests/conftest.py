"""What every test runs with: made-up credentials, and none of the machine's settings."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from oncekey.settlement import resolvers
from tests.support.garbage import collect_garbage
from tests.support.sharing import ByFile, begin_elsewhere, in_order, others_proofs, unlisted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.recorded import World

# How long an example takes is the machine's affair; a slow one is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """All temporary files of a run are in one folder, which the run removes at its end.

    The CDK, killed processes and servers leave theirs behind.
    """
    if (given := getattr(config, "workerinput", None)) is not None:
        # This process shares the tests with others, and has inherited their folder.
        begin_elsewhere(config, int(given["workerid"].removeprefix("gw")), given["workercount"])
        return
    folder = tempfile.mkdtemp(prefix="oncekey-tests-")
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    """See `sharing`."""
    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collectstart() -> None:
    """The garbage collector passes over the tests that are collected already."""
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every process collects the same names: without that no two can share the tests."""
    if hasattr(config, "workerinput"):
        in_order(items)
    left_out = others_proofs(items)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    if files := unlisted(items):
        raise pytest.UsageError(f"name these files in _ONE_SERVICE of support/sharing.py: {files}")
    unstable = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unstable:
        raise pytest.UsageError(f"an address in a test's name; use ids=stable_repr: {unstable}")


def pytest_collection_finish() -> None:
    """The garbage collector passes over what is loaded by now, and comes less often.

    It took a quarter of the time of the tests: boto3, moto and all the tests are many objects.
    """
    collect_garbage()
    gc.set_threshold(10_000, 10, 10)


@pytest.fixture(autouse=True)
def made_up_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No real account can be reached, and no setting of the machine changes a result."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "ONCEKEY_")) and name != "ONCEKEY_SIMULATION_SEED":
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)


@pytest.fixture(autouse=True)
def resolvers_end_with_their_test() -> Iterator[None]:
    """A resolver that a test declares is not asked in another; a module's stays, as it does."""
    before = set(resolvers._resolvers)
    yield
    for name, resolver in list(resolvers._resolvers.items()):
        if name not in before and "<locals>" in resolver.__qualname__:
            del resolvers._resolvers[name]


@pytest.fixture(autouse=True)
def servers_end_with_their_test() -> Iterator[None]:
    """A server whose socket is closed and whose loop is not ended takes a processor for itself."""
    before = _serving()
    yield
    left = _serving() - before
    assert not left, f"a server still runs: call shutdown() in a finally: {left}"


def _serving() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if "serve_forever" in each.name}


@pytest.fixture
def garbage_collected() -> Iterator[None]:
    """What a test leaves behind is collected under its own filter of warnings, and no other's."""
    yield
    collect_garbage()


@pytest.fixture
def no_resolvers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No resolvers of other tests are declared, and none of this test's are left behind."""
    monkeypatch.setattr("oncekey.settlement.resolvers._resolvers", {})


@pytest.fixture
def world() -> Iterator[World]:
    """Tables of its own for each test, on moto."""
    # Moto is loaded for the tests that need it alone.
    from tests.support.recorded import recorded_world

    with recorded_world() as made:
        yield made
