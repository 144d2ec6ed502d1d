"""Queries of the functions' logs, saved in Log Insights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Stack
from aws_cdk import aws_logs as logs

from oncekey.telemetry.metrics import CATALOGUE, COUNT, OF_REQUESTS

if TYPE_CHECKING:
    from constructs import Construct

_OF_ONE = (
    "fields @timestamp, oncekey_event, operation, operation_id, attempt, owner, age_ms, reason"
)
# A log line with a tenant, of the layer's or of yours, is no request; a line of metrics is.
_COUNTS_A_REQUEST = " or ".join(
    f"ispresent({metric.name})"
    for metric in CATALOGUE
    if metric.dimensions == OF_REQUESTS and metric.unit == COUNT
)
# Each is a question, by its name. `operation_id` and the like are fields of the layer's log lines.
OF_FUNCTIONS = {
    "What happened to one operation": (
        f"{_OF_ONE}, message\n"
        '| filter operation_id = "put-the-operation-id-here"\n'
        "| sort @timestamp asc\n"
        "| limit 1000"
    ),
    "What somebody should act on": (
        f"{_OF_ONE}, message\n"
        '| filter ispresent(oncekey_event) and level = "ERROR"\n'
        "| sort @timestamp desc\n"
        "| limit 200"
    ),
    "Which events, by operation": (
        "filter ispresent(oncekey_event)\n"
        "| stats count(*) as events, max(age_ms) as oldest_ms by oncekey_event, operation\n"
        "| sort events desc"
    ),
    "Which keys come most often": (
        'filter oncekey_event in ["replayed", "refused"]\n'
        "| stats count(*) as requests by operation, oncekey_event, reference\n"
        "| sort requests desc\n"
        "| limit 50"
    ),
    "Which tenants repeat requests": (
        f"filter ispresent(tenant) and ({_COUNTS_A_REQUEST})\n"
        "| stats count(*) as requests, sum(Replayed) as replayed, sum(InProgress) as in_progress,"
        " sum(KeyReused) as key_reused by tenant, operation\n"
        "| sort replayed desc\n"
        "| limit 50"
    ),
    "What became unknown, and why": (
        f"{_OF_ONE}, message\n"
        '| filter oncekey_event in ["outcome-unknown", "lease-expired", "escalated"]\n'
        "| sort @timestamp desc\n"
        "| limit 200"
    ),
    "Why the store failed": (
        'filter oncekey_event = "store-unavailable"\n'
        "| stats count(*) as failures by bin(5m), kind, reason, operation\n"
        "| sort failures desc"
    ),
    "Runs of the reconciler": (
        "fields @timestamp, visited, settled, still_unknown, escalated, failed, resent\n"
        '| filter oncekey_event = "reconciled"\n'
        "| sort @timestamp desc\n"
        "| limit 200"
    ),
    "Messages that failed": (
        "filter oncekey_event in"
        ' ["message-failed", "message-set-aside", "message-rejected", "topic-unknown"]\n'
        "| stats count(*) as failures, max(receives) as most_receives by oncekey_event, reason\n"
        "| sort failures desc"
    ),
    "Which functions were cut off": (
        "filter @message like /Task timed out|Runtime.ExitError|OutOfMemory/\n"
        "| stats count(*) as killed by @log, bin(5m)\n"
        "| sort killed desc"
    ),
}
OF_APIS = {
    "Refusals by route": (
        "filter status like /^4/\n| stats count(*) as refused by route, status\n| sort refused desc"
    ),
    "Failures by route": (
        "filter status like /^5/\n"
        "| stats count(*) as failures by route, status, integration_error\n"
        "| sort failures desc"
    ),
}


class SavedQueries:
    """Queries of one kind, over the log groups that are added. They are made with the first one.

    Log Insights shows them in a folder. It is named after the stack, so those of two stacks do not
    mix. Those of a second `Observability` of the stack are in a folder below, named after it.
    """

    def __init__(self, scope: Construct, questions: dict[str, str]) -> None:
        self._scope, self._questions = scope, questions
        self._groups: list[str] = []
        self._definitions: list[logs.CfnQueryDefinition] = []

    def add(self, group: logs.ILogGroup) -> None:
        """Let the queries read this log group, too."""
        if group.log_group_name in self._groups:
            return
        self._groups.append(group.log_group_name)
        if not self._definitions:
            folder = self._folder()
            self._definitions = [
                logs.CfnQueryDefinition(
                    self._scope,
                    "Query" + "".join(letter for letter in question.title() if letter.isalnum()),
                    name=f"{folder}/{question}",
                    query_string=text,
                )
                for question, text in self._questions.items()
            ]
        for definition in self._definitions:
            definition.log_group_names = self._groups

    def _folder(self) -> str:
        stack = Stack.of(self._scope)
        folder = stack.stack_name
        taken = {
            one.name for one in stack.node.find_all() if isinstance(one, logs.CfnQueryDefinition)
        }
        if not taken & {f"{folder}/{question}" for question in self._questions}:
            return folder
        inside = self._scope.node.scopes[len(stack.node.scopes) :]
        return "/".join([folder, *(each.node.id for each in inside)])
