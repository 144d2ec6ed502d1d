"""How records are put together into events."""

from __future__ import annotations

from typing import Any

from oncekey_local.events.batch_event import event_bytes, in_batches
from oncekey_local.front.http_api_event import MAX_PAYLOAD_BYTES

MEGABYTE = 1024 * 1024


def record(number: int, size_bytes: int = 1) -> dict[str, Any]:
    """A record that is about so large."""
    return {"number": number, "body": "x" * size_bytes}


def numbers(batches: list[list[dict[str, Any]]]) -> list[list[int]]:
    """Which records the batches hold."""
    return [[one["number"] for one in batch] for batch in batches]


def test_batches_by_number() -> None:
    """Records stay in their order, so many to a batch."""
    records = [record(number) for number in range(5)]
    assert numbers(list(in_batches(records, 2))) == [[0, 1], [2, 3], [4]]
    assert list(in_batches([], 2)) == []


def test_batches_by_size() -> None:
    """A batch is no larger than what one invocation takes, and full up to there."""
    records = [record(number, MEGABYTE - 100) for number in range(13)]
    batches = list(in_batches(records, 10_000))
    assert numbers(batches) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11], [12]]
    assert all(len(event_bytes(batch)) <= MAX_PAYLOAD_BYTES for batch in batches)


def test_batch_is_as_large_as_it_may_be() -> None:
    """The size of a batch is counted to the byte, in the letters that JSON needs for it."""
    envelope = len(event_bytes([record(0, 0), record(1, 0)]))
    half = (MAX_PAYLOAD_BYTES - envelope) // 2
    whole = [record(0, half), record(1, MAX_PAYLOAD_BYTES - envelope - half)]
    assert len(event_bytes(whole)) == MAX_PAYLOAD_BYTES
    assert numbers(list(in_batches(whole, 10))) == [[0, 1]]
    whole[1]["body"] += "x"
    assert numbers(list(in_batches(whole, 10))) == [[0], [1]]
    whole[1]["body"] = whole[1]["body"][:-6] + "é"
    assert numbers(list(in_batches(whole, 10))) == [[0], [1]]
