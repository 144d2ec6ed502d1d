"""The example of a worker with several topics runs, word for word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.outbox.envelope import sealed
from oncekey.record.message import Message
from tests.support.documents import run_example
from tests.support.dynamodb import TABLE, dynamodb_table
from tests.support.queue_events import delivery, failed

if TYPE_CHECKING:
    import pytest


def order_message(number: int, topic: str) -> str:
    """A message about the order of this customer, as the relay sends it."""
    return sealed(
        Message(
            id=f"op-{number}-0",
            topic=topic,
            operation_id=f"op-{number}",
            operation="POST /orders",
            tenant="acme",
            created_at_ms=1,
            payload='{"customer": "cus_1"}',
        )
    )


def test_the_documented_topics_are_handled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two topics gets its mail, a repeated message none, and a third topic fails alone."""
    mails: list[tuple[str, str]] = []
    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    placed, cancelled, other = (
        order_message(number, f"order.{name}")
        for number, name in enumerate(("placed", "cancelled", "shipped"))
    )
    with dynamodb_table():
        namespace = run_example(
            "layer/docs/guides/queued-work.md",
            "order.cancelled",
            send_mail=lambda *mail: mails.append(mail),
        )
        answer = namespace["orders_worker"](delivery(placed, placed, cancelled, other), None)

    assert failed(answer) == ["record-3"]
    assert mails == [("cus_1", "Your order is placed."), ("cus_1", "Your order is cancelled.")]
