"""How large DynamoDB counts items, by the rules of its documentation."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr
from boto3.dynamodb.types import TypeSerializer

from oncekey.store.dynamodb.author_writes import conditions, low_level, python_values, size_bytes
from oncekey.store.dynamodb.sizes import LARGEST_ITEM_BYTES, LARGEST_TRANSACTION_BYTES, item_bytes

VALUES: dict[str, tuple[Any, int]] = {
    "empty text": ("", 0),
    "text": ("abc", 3),
    "text of several bytes a letter": ("é€\U0001f600", 2 + 3 + 4),
    "bytes": (b"\x00\x01\x02", 3),
    "true": (True, 1),
    "null": (None, 1),
    "zero": (0, 1),
    "one digit": (7, 2),
    "two digits": (42, 2),
    "three digits": (123, 3),
    "a negative number": (-42, 2),
    "leading and trailing zeros": (Decimal("0.004200"), 2),
    "a power of ten": (10**30, 2),
    "an exponent": (Decimal("4.2E+100"), 2),
    "38 digits": (Decimal("1." + "1" * 37), 20),
    "a set of texts": ({"a", "bcd"}, 4),
    "a set of numbers": ({1, 234}, 2 + 3),
    "a set of bytes": ({b"a", b"bcd"}, 4),
    "an empty list": ([], 3),
    "a list": (["ab", 7], 3 + (1 + 2) + (1 + 2)),
    "an empty map": ({}, 3),
    "a map": ({"ab": "c", "d": True}, 3 + (1 + 2 + 1) + (1 + 1 + 1)),
    "a list in a map": ({"a": [["b"]]}, 3 + 1 + 1 + (3 + 1 + (3 + 1 + 1))),
}


@pytest.mark.parametrize(("value", "size"), VALUES.values(), ids=VALUES)
def test_each_kind_of_value(value: Any, size: int) -> None:
    """An attribute counts the bytes of its name and those of its value."""
    item = {"näme": TypeSerializer().serialize(value)}

    assert item_bytes(item) == len("näme".encode()) + size


def test_an_item_is_the_sum_of_its_attributes() -> None:
    """Nothing is added for the item itself; the limits are DynamoDB's, in KB of 1024 bytes."""
    values = {f"name-{number}": value for number, (value, _) in enumerate(VALUES.values())}
    names = sum(map(len, values))

    assert item_bytes(low_level(values)) == names + sum(size for _, size in VALUES.values())
    assert item_bytes({}) == 0
    assert (LARGEST_ITEM_BYTES, LARGEST_TRANSACTION_BYTES) == (409_600, 4_194_304)


def test_an_action_counts_what_it_carries() -> None:
    """Item, key and values count; expressions and their names do not."""
    parameters = {
        "TableName": "a-table",
        "Item": {"a": {"S": "bc"}},
        "Key": {"id": {"S": "d"}},
        "UpdateExpression": "SET #a = :a",
        "ExpressionAttributeNames": {"#a": "a" * 50},
        "ExpressionAttributeValues": {":a": {"S": "efg"}},
    }

    assert size_bytes(parameters) == 3 + 3 + 5
    assert size_bytes({"TableName": "a-table"}) == 0


def test_values_come_back_as_they_were() -> None:
    """What a write met is given to its author as the values that they write."""
    values = {"text": "a", "number": Decimal("1.50"), "list": [None, {"deep": True}], "set": {"a"}}

    assert python_values(low_level(values)) == values
    assert python_values(None) is None


def test_a_condition_of_boto3_stands_beside_names_and_values_of_the_authors() -> None:
    """Its names and values are added to those of the update expression; text is taken as it is, and
    what is not used is left out.
    """
    built = conditions(Attr("state").eq("open"), {"#more": "more"}, {":more": 1})

    assert built == {
        "ConditionExpression": "#n0 = :v0",
        "ExpressionAttributeNames": {"#more": "more", "#n0": "state"},
        "ExpressionAttributeValues": {":more": {"N": "1"}, ":v0": {"S": "open"}},
    }
    assert conditions("a = b", {}, {}) == {"ConditionExpression": "a = b"}
    assert conditions(None, {}, {}) == {}
