"""Which cases are so large that only `make proof` runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable


def with_largest_in_proof(names: Iterable[Any], *largest: Any) -> list[Any]:
    """The cases of a parametrized test, those in `largest` marked `proof`."""
    names = list(names)
    assert set(largest) <= set(names), f"no such case: {set(largest) - set(names)}"
    return [
        pytest.param(name, marks=pytest.mark.proof) if name in largest else name for name in names
    ]
