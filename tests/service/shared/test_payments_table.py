"""How rows are named."""

from __future__ import annotations

from functions.shared import payments_table
from oncekey import Operation


def test_no_tenants_name_reaches_into_anothers_rows() -> None:
    """Tenants and ids that would read the same when joined have different keys."""
    parts = [("a", "b#c"), ("a#b", "c"), ("1#a", "b#c"), ("", "a#b#c"), ("3#a#b", "c")]

    keys = {payments_table.row_key(tenant, identifier) for tenant, identifier in parts}

    assert len(keys) == len(parts)


def test_every_attempt_makes_the_same_thing() -> None:
    """The id of what an operation makes is the operation's own, in whichever attempt."""
    identifiers = {
        payments_table.identifier(
            "pay",
            Operation(
                name="POST /payments",
                operation_id="0f8fad5b-d9cb-469f-a165-70867728950e",
                attempt=attempt,
                tenant="tenant-1",
            ),
        )
        for attempt in (1, 2)
    }

    assert identifiers == {"pay_0f8fad5bd9cb469fa16570867728950e"}
