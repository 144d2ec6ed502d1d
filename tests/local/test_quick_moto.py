"""The shortcuts through moto and botocore answer what these answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from botocore.loaders import Loader
from moto.core.loaders import create_loader
from moto.core.serialize import BaseJSONSerializer

from oncekey_local.store import quick_moto
from tests.support.dynamodb import TABLE, dynamodb_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


def error_codes(loader: Loader) -> dict[str, Any]:
    """What the errors of SQS are called in the description of it that this loader reads."""
    shapes = loader.load_service_model("sqs", "service-2")["shapes"]
    return {name: shape.get("error") for name, shape in shapes.items() if shape.get("exception")}


@pytest.mark.parametrize("is_moto_first", [True, False], ids=["moto first", "botocore first"])
def test_moto_and_botocore_read_each_its_own_description_of_a_service(
    monkeypatch: pytest.MonkeyPatch, *, is_moto_first: bool
) -> None:
    """Moto adds to the codes of errors, and a client that saw them would not know its own errors.

    Red when what one of them has loaded is handed to the other.
    """
    quick_moto.quicken()
    monkeypatch.setattr(quick_moto, "_loaded", {})
    makers: list[Callable[[], Loader]] = [create_loader, Loader]
    if not is_moto_first:
        makers.reverse()
    codes = {make: error_codes(make()) for make in makers}

    assert codes[create_loader]["QueueDoesNotExist"]["code"].endswith("NonExistentQueue")
    assert codes[Loader]["QueueDoesNotExist"] is None


def test_a_loader_with_a_further_folder_finds_what_is_in_it(tmp_path: Path) -> None:
    """boto3 adds its folder after the loader was made, as users add theirs.

    Red when what a loader without the folder did not find is kept for all.
    """
    quick_moto.quicken()
    folder = tmp_path / "made-up" / "2026-01-01"
    folder.mkdir(parents=True)
    (folder / "service-2.json").write_text("{}")
    assert "made-up" not in Loader().list_available_services("service-2")
    loader = Loader()
    loader.list_available_services("service-2")

    loader.search_paths.append(str(tmp_path))

    assert "made-up" in loader.list_available_services("service-2")


def test_what_one_loader_has_read_the_next_of_its_kind_has_as_well() -> None:
    """Each session makes a loader, and to read a description takes longer than most tests.

    Red when each loader reads for itself.
    """
    quick_moto.quicken()
    first, second = (Loader().load_service_model("sqs", "service-2") for _ in range(2))
    assert first is second
