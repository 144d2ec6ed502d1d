"""The places where accepted work is tested: in memory, and on moto."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.async_world import accepting_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.async_world import Accepting


@pytest.fixture(params=["memory", "moto"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[..., Accepting]]:
    """Make a service in memory or on moto."""
    with accepting_at(request.param) as made:
        yield made
