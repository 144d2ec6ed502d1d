"""The shortcut through moto's serialiser answers what moto answers."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.core.serialize import BaseJSONSerializer

from oncekey_local.store import quick_moto
from tests.support.dynamodb import TABLE, dynamodb_table

ITEM: dict[str, Any] = {
    "pk": {"S": "an item"},
    "number": {"N": "7"},
    "binary": {"B": b"\x00\xff"},
    "flag": {"BOOL": False},
    "nothing": {"NULL": True},
    "strings": {"SS": ["a", "b"]},
    "numbers": {"NS": ["1", "2"]},
    "binaries": {"BS": [b"a", b"b"]},
    "map": {"M": {"empty": {"S": ""}, "list": {"L": [{"M": {}}, {"B": b"c"}, {"L": []}]}}},
}


def answers() -> list[Any]:
    """An item as each operation shows it: read, refused, cancelled."""
    with dynamodb_table() as client:
        client.put_item(TableName=TABLE, Item=ITEM)
        found: list[Any] = [
            client.get_item(TableName=TABLE, Key={"pk": ITEM["pk"]})["Item"],
            client.scan(TableName=TABLE)["Items"],
            client.batch_get_item(RequestItems={TABLE: {"Keys": [{"pk": ITEM["pk"]}]}})[
                "Responses"
            ],
        ]
        condition: Any = {
            "TableName": TABLE,
            "Item": ITEM,
            "ConditionExpression": "attribute_not_exists(pk)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        with pytest.raises(ClientError) as refused:
            client.put_item(**condition)
        refusal: Any = refused.value.response
        found.append(refusal["Item"])
        with pytest.raises(ClientError) as cancelled:
            client.transact_write_items(TransactItems=[{"Put": condition}])
        found.append(cancelled.value.response["CancellationReasons"])
        return found


def test_items_of_every_kind_are_answered_as_by_moto_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shortcut through moto's serialiser changes no answer.

    Red when a member of a value is left out of it.
    """
    quick = answers()
    monkeypatch.setattr(
        BaseJSONSerializer, "_serialize_type_structure", quick_moto._serialize_structure
    )

    assert quick == answers()
    assert quick[0] == ITEM
