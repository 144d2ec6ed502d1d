"""Calls the deployed reconciler as its schedule does, after making a record due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey_local.identifiers import now_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.local_deployment.cloud import Cloud

_TEN_MINUTES_MS = 600_000
_EACH_MINUTE = "rate(1 minute)"


def grow_old(cloud: Cloud, table: str) -> None:
    """Let what is in doubt have been so for ten minutes: nobody waits for its lease to end.

    Args:
        cloud: Where it is deployed.
        table: The physical name of the idempotency table.
    """
    dynamodb = cloud.client("dynamodb")
    then = {"N": str(now_ms() - _TEN_MINUTES_MS)}
    for item in dynamodb.scan(TableName=table)["Items"]:
        if item.get("status") == {"S": "UNKNOWN"}:
            dynamodb.update_item(
                TableName=table,
                Key={"pk": item["pk"]},
                UpdateExpression="SET due_at = :then, lease_until = :then",
                ExpressionAttributeValues={":then": then},
            )


def call_as_scheduled(cloud: Cloud) -> Mapping[str, object]:
    """Call what the deployed rule calls each minute, with what it hands over.

    Returns:
        Lambda's answer to that.

    Raises:
        RuntimeError: No rule is deployed that calls anything each minute.
    """
    events, calls = cloud.client("events"), []
    for rule in events.list_rules()["Rules"]:
        if rule.get("ScheduleExpression") == _EACH_MINUTE and rule["State"] == "ENABLED":
            calls += events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
    if len(calls) != 1:
        raise RuntimeError(f"{len(calls)} functions are called each minute, and not one")
    answer: Mapping[str, object] = cloud.client("lambda").invoke(
        FunctionName=calls[0]["Arn"], Payload=calls[0].get("Input", "{}")
    )
    return answer
