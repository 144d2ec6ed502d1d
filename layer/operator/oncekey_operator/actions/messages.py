"""The messages of an operation or a tenant that are still in the outbox table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey_operator.exits import CommandError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey_operator.actions.acting import Acting
    from oncekey_operator.actions.removal import Storage


PAYLOAD_ELSEWHERE = "the payload is in the response bucket, and would stay there: say --bucket NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """Messages that the queue does not have yet. Each is an effect that has still to happen."""

    items: tuple[Mapping[str, Mapping[str, Any]], ...]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.items)

    def check_reaches(self, storage: Storage) -> None:
        """Return if their payloads can be deleted with them.

        Raises:
            CommandError: one is in a bucket that is not named.
        """
        if storage.s3 is None and any("payload_ref" in item for item in self.items):
            raise CommandError(PAYLOAD_ELSEWHERE)


def unsent(storage: Storage, outbox: str, *, tenant: str = "", operation_id: str = "") -> Unsent:
    """The messages of the tenant or of the operation, by a scan of the outbox table."""
    name, value = ("tenant", tenant) if tenant else ("operation_id", operation_id)
    pages = storage.dynamodb.get_paginator("scan").paginate(
        TableName=outbox,
        FilterExpression="#name = :value",
        ExpressionAttributeNames={"#name": name},
        ExpressionAttributeValues={":value": {"S": value}},
    )
    return Unsent(items=tuple(item for page in pages for item in page["Items"]))


def drop(acting: Acting, storage: Storage, outbox: str, messages: Unsent) -> int:
    """Delete those of `messages` that are still unsent. What they ask for never happens.

    Returns how many were deleted. The others were sent in the meantime, and keep their payloads.

    Raises:
        CommandError: a payload is out of reach. Nothing was deleted.
    """
    messages.check_reaches(storage)
    dropped = 0
    for item in messages.items:
        message_id = item["id"]["S"]
        intention = acting.audit.intend(
            "erase: message",
            pk=f"message#{message_id}",
            operation_id=item.get("operation_id", {}).get("S", ""),
            before="unsent",
        )
        was_there = storage.dynamodb.delete_item(
            TableName=outbox, Key={"id": {"S": message_id}}, ReturnValues="ALL_OLD"
        ).get("Attributes")
        if not was_there:
            intention.end("gone: it was sent in the meantime")
            continue
        if "payload_ref" in item and storage.s3 is not None:
            storage.s3.delete_object(
                Bucket=storage.bucket, Key=item["payload_ref"]["M"]["name"]["S"]
            )
        dropped += 1
        intention.end("erased", after="absent")
    return dropped
