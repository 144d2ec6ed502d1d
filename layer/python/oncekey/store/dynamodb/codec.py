"""Records as DynamoDB items, both ways.

The attribute names are a contract with tables already in use.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, assert_never

from oncekey.errors import StoreError
from oncekey.record.policy import IETF_NAME, Encoding, Policy
from oncekey.record.record import Due, Effects, Record, Status
from oncekey.record.steps import NO_STEPS, FinishedStep, StartedStep, Steps
from oncekey.record.stored_answer import NotKept, Place, StoredRef
from oncekey.settings import RECONCILE_GRACE_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey.record.stored_answer import StoredAnswer

Item = dict[str, dict[str, Any]]


class RecordUnreadable(StoreError):  # noqa: N818 -- a property of the item
    """An item is no record, or a newer release wrote it. Others of its table may be well."""


_USUAL_GRACE = str(RECONCILE_GRACE_MS)
# The initial steps of a recorded operation. Updates can then set the paths in it one by one.
NO_STEPS_VALUE: dict[str, Any] = {"M": {"finished": {"M": {}}}}
# The attributes of the states and the kinds of effects. An access to `.value` is slow.
STATUS_VALUES: dict[Status, dict[str, Any]] = {each: {"S": each.value} for each in Status}
EFFECTS_VALUES: dict[Effects, dict[str, Any]] = {each: {"S": each.value} for each in Effects}
_ENCODING_VALUES: dict[Encoding, dict[str, Any]] = {each: {"S": each.value} for each in Encoding}
_STATUSES = {each.value: each for each in Status}
_EFFECTS = {each.value: each for each in Effects}
_ENCODINGS = {each.value: each for each in Encoding}
_RECORDED = Effects.RECORDED.value


def attribute_values(record: Record) -> Item:
    """The attributes of `record`, without the empty and absent ones."""
    item: Item = {
        "pk": {"S": record.pk},
        "status": STATUS_VALUES[record.status].copy(),
        "rev": {"N": str(record.rev)},
        "tenant": {"S": record.tenant},
        "operation": {"S": record.operation},
        "operation_id": {"S": record.operation_id},
        "fingerprint": {"S": record.fingerprint},
        "owner": {"S": record.owner},
        "attempt": {"N": str(record.attempt)},
        "effects": EFFECTS_VALUES[record.effects].copy(),
        "created_at": {"N": str(record.created_at_ms)},
    }
    if record.principal:
        item["principal"] = {"S": record.principal}
    if record.key:
        item["key"] = {"S": record.key}
    if record.lease_until_ms:
        item["lease_until"] = {"N": str(record.lease_until_ms)}
    if record.completed_at_ms:
        item["completed_at"] = {"N": str(record.completed_at_ms)}
    if record.expires_at_s:
        item["expires_at"] = {"N": str(record.expires_at_s)}
    if record.response_version:
        item["response_version"] = {"N": str(record.response_version)}
    if record.reconcile_attempts:
        item["reconcile_attempts"] = {"N": str(record.reconcile_attempts)}
    if record.last_error:
        item["last_error"] = {"S": record.last_error}
    if record.escalated_at_ms:
        item["escalated_at"] = {"N": str(record.escalated_at_ms)}
    if record.request_digest:
        item["request_digest"] = {"S": record.request_digest}
    if record.traceparent:
        item["traceparent"] = {"S": record.traceparent}
    if record.response is not None:
        item["response"] = answer_value(record.response)
    if record.request is not None:
        item["request"] = answer_value(record.request)
    if record.policy is not None:
        item["policy"] = policy_value(record.policy)
    if record.effects is Effects.RECORDED or record.steps != NO_STEPS:
        item["steps"] = _steps_value(record.steps)
    if record.due is not None:
        # An item without `due_shard` is not in the index, which then costs nothing.
        if record.due.shard:
            item["due_shard"] = {"S": record.due.shard}
        item["due_at"] = {"N": str(record.due.at_ms)}
    return item


def record_from_item(item: Mapping[str, Mapping[str, Any]]) -> Record:
    """Read an item back.

    Raises:
        RecordUnreadable: the item is not a record of oncekey, or a newer release wrote it. The
            error is not transient, and nothing runs.
    """
    try:
        status, effects = item["status"]["S"], item["effects"]["S"]
        return Record(
            pk=item["pk"]["S"],
            # An unknown text raises the enumeration's own error, which says what it is.
            status=_STATUSES.get(status) or Status(status),
            rev=int(item["rev"]["N"]),
            tenant=item["tenant"]["S"],
            operation=item["operation"]["S"],
            operation_id=item["operation_id"]["S"],
            fingerprint=item["fingerprint"]["S"],
            owner=item["owner"]["S"],
            attempt=int(item["attempt"]["N"]),
            effects=_EFFECTS.get(effects) or Effects(effects),
            created_at_ms=int(item["created_at"]["N"]),
            key=item["key"]["S"] if "key" in item else "",
            principal=item["principal"]["S"] if "principal" in item else "",
            lease_until_ms=int(item["lease_until"]["N"]) if "lease_until" in item else None,
            completed_at_ms=int(item["completed_at"]["N"]) if "completed_at" in item else None,
            expires_at_s=int(item["expires_at"]["N"]) if "expires_at" in item else None,
            due=_due(item) if "due_at" in item else None,
            # A recorded record always has its steps. Without them, a finished one would run again.
            steps=(
                _steps(item["steps"]["M"]) if "steps" in item or effects == _RECORDED else NO_STEPS
            ),
            response=_answer(item["response"]) if "response" in item else None,
            response_version=(
                int(item["response_version"]["N"]) if "response_version" in item else None
            ),
            reconcile_attempts=(
                int(item["reconcile_attempts"]["N"]) if "reconcile_attempts" in item else 0
            ),
            last_error=item["last_error"]["S"] if "last_error" in item else None,
            escalated_at_ms=int(item["escalated_at"]["N"]) if "escalated_at" in item else None,
            request=_content(item["request"]) if "request" in item else None,
            request_digest=item["request_digest"]["S"] if "request_digest" in item else None,
            policy=_policy(item["policy"]["M"]) if "policy" in item else None,
            traceparent=item["traceparent"]["S"] if "traceparent" in item else "",
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"the stored record cannot be read ({error})"
        raise RecordUnreadable(reason, transient=False) from error


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
        fields["answer"] = _ENCODING_VALUES[policy.encoding].copy()
    if policy.gone_for_s:
        fields["gone_for_s"] = {"N": str(policy.gone_for_s)}
    if policy.response_version != 1:
        fields["version"] = {"N": str(policy.response_version)}
    if policy.preset != IETF_NAME:
        fields["preset"] = {"S": policy.preset}
    if policy.is_queued:
        fields["queued"] = {"BOOL": True}
    if policy.grace_ms != RECONCILE_GRACE_MS:
        fields["grace_ms"] = {"N": str(policy.grace_ms)}
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
    return _policy_of(
        _encoding(fields["answer"]["S"]) if "answer" in fields else None,
        fields["retention_s"]["N"],
        fields["gone_for_s"]["N"] if "gone_for_s" in fields else "0",
        fields["version"]["N"] if "version" in fields else "1",
        fields["preset"]["S"] if "preset" in fields else IETF_NAME,
        "queued" in fields,
        fields["grace_ms"]["N"] if "grace_ms" in fields else _USUAL_GRACE,
    )


def _encoding(text: str) -> Encoding:
    return _ENCODINGS.get(text) or Encoding(text)


# A service has few policies, and almost every record that it reads has one of them.
@lru_cache(maxsize=64)
def _policy_of(
    encoding: Encoding | None,
    retention_s: str,
    gone_for_s: str,
    response_version: str,
    preset: str,
    is_queued: bool,  # noqa: FBT001 -- a cache with keywords is slower than none
    grace_ms: str,
) -> Policy:
    return Policy(
        encoding=encoding,
        retention_s=int(retention_s),
        gone_for_s=int(gone_for_s),
        response_version=int(response_version),
        preset=preset,
        is_queued=is_queued,
        grace_ms=int(grace_ms),
    )


def _due(item: Mapping[str, Mapping[str, Any]]) -> Due:
    shard = item["due_shard"]["S"] if "due_shard" in item else ""
    return Due(shard=shard, at_ms=int(item["due_at"]["N"]))


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
    if "started" not in fields:
        return steps
    started = fields["started"]["M"]
    return steps.starting(
        StartedStep(
            name=started["name"]["S"],
            position=int(started["position"]["N"]),
            mark=int(started["mark"]["N"]),
            at_ms=int(started["at"]["N"]),
        )
    )


def _answer(value: Mapping[str, Any]) -> StoredAnswer:
    if "M" not in value:
        return _content(value)
    fields = {name: text["S"] for name, text in value["M"].items()}
    if "not_kept" in fields:
        return NotKept(fields["not_kept"])
    return StoredRef(place=Place(fields["place"]), name=fields["name"], digest=fields["digest"])


def _content(value: Mapping[str, Any]) -> str | bytes:
    content: str | bytes = value["S"] if "S" in value else value["B"]
    return content
