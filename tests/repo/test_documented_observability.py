"""The examples of the page on observability run, word for word."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from aws_lambda_powertools import Metrics

from oncekey.telemetry import watching
from oncekey.testing import MemoryStore, use_store
from tests.support.documents import run_example
from tests.support.events import load, with_tenant

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def _nothing_shared() -> Iterator[None]:
    yield
    watching.give(None)
    Metrics().clear_metrics()


@pytest.mark.usefixtures("_nothing_shared")
def test_shared_metrics_are_in_one_line_with_the_programs_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line has the program's metrics and the layer's, in the namespace of the program.

    Red when the layer writes a line of its own beside it.
    """
    with use_store(MemoryStore()):
        namespace = run_example("layer/docs/guides/observability.md", "share_metrics")
        namespace["create_payment"](with_tenant(load("apigw_http_v2_post"), "acme"), None)

    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert (found["PaymentsMade"], found["Reserved"]) == ([1.0], [1.0])
    assert found["service"] == "payments"
    (directive,) = found["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "shop"


def test_the_documented_hook_tells_of_an_unknown_outcome(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The hook hears of an attempt that raised, and of nothing else."""
    amounts: list[int] = []

    def charge(amount: int) -> str:
        amounts.append(amount)
        if amount == 0:
            raise TimeoutError
        return "ch_1"

    with use_store(MemoryStore()):
        namespace = run_example(
            "layer/docs/guides/observability.md",
            "on_event=tell",
            provider=SimpleNamespace(charge=charge),
        )
        assert namespace["charge"]({"id": "1", "amount": 5}) == "ch_1"
        assert capsys.readouterr().out == ""
        with pytest.raises(TimeoutError):
            namespace["charge"]({"id": "2", "amount": 0})

    assert "nobody knows what" in capsys.readouterr().out
    assert amounts == [5, 0]
