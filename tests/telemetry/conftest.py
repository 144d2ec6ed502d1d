"""What the tests of metrics read."""

from __future__ import annotations

import pytest

from tests.support.emitted import NAMESPACE, SERVICE, Emitted


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Emitted:
    """What is emitted while metrics are on."""
    monkeypatch.setenv("ONCEKEY_METRICS_NAMESPACE", NAMESPACE)
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", SERVICE)
    monkeypatch.setenv("ONCEKEY_PAUSE_CHECK_S", "1")
    return Emitted(capsys)
