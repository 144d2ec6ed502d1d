"""The plugin for pytest: it registers itself, loads nothing, and has fixtures for a handler."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import ConfigurationError, idempotent, jwt_claim
from oncekey.testing import ManualClock, MemoryStore, api_event

if TYPE_CHECKING:
    from oncekey.testing import UseStore

pytest_plugins = ["pytester"]

charges: list[str] = []


@idempotent(operation="POST /payments", tenant=jwt_claim("tenant_id"), effects="repeatable")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """A handler as it is deployed: its table is named by the environment."""
    charges.append(event["body"])
    return {"statusCode": 201, "body": "charged"}


EVENT = api_event("POST /payments", key="key-of-one-payment", body={}, claims={"tenant_id": "acme"})


@pytest.fixture(autouse=True)
def no_charges() -> None:
    """Nothing is charged yet."""
    charges.clear()


def test_it_registers_itself(request: pytest.FixtureRequest) -> None:
    """Whoever has installed oncekey and runs pytest has the fixtures."""
    (found,) = entry_points(group="pytest11", name="oncekey")

    assert found.value == "oncekey.testing.plugin"
    assert request.config.pluginmanager.hasplugin("oncekey")


def test_it_loads_nothing_until_a_fixture_is_asked_for() -> None:
    """Registering the plugin loads neither the store, nor moto, nor the AWS SDK."""
    loaded = "sorted(n for n in sys.modules if n.split('.')[0] in ('oncekey','moto','boto3'))"
    program = f"import sys, oncekey.testing.plugin; print(*{loaded})"

    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert told.stdout.split() == [
        "oncekey",
        "oncekey.lazy",
        "oncekey.testing",
        "oncekey.testing.plugin",
    ]


def test_a_handler_is_protected_by_a_store_in_memory(use_store: UseStore) -> None:
    """`use_store()` puts a new store in memory in use, and returns it."""
    store = use_store()

    handler(EVENT, None)
    again = handler(EVENT, None)

    assert again["headers"]["Idempotent-Replayed"] == "true"
    assert (len(charges), len(store.records)) == (1, 1)


def test_a_store_of_ones_own_is_in_use(use_store: UseStore) -> None:
    """A store that the test brings is returned as it is, and replaces an earlier one."""
    use_store()
    mine = MemoryStore()

    assert use_store(mine) is mine
    handler(EVENT, None)
    assert len(mine.records) == 1


def test_no_store_is_left_in_use() -> None:
    """The store of an earlier test is in use no longer."""
    with pytest.raises(ConfigurationError, match="ONCEKEY_TABLE is not set"):
        handler(EVENT, None)


@pytest.mark.parametrize("fixture", ["use_store", "dynamodb_tables"])
def test_the_clock_is_in_use_if_it_is_asked_for(
    request: pytest.FixtureRequest, clock: ManualClock, fixture: str
) -> None:
    """With `clock`, a test lets a record expire, in memory and on moto."""
    made = request.getfixturevalue(fixture)
    if fixture == "use_store":
        made()

    handler(EVENT, None)
    clock.advance(25 * 3_600_000)
    handler(EVENT, None)

    assert len(charges) == 2


def test_a_clock_may_be_given_to_the_store(use_store: UseStore) -> None:
    """A clock that is passed in is in use."""
    given = ManualClock()
    use_store(clock=given)

    handler(EVENT, None)
    given.advance(25 * 3_600_000)
    handler(EVENT, None)

    assert len(charges) == 2


def test_a_fixture_of_the_projects_own_wins(pytester: pytest.Pytester) -> None:
    """A project may have a fixture named `clock`. It is the project's alone."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def clock():
            return "the project's"

        def test_own(clock, use_store):
            assert clock == "the project's"
            use_store()
        """
    )

    pytester.runpytest().assert_outcomes(passed=1)


def test_a_clock_of_the_projects_own_is_in_use(pytester: pytest.Pytester) -> None:
    """A project's fixture `clock` is in use if it has the methods of a clock."""
    pytester.makepyfile(
        """
        import pytest
        from oncekey.clock import SystemClock
        from oncekey.store import in_use

        class ProjectClock(SystemClock):
            pass

        @pytest.fixture
        def clock():
            return ProjectClock()

        def test_own(clock, use_store):
            use_store()
            assert in_use.clock is clock
        """
    )

    pytester.runpytest().assert_outcomes(passed=1)
