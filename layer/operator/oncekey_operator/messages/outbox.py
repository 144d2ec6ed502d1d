"""What is in the outbox table: messages that wait, and those that are set aside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey.store.dynamodb.outbox import whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxItem:
    """One item of the outbox table, without its payload.

    `set_aside_at_ms` is None for a message that the relay, or the sweep, will send. An item that
    is no message of the library has an empty topic. `has_object` says that its payload is in the
    response bucket.
    """

    id: str
    topic: str
    operation: str
    operation_id: str
    tenant: str
    created_at_ms: int
    tries: int
    set_aside_at_ms: int | None
    escalated_at_ms: int | None
    reason: str
    has_object: bool = False


def outbox_items(client: Any, table: str, *, set_aside_only: bool = False) -> Iterator[OutboxItem]:
    """The items of the table, in no order. It reads the whole table as far as it is asked to.

    In steady state the table is nearly empty. During an outage of the queue it is not.
    """
    only = {"FilterExpression": "attribute_exists(set_aside_at)"} if set_aside_only else {}
    names = (
        *("id", "topic", "operation", "operation_id", "tenant", "created_at", "tries"),
        *("set_aside_at", "escalated_at", "reason", "payload_ref"),
    )
    pages = client.get_paginator("scan").paginate(
        TableName=table,
        ConsistentRead=True,
        ProjectionExpression=", ".join(f"#{name}" for name in names),
        ExpressionAttributeNames={f"#{name}": name for name in names},
        **only,
    )
    for page in pages:
        for item in page["Items"]:
            yield _item(item)


def _item(item: Mapping[str, Mapping[str, Any]]) -> OutboxItem:
    def text(name: str) -> str:
        return str(item.get(name, {}).get("S", ""))

    return OutboxItem(
        **{name: text(name) for name in ("id", "topic", "operation", "operation_id", "tenant")},
        created_at_ms=whole_number(item, "created_at") or 0,
        tries=whole_number(item, "tries") or 0,
        set_aside_at_ms=whole_number(item, "set_aside_at"),
        escalated_at_ms=whole_number(item, "escalated_at"),
        reason=text("reason"),
        has_object="payload_ref" in item,
    )
