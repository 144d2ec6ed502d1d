"""Records as DynamoDB items, both ways.

The attribute names are a contract with tables already in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from oncekey.errors import StoreError
from oncekey.record import Due, Effects, Record, Status
from oncekey.stored_answer import Elsewhere, NotKept, Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey.stored_answer import StoredAnswer

Item = dict[str, dict[str, Any]]

# Field of the record → attribute of the item, with its DynamoDB type. `due` is two attributes,
# handled apart.
_ATTRIBUTES: dict[str, tuple[str, str]] = {
    "pk": ("pk", "S"),
    "status": ("status", "S"),
    "rev": ("rev", "N"),
    "tenant": ("tenant", "S"),
    "principal": ("principal", "S"),
    "operation": ("operation", "S"),
    "key": ("key", "S"),
    "operation_id": ("operation_id", "S"),
    "fingerprint": ("fingerprint", "S"),
    "owner": ("owner", "S"),
    "attempt": ("attempt", "N"),
    "effects": ("effects", "S"),
    "created_at_ms": ("created_at", "N"),
    "lease_until_ms": ("lease_until", "N"),
    "completed_at_ms": ("completed_at", "N"),
    "expires_at_s": ("expires_at", "N"),
    "response_version": ("response_version", "N"),
    "reconcile_attempts": ("reconcile_attempts", "N"),
    "last_error": ("last_error", "S"),
    "escalated_at_ms": ("escalated_at", "N"),
}
# What an item may lack; anything else that is missing makes it unreadable.
_OPTIONAL = {
    "principal",
    "key",
    "lease_until_ms",
    "completed_at_ms",
    "expires_at_s",
    "response_version",
    "reconcile_attempts",
    "last_error",
    "escalated_at_ms",
}
ATTRIBUTE_NAMES = frozenset(
    {name for name, _ in _ATTRIBUTES.values()} | {"due_shard", "due_at", "response"}
)


def attribute_values(record: Record) -> Item:
    """The attributes that `record` has; what is empty or absent is left out."""
    item: Item = {}
    for field, (name, kind) in _ATTRIBUTES.items():
        value = getattr(record, field)
        if value is not None and value not in {"", 0}:
            item[name] = {kind: str(value)}
    if record.response is not None:
        item["response"] = answer_value(record.response)
    if record.due is not None:
        item["due_shard"] = {"S": record.due.shard}
        item["due_at"] = {"N": str(record.due.at_ms)}
    return item


def record_from_item(item: Mapping[str, Mapping[str, Any]]) -> Record:
    """Read an item back.

    Raises:
        StoreError: the item is not one of ours, or was written by a newer release. It is not
            transient, and nothing runs.
    """
    try:
        fields = {
            field: _value(item, field)
            for field in _ATTRIBUTES
            if field not in _OPTIONAL or _has(item, field)
        }
        fields["status"] = Status(fields["status"])
        fields["effects"] = Effects(fields["effects"])
        if "response" in item:
            fields["response"] = _answer(item["response"])
        if "due_at" in item:
            fields["due"] = Due(shard=item["due_shard"]["S"], at_ms=int(item["due_at"]["N"]))
        return Record(**fields)
    except (KeyError, ValueError) as error:
        raise StoreError(f"the stored record cannot be read ({error})", transient=False) from error


def answer_value(answer: StoredAnswer) -> dict[str, Any]:
    """The attribute that a stored answer is: text, bytes, or a map that says where it is."""
    match answer:
        case str():
            return {"S": answer}
        case bytes():
            return {"B": answer}
        case Elsewhere():
            fields = {"place": answer.place.value, "name": answer.name, "digest": answer.digest}
        case NotKept():
            fields = {"not_kept": answer.reason}
        case _:
            assert_never(answer)
    return {"M": {name: {"S": text} for name, text in fields.items()}}


def _answer(value: Mapping[str, Any]) -> StoredAnswer:
    (kind, content), *_ = value.items()
    if kind == "M":
        fields = {name: text["S"] for name, text in content.items()}
        if "not_kept" in fields:
            return NotKept(fields["not_kept"])
        place = Place(fields["place"])
        return Elsewhere(place=place, name=fields["name"], digest=fields["digest"])
    answer: str | bytes = {"S": content, "B": content}[kind]
    return answer


def _has(item: Mapping[str, Mapping[str, Any]], field: str) -> bool:
    return _ATTRIBUTES[field][0] in item


def _value(item: Mapping[str, Mapping[str, Any]], field: str) -> Any:
    name, kind = _ATTRIBUTES[field]
    text = item[name][kind]
    return int(text) if kind == "N" else text
