"""How DynamoDB computes sizes, and its limits.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST_ITEM_BYTES = 400 * 1024
LARGEST_TRANSACTION_BYTES = 4 * 1024 * 1024


def item_bytes(item: Mapping[str, Mapping[str, Any]]) -> int:
    """The size of an item in DynamoDB's notation, including the names of its attributes."""
    return sum(len(name.encode("utf-8")) + value_bytes(value) for name, value in item.items())


def value_bytes(value: Mapping[str, Any]) -> int:
    """The size of one attribute's value."""
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return len(content.encode("utf-8"))
        case "N":
            return _number_bytes(content)
        case "B":
            return len(content)
        case "SS":
            return sum(len(text.encode("utf-8")) for text in content)
        case "NS":
            return sum(map(_number_bytes, content))
        case "BS":
            return sum(map(len, content))
        case "M":
            return 3 + len(content) + item_bytes(content)
        case "L":
            return 3 + sum(1 + value_bytes(each) for each in content)
        case _:
            return 1


def _number_bytes(digits: str) -> int:
    # About one byte for every two significant digits, plus one byte.
    significant = digits.partition("E")[0].lstrip("-").replace(".", "").strip("0")
    return -(-len(significant) // 2) + 1
