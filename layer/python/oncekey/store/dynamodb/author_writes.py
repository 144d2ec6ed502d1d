"""The author's writes in DynamoDB's notation. They are converted when they are collected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oncekey.store.dynamodb.sizes import item_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from boto3.dynamodb.conditions import ConditionBase

    Condition = str | ConditionBase
    Values = Mapping[str, Any]


def low_level(values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `values` in DynamoDB's notation, as boto3's own resource writes them.

    Raises:
        TypeError: boto3 has no form for a value. The message names the attribute and the type.
            Unlike boto3's message, it does not contain the value.
    """
    from boto3.dynamodb.types import TypeSerializer

    serializer = TypeSerializer()
    written: dict[str, Any] = {}
    _check_mapping(values, "an item, a key and the values of an expression")
    _check_texts(values, "attribute names and placeholders")
    for name, value in values.items():
        try:
            written[name] = _copied(serializer.serialize(value))
        except Exception as error:  # noqa: BLE001 -- whatever the author's objects raise
            raise TypeError(
                f"{name!r} is or holds a value that DynamoDB has no form for"
                f" ({type(value).__name__}, {type(error).__name__}): write text, int, Decimal of up"
                " to 38 digits rather than float, bytes, bool, None, lists, sets that are not"
                " empty, and dictionaries with text keys"
            ) from None
    return written


def _copied(value: Any) -> Any:
    # The author could change a bytearray before it is sent, so it is copied.
    ((kind, content),) = value.items()
    match kind:
        case "S":
            content.encode("utf-8")
        case "SS" | "NS" | "BS" if not content:
            raise ValueError("DynamoDB has no empty set")
        case "B":
            return {"B": bytes(content)}
        case "BS":
            return {"BS": [bytes(each) for each in content]}
        case "L":
            return {"L": [_copied(each) for each in content]}
        case "M":
            _check_texts(content, "the names in a map")
            return {"M": {name: _copied(each) for name, each in content.items()}}
        case _:
            pass
    return value


def _check_mapping(given: object, what: str) -> None:
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} are dictionaries; one is {type(given).__name__}")


def _check_texts(values: Iterable[object], what: str) -> None:
    # Without this check, botocore would raise in the middle of the commit.
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{what} are text; one is {type(value).__name__}")
        if not value.isascii():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                raise TypeError(f"{what} are text; one has a lone surrogate") from None


def python_values(item: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """An item of DynamoDB's as Python values."""
    from boto3.dynamodb.types import TypeDeserializer

    if item is None:
        return None
    deserializer = TypeDeserializer()
    return {name: deserializer.deserialize(value) for name, value in item.items()}


def conditions(
    condition: Condition | None, names: Mapping[str, str], values: Values
) -> dict[str, Any]:
    """The condition of an action, with the names and values that it and an update expression use.

    Raises:
        ValueError: a placeholder of the author's has the same name as one of boto3's.
        TypeError: a condition, a name or a value has a type that is not supported.
    """
    _check_mapping(names, "names= and values=")
    _check_texts([*names, *names.values()], "attribute names and their placeholders")
    all_names, all_values = dict(names), low_level(values)
    parameters: dict[str, Any] = {}
    if isinstance(condition, str) and condition.strip():
        parameters["ConditionExpression"] = condition
    elif condition is not None:
        from boto3.dynamodb.conditions import (
            ConditionBase,
            ConditionExpressionBuilder,
        )

        given: object = condition
        if not isinstance(given, ConditionBase):
            kind = "blank" if isinstance(given, str) else type(given).__name__
            raise TypeError(
                f"a condition is an expression, as text, or boto3's Attr(...); it is {kind}"
            )
        built = ConditionExpressionBuilder().build_expression(given)
        parameters["ConditionExpression"] = built.condition_expression
        taken = {*built.attribute_name_placeholders, *built.attribute_value_placeholders}
        if taken & {*all_names, *all_values}:
            raise ValueError(
                f"{', '.join(sorted(taken & {*all_names, *all_values}))}: boto3 gives these names"
                " to the parts of a condition, take others"
            )
        all_names |= built.attribute_name_placeholders
        all_values |= low_level(built.attribute_value_placeholders)
    if all_names:
        parameters["ExpressionAttributeNames"] = all_names
    if all_values:
        parameters["ExpressionAttributeValues"] = all_values
    return parameters


def size_bytes(parameters: Mapping[str, Any]) -> int:
    """The bytes that an action adds to its transaction, as far as they are known in advance."""
    known = (parameters.get(part, {}) for part in ("Item", "Key", "ExpressionAttributeValues"))
    return sum(map(item_bytes, known))
