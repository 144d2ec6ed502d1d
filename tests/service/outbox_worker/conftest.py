"""The queue, as the worker talks to it, and a refund whose handler died."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from functions.refunds.handler import create_refund
from functions.shared import refunds_table
from functions.shared.models import ProviderEvent
from oncekey.store.sqs import SqsQueue
from tests.support.provider_events import REFUND

if TYPE_CHECKING:
    from tests.support.provider import Provider
    from tests.support.reference_tables import Tables


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What the queue is asked to hide, and for how long."""
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(
        SqsQueue, "hide", lambda _, handle, delay_s: asked.append((handle, delay_s))
    )
    monkeypatch.setenv("ONCEKEY_QUEUE_URL", "https://sqs.eu-central-1.amazonaws.com/1/payments")
    return asked


@pytest.fixture
def dead_refund(
    provider: Provider, tables: Tables, intent_id: str, monkeypatch: pytest.MonkeyPatch
) -> ProviderEvent:
    """What the provider tells of a refund whose handler died before it wrote anything; its record
    is unknown.
    """
    from tests.support.provider import sdk

    with monkeypatch.context() as dying:

        def dies(_row: object) -> None:
            raise SystemExit(137)

        dying.setattr(refunds_table, "write", dies)
        with pytest.raises(SystemExit):
            create_refund(REFUND, None)
    assert tables.rows("refunds") == []
    with sdk(provider.url) as client:
        (made,) = client.v1.refunds.list().data
    assert made.metadata is not None
    return ProviderEvent(
        type="refund.created",
        object_id=made.id,
        status="succeeded",
        amount=made.amount,
        created=made.created,
        metadata=made.metadata.to_dict(),
    )
