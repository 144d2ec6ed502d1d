"""`assert_idempotent` checks handlers of batches: each record is an operation of its own."""

from __future__ import annotations

from typing import Any

import pytest

from oncekey import idempotent_function, single_tenant
from oncekey.testing import assert_idempotent, sqs_event
from tests.support.mistaken_handlers import Provider


@pytest.mark.parametrize("effects", ["repeatable", "unrecorded"])
def test_a_handler_of_a_batch_is_checked(effects: str) -> None:
    """A batch of two passes, and may have stayed half done after a crash."""
    provider = Provider()

    @idempotent_function(
        operation="pay",
        key=lambda record: record["messageId"],
        tenant=single_tenant(),
        effects=effects,
    )
    def pay(record: dict[str, Any]) -> str:
        return provider.charge(record["messageId"])

    def batch(event: Any, _context: object) -> dict[str, Any]:
        failed = []
        for record in event["Records"]:
            try:
                pay(record)
            except Exception:  # noqa: BLE001 -- as batch processors do
                failed.append({"itemIdentifier": record["messageId"]})
        return {"batchItemFailures": failed}

    played = assert_idempotent(
        batch,
        sqs_event([{"order": 1}, {"order": 2}]),
        effects=lambda: len(provider.done),
        reset=provider.reset,
    )
    assert {"five at once", "kill after reserve (2)"} <= {*played}
