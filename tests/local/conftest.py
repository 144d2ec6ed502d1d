"""Running services, shared by several tests: a start takes longer than most of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.dev_service import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey_local.dev_process import DevProcess


@pytest.fixture(scope="session")
def dev() -> Iterator[DevProcess]:
    """The sample service, run by a developer who has AWS settings of his own.

    `sharing` has the files that use it.
    """
    own = {"AWS_PROFILE": "private", "AWS_ACCESS_KEY_ID": "private", "AWS_SESSION_TOKEN": "private"}
    with running(environment=own, env={"EXTRA": "a=b"}) as process:
        yield process


@pytest.fixture(scope="module")
def failing() -> Iterator[DevProcess]:
    """The service whose functions end badly."""
    with running("tests.support.sample_service:FAILING") as process:
        yield process
