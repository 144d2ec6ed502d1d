"""The pauses in DynamoDB. All of a table's pauses are one item, with one attribute for each.

So a sandbox reads them with one GetItem, whatever its operations and tenants are, and an operator
lists them without a Scan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.errors import StoreError
from oncekey.record.pause import Pause, PauseScope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey.store.dynamodb.codec import Item

# It cannot be the key of a record, because those begin with their version.
PAUSES_KEY = "pause#all"
_SEPARATOR = "#"


def pause_parameters(table: str, pause: Pause) -> dict[str, Any]:
    """The UpdateItem that puts `pause` on record."""
    members = {
        "reason": {"S": pause.reason},
        "by": {"S": pause.by},
        "since": {"N": str(pause.since_ms)},
    }
    return {
        "TableName": table,
        "Key": {"pk": {"S": PAUSES_KEY}},
        "UpdateExpression": "SET #pause = :pause",
        "ExpressionAttributeNames": {"#pause": _attribute(pause.scope, pause.name)},
        "ExpressionAttributeValues": {":pause": {"M": members}},
        "ReturnValues": "UPDATED_OLD",
    }


def resume_parameters(table: str, scope: PauseScope, name: str) -> dict[str, Any]:
    """The UpdateItem that removes a pause."""
    return {
        "TableName": table,
        "Key": {"pk": {"S": PAUSES_KEY}},
        "UpdateExpression": "REMOVE #pause",
        "ExpressionAttributeNames": {"#pause": _attribute(scope, name)},
        "ReturnValues": "UPDATED_OLD",
    }


def former_pause(answer: Mapping[str, Any], scope: PauseScope, name: str) -> Pause | None:
    """The pause that one of these UpdateItems has replaced or removed."""
    found = pauses_from_item(answer.get("Attributes", {}))
    return next((each for each in found if (each.scope, each.name) == (scope, name)), None)


def pauses_from_item(item: Item) -> tuple[Pause, ...]:
    """The pauses in the item.

    Raises:
        StoreError: one of them cannot be read. No request may then be taken for permitted.
    """
    try:
        return tuple(_pause(name, value["M"]) for name, value in item.items() if name != "pk")
    except (KeyError, TypeError, ValueError) as error:
        reason = f"the stored pauses cannot be read ({type(error).__name__})"
        raise StoreError(reason, transient=False) from error


def _attribute(scope: PauseScope, name: str) -> str:
    return f"{scope}{_SEPARATOR}{name}"


def _pause(attribute: str, members: Item) -> Pause:
    scope, _, name = attribute.partition(_SEPARATOR)
    return Pause(
        scope=PauseScope(scope),
        name=name,
        reason=members["reason"]["S"],
        by=members["by"]["S"],
        since_ms=int(members["since"]["N"]),
    )
