"""Records as DynamoDB items, both ways.

The attribute names are a contract with tables already in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from oncekey.errors import StoreError
from oncekey.record.policy import IETF_NAME, Encoding, Policy
from oncekey.record.record import Due, Effects, Record, Status
from oncekey.record.steps import NO_STEPS, FinishedStep, StartedStep, Steps
from oncekey.record.stored_answer import NotKept, Place, StoredRef

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey.record.stored_answer import StoredAnswer

Item = dict[str, dict[str, Any]]

# Field of the record → attribute of the item, with its DynamoDB type. `due` has two attributes and
# is handled separately.
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
    "request_digest": ("request_digest", "S"),
}
# Optional attributes. An item without one of the others is unreadable.
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
    "request_digest",
}
ATTRIBUTE_NAMES = frozenset(
    {name for name, _ in _ATTRIBUTES.values()}
    | {"due_shard", "due_at", "response", "steps", "request", "policy"}
)
# The initial steps of a recorded operation. Updates can then set the paths in it one by one.
NO_STEPS_VALUE: dict[str, Any] = {"M": {"finished": {"M": {}}}}


def attribute_values(record: Record) -> Item:
    """The attributes of `record`, without the empty and absent ones."""
    item: Item = {}
    for field, (name, kind) in _ATTRIBUTES.items():
        value = getattr(record, field)
        if value is not None and value not in {"", 0}:
            item[name] = {kind: str(value)}
    if record.response is not None:
        item["response"] = answer_value(record.response)
    if record.request is not None:
        item["request"] = answer_value(record.request)
    if record.policy is not None:
        item["policy"] = policy_value(record.policy)
    if record.effects is Effects.RECORDED or record.steps != NO_STEPS:
        item["steps"] = _steps_value(record.steps)
    if record.due is not None:
        item["due_shard"] = {"S": record.due.shard}
        item["due_at"] = {"N": str(record.due.at_ms)}
    return item


def record_from_item(item: Mapping[str, Mapping[str, Any]]) -> Record:
    """Read an item back.

    Raises:
        StoreError: the item is not a record of oncekey, or a newer release wrote it. The error is
            not transient, and nothing runs.
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
        if "request" in item:
            fields["request"] = _answer(item["request"])
        if "policy" in item:
            fields["policy"] = _policy(item["policy"]["M"])
        if "steps" in item:
            fields["steps"] = _steps(item["steps"]["M"])
        if "due_at" in item:
            fields["due"] = Due(shard=item["due_shard"]["S"], at_ms=int(item["due_at"]["N"]))
        return Record(**fields)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"the stored record cannot be read ({error})", transient=False) from error


def answer_value(answer: StoredAnswer) -> dict[str, Any]:
    """The attribute of a stored answer: text, bytes, or a map with the place of the answer."""
    match answer:
        case str():
            return {"S": answer}
        case bytes():
            return {"B": answer}
        case StoredRef():
            fields = {"place": answer.place.value, "name": answer.name, "digest": answer.digest}
        case NotKept():
            fields = {"not_kept": answer.reason}
        case _:
            assert_never(answer)
    return {"M": {name: {"S": text} for name, text in fields.items()}}


def policy_value(policy: Policy) -> dict[str, Any]:
    """The attribute of a policy, without default values, to keep the record small."""
    fields: Item = {"retention_s": {"N": str(policy.retention_s)}}
    if policy.encoding is not None:
        fields["answer"] = {"S": policy.encoding.value}
    if policy.gone_for_s:
        fields["gone_for_s"] = {"N": str(policy.gone_for_s)}
    if policy.response_version != 1:
        fields["version"] = {"N": str(policy.response_version)}
    if policy.preset != IETF_NAME:
        fields["preset"] = {"S": policy.preset}
    if policy.is_queued:
        fields["queued"] = {"BOOL": True}
    return {"M": fields}


def started_value(step: StartedStep) -> dict[str, Any]:
    """The attribute of a started step."""
    return {
        "M": {
            "name": {"S": step.name},
            "position": {"N": str(step.position)},
            "mark": {"N": str(step.mark)},
            "at": {"N": str(step.at_ms)},
        }
    }


def finished_value(step: FinishedStep) -> dict[str, Any]:
    """The attribute of a finished step, stored under the step's name."""
    fields: Item = {"position": {"N": str(step.position)}, "at": {"N": str(step.at_ms)}}
    if step.result is not None:
        fields["result"] = answer_value(step.result)
    if step.is_final:
        fields["final"] = {"BOOL": True}
    return {"M": fields}


def _policy(fields: Mapping[str, Any]) -> Policy:
    return Policy(
        encoding=Encoding(fields["answer"]["S"]) if "answer" in fields else None,
        retention_s=int(fields["retention_s"]["N"]),
        gone_for_s=int(fields["gone_for_s"]["N"]) if "gone_for_s" in fields else 0,
        response_version=int(fields["version"]["N"]) if "version" in fields else 1,
        preset=fields["preset"]["S"] if "preset" in fields else IETF_NAME,
        is_queued="queued" in fields,
    )


def _steps_value(steps: Steps) -> dict[str, Any]:
    finished = {step.name: finished_value(step) for step in steps.finished}
    fields: Item = {"finished": {"M": finished}}
    if steps.started is not None:
        fields["started"] = started_value(steps.started)
    return {"M": fields}


def _steps(fields: Mapping[str, Any]) -> Steps:
    steps = Steps()
    for name, value in fields["finished"]["M"].items():
        found = value["M"]
        step = FinishedStep(
            name=name,
            position=int(found["position"]["N"]),
            at_ms=int(found["at"]["N"]),
            result=_answer(found["result"]) if "result" in found else None,
            is_final="final" in found,
        )
        steps = steps.finishing(step)
    started = fields.get("started", {}).get("M")
    if started is None:
        return steps
    return steps.starting(
        StartedStep(
            name=started["name"]["S"],
            position=int(started["position"]["N"]),
            mark=int(started["mark"]["N"]),
            at_ms=int(started["at"]["N"]),
        )
    )


def _answer(value: Mapping[str, Any]) -> StoredAnswer:
    (kind, content), *_ = value.items()
    if kind == "M":
        fields = {name: text["S"] for name, text in content.items()}
        if "not_kept" in fields:
            return NotKept(fields["not_kept"])
        place = Place(fields["place"])
        return StoredRef(place=place, name=fields["name"], digest=fields["digest"])
    answer: str | bytes = {"S": content, "B": content}[kind]
    return answer


def _has(item: Mapping[str, Mapping[str, Any]], field: str) -> bool:
    return _ATTRIBUTES[field][0] in item


def _value(item: Mapping[str, Mapping[str, Any]], field: str) -> Any:
    name, kind = _ATTRIBUTES[field]
    text = item[name][kind]
    return int(text) if kind == "N" else text
