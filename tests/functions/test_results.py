"""What idempotent functions give back: equal results, or a clear refusal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from oncekey import (
    ResultUnavailable,
)
from oncekey.record.record import Status
from tests.support.dynamodb import dynamodb_table, store_on
from tests.support.function_calls import Calls


@dataclass(frozen=True)
class Receipt:
    """A result with fields of several kinds."""

    total: Decimal
    at: datetime
    parts: tuple[int, ...]


RESULTS = [
    *(0, 1, -(2**70), 0.5, True, False, None, "", "text", [], {}, [1, [2]], {"a": {"b": None}}),
    *((), (1, "2"), {1, 2}, frozenset({"x"}), b"", b"\x00\xff", Decimal("1.50"), Decimal("1E+5")),
    *(datetime(2026, 1, 1, tzinfo=UTC), timedelta(days=1), UUID(int=7), Status.COMPLETED),
    *({1: "one", (2, 3): "two"}, {"$": "no tag"}),
    Receipt(total=Decimal("9.90"), at=datetime(2026, 1, 1, tzinfo=UTC), parts=(1, 2)),
]


@pytest.mark.parametrize("result", RESULTS, ids=repr)
@pytest.mark.parametrize("kind", ["memory", "dynamodb"])
@pytest.mark.case(22)
def test_a_repeat_gets_the_first_result_and_nothing_runs(result: Any, kind: str) -> None:
    """Whatever was returned, a repeat returns it, equal and of the same type; one run.

    Red when a result is tested for truth, or its type is lost.
    """
    with dynamodb_table() as client:
        calls = Calls(store=store_on(client) if kind == "dynamodb" else None)
        calls.result = result

        first, again = calls.call({"id": "a"}), calls.call({"id": "a"})

    assert (first, again) == (result, result)
    assert type(first) is type(again) is type(result)
    assert len(calls.runs) == 1


def test_a_changed_result_of_the_first_call_does_not_change_the_replay() -> None:
    """The first caller may do with its result what it likes."""
    calls = Calls()
    calls.result = {"items": [1]}
    calls.call({"id": "a"})["items"].append(2)

    assert calls.call({"id": "a"}) == {"items": [1]}


@pytest.mark.case(23)
@pytest.mark.parametrize("result", [object(), open, (n for n in [1]), {"x": [object()]}])
def test_a_result_that_cannot_be_stored_is_told_at_the_first_call(result: Any) -> None:
    """The author gets a TypeError that says where it is; the record is settled, and a repeat gets
    `ResultUnavailable` rather than a second run.

    Red when the failure to store the result frees the key.
    """
    calls = Calls()
    calls.result = result

    with pytest.raises(TypeError, match="result"):
        calls.call({"id": "a"})
    with pytest.raises(ResultUnavailable):
        calls.call({"id": "a"})

    assert len(calls.runs) == 1
    assert calls.only().status is Status.COMPLETED


def test_a_large_result_is_replayed() -> None:
    """A result beyond any item's size is kept beside its record."""
    calls = Calls()
    calls.result = list(range(200_000))

    assert calls.call({"id": "a"}) == calls.call({"id": "a"}) == calls.result
