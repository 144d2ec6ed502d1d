"""The plugin for pytest: it registers itself, loads nothing, and has fixtures for a handler."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

pytest_plugins = ["pytester"]

HANDLER = """
from oncekey import idempotent, jwt_claim

charges = []

@idempotent(operation="POST /payments", tenant=jwt_claim("tenant_id"), effects="repeatable")
def handler(event, context):
    charges.append(event["body"])
    return {"statusCode": 201, "body": "charged"}
"""
EVENT = (
    'api_event("POST /payments", key="key-of-one-payment", body={}, claims={"tenant_id": "t-1"})'
)


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


def test_a_handler_is_protected_by_a_store_in_memory(pytester: pytest.Pytester) -> None:
    """`use_store()` protects a decorated handler until the end of the test, and no longer."""
    pytester.makepyfile(payments=HANDLER)
    pytester.makepyfile(
        f"""
        import pytest
        from payments import charges, handler
        from oncekey.errors import ConfigurationError
        from oncekey.testing import MemoryStore, api_event

        EVENT = {EVENT}

        def test_in_use(use_store):
            store = use_store()
            first, again = handler(EVENT, None), handler(EVENT, None)
            assert charges == ["{{}}"]
            assert again["headers"]["Idempotent-Replayed"] == "true"
            assert len(store.records) == 1

        def test_of_ones_own(use_store):
            mine = MemoryStore()
            assert use_store(mine) is mine
            handler(EVENT, None)
            assert len(mine.records) == 1

        def test_over():
            with pytest.raises(ConfigurationError, match="ONCEKEY_TABLE is not set"):
                handler(EVENT, None)
        """
    )

    pytester.runpytest().assert_outcomes(passed=3)


def test_the_clock_is_in_use_if_it_is_asked_for(pytester: pytest.Pytester) -> None:
    """With `clock`, the test lets a record expire, in memory and on moto."""
    pytester.makepyfile(payments=HANDLER)
    pytester.makepyfile(
        f"""
        import pytest
        from payments import charges, handler
        from oncekey.testing import api_event

        EVENT = {EVENT}

        @pytest.fixture(params=["memory", "moto"])
        def kept(request):
            if request.param == "moto":
                return request.getfixturevalue("dynamodb_tables").store
            return request.getfixturevalue("use_store")()

        def test_expired(clock, kept):
            charges.clear()
            handler(EVENT, None)
            clock.advance(30 * 24 * 3_600_000)
            answer = handler(EVENT, None)
            assert "Idempotent-Replayed" not in answer["headers"]
            assert len(charges) == 2
        """
    )

    pytester.runpytest().assert_outcomes(passed=2)


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
