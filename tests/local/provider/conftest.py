"""One provider process for all tests of this folder; each test finds it empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.provider import Provider, running_provider, sdk

if TYPE_CHECKING:
    from collections.abc import Iterator

    import stripe


@pytest.fixture(scope="session")
def provider_process() -> Iterator[Provider]:
    """The process."""
    with running_provider() as provider:
        yield provider


@pytest.fixture
def provider(provider_process: Provider) -> Provider:
    """The process, empty."""
    provider_process.reset()
    return provider_process


@pytest.fixture
def client(provider: Provider) -> Iterator[stripe.StripeClient]:
    """The official SDK without retries of its own."""
    with sdk(provider.url) as client:
        yield client
