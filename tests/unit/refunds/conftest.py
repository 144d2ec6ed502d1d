"""A payment that was charged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.provider import Provider, sdk

if TYPE_CHECKING:
    from tests.support.reference_tables import Tables


@pytest.fixture
def intent_id(provider: Provider, tables: Tables) -> str:
    """The provider's id of the tenant's payment, which was charged."""
    with sdk(provider.url) as client:
        intent = client.v1.payment_intents.create(
            {"amount": 1200, "currency": "eur", "customer": "cus_1", "confirm": True}
        )
    tables.add_payment(status="succeeded", provider_id=intent.id)
    return intent.id
