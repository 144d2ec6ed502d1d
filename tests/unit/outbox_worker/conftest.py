"""The queue, as the worker talks to it."""

from __future__ import annotations

import pytest

from oncekey.sqs_queue import SqsQueue


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What the queue is asked to hide, and for how long."""
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(
        SqsQueue, "hide", lambda _, handle, delay_s: asked.append((handle, delay_s))
    )
    monkeypatch.setenv("ONCEKEY_QUEUE_URL", "https://sqs.eu-central-1.amazonaws.com/1/payments")
    return asked
