"""The environment of the benchmarks, and an end to the connections that their clients keep."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from botocore.httpsession import URLLib3Session

from oncekey.store.direct.connection import Connection
from tests.benchmarks.environment import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def in_lambda(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment in which the calls were recorded.

    Handlers keep their clients, and the clients their connections to servers that are gone.
    """
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    yield
    for each in gc.get_objects():
        # By its type: to ask a weak reference's proxy what it is raises once its object is gone.
        if issubclass(type(each), URLLib3Session | Connection):
            each.close()
