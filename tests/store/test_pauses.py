"""Pauses in the table of DynamoDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncekey.errors import StoreError
from oncekey.record.pause import Pause, PauseScope
from tests.support.dynamodb import deny, dynamodb_table, store_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey import DynamoDBStore

PAUSE = Pause(
    scope=PauseScope.OPERATION,
    name="POST /payments",
    reason="The provider is down.",
    by="ops",
    since_ms=1,
)


@pytest.mark.parametrize(
    "call",
    [lambda store: store.pause(PAUSE), lambda store: store.resume(PAUSE.scope, PAUSE.name)],
    ids=["pause", "resume"],
)
def test_a_pause_that_dynamodb_refuses_is_a_failure_of_the_store(
    call: Callable[[DynamoDBStore], object],
) -> None:
    """Whoever pauses or resumes is told why it was not done.

    Red when a missing permission looks like a mistake of the layer.
    """
    with dynamodb_table() as client:
        deny(client, "UpdateItem")

        with pytest.raises(StoreError, match="AccessDenied"):
            call(store_on(client))
