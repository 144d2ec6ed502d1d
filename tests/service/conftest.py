"""What the functions of the reference service run on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from functions.shared import provider as provider_of_functions
from tests.support.provider import API_KEY, Provider, running_provider, sdk
from tests.support.reference_tables import ENVIRONMENT, Tables, physical, reference_tables

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def provider_process() -> Iterator[Provider]:
    """The process."""
    with running_provider() as provider:
        yield provider


@pytest.fixture
def provider(provider_process: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """The process, empty, and the functions told of it."""
    provider_process.reset()
    monkeypatch.setenv("PROVIDER_URL", provider_process.url)
    monkeypatch.setenv("PROVIDER_API_KEY", API_KEY)
    provider_of_functions.client.cache_clear()
    yield provider_process
    provider_of_functions.client.cache_clear()


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tables]:
    """The service's tables, empty, and the functions told of them."""
    # Otherwise boto3 puts the account into the host name, which moto does not know.
    monkeypatch.setenv("AWS_ACCOUNT_ID_ENDPOINT_MODE", "disabled")
    for variable, table in ENVIRONMENT.items():
        monkeypatch.setenv(variable, physical(table))
    with reference_tables() as tables:
        yield tables


@pytest.fixture
def intent_id(provider: Provider, tables: Tables) -> str:
    """The provider's id of the tenant's payment, which was charged."""
    with sdk(provider.url) as client:
        intent = client.v1.payment_intents.create(
            {"amount": 1200, "currency": "eur", "customer": "cus_1", "confirm": True}
        )
    tables.add_payment(status="succeeded", provider_id=intent.id)
    return intent.id
