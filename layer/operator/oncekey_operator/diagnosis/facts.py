"""What AWS says about the tables and functions of a service.

Nothing is changed. A write that is tried has a condition that no item can meet.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from oncekey.store.dynamodb.schema import DUE_INDEX
from oncekey.telemetry.metrics import service_name
from oncekey_operator.diagnosis.functions import FunctionFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from oncekey_operator.targets import Target

_REFUSED = ("AccessDeniedException", "AccessDenied", "UnauthorizedOperation")
_READS = ("dynamodb:GetItem", "dynamodb:Query")
_NO_ITEM = "oncekey-doctor"
_DAY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """One table. `description` is None if there is no such table."""

    description: Mapping[str, Any] | None
    ttl: Mapping[str, Any] | None = None
    recovery: str | None = None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known. None, or an empty collection, is what could not be asked.

    Attributes:
        records: the table of records.
        outbox: the outbox table; None if none is named.
        relays: the event sources of the outbox's stream.
        denied: the calls that these credentials may not make.
        unasked: what could not be asked, with AWS's words.
        ahead_s: how far this machine's clock is ahead of AWS's.
        may_only_read: these credentials may write nothing, like those of a person who looks.
        functions: the functions that were named, or that the stacks have.
        rules: the state of each EventBridge rule of the stacks.
        lease_used: the 99th percentile of LeaseUsed in percent, of a day, by operation; the largest
            of several services.
        items: some items of the table.
        overdue_s: how long the oldest due record has waited for the reconciler.
        reconciler_every_s: how often the reconciler runs; 0 if nothing calls it.
        dead_letters: about how many there are.
        escalated: about how many messages wait for a person.
    """

    table: str
    records: TableFacts
    outbox: TableFacts | None = None
    relays: Sequence[Mapping[str, Any]] | None = None
    denied: Sequence[str] = ()
    unasked: Mapping[str, str] = field(default_factory=dict[str, str])
    may_only_read: bool = False
    ahead_s: float | None = None
    functions: Sequence[FunctionFacts] = ()
    rules: Mapping[str, str] = field(default_factory=dict[str, str])
    lease_used: Mapping[str, float] = field(default_factory=dict[str, float])
    items: Sequence[Mapping[str, Any]] = ()
    overdue_s: float | None = None
    reconciler_every_s: float = 60
    dead_letters: int | None = None
    escalated: int | None = None
    is_local: bool = False


class Asking:
    """Asks AWS about one service, and remembers what it would not say."""

    def __init__(self, target: Target, *, now: Callable[[], datetime]) -> None:
        self._target = target
        self._now = now
        self._denied: list[str] = []
        self._may_only_read = False
        self._unasked: dict[str, str] = {}
        self._ahead_s: float | None = None
        self._stacks: dict[str, Sequence[Mapping[str, Any]]] = {}

    def facts(
        self,
        *,
        functions: Sequence[str],
        stacks: Sequence[str],
        namespace: str,
        most_items: int,
        reconciler_every_s: float = 60,
    ) -> Facts:
        """Everything. The records table is asked first; without it there is nothing more.

        Raises:
            BotoCoreError: AWS cannot be reached.
        """
        target = self._target
        is_local = target.local is not None
        records = self._table(target.table)
        if records.description is None:
            return Facts(table=target.table, records=records, ahead_s=self._ahead_s)
        outbox = self._table(target.outbox_table) if target.outbox_table else None
        has_index = any(
            one["IndexName"] == DUE_INDEX
            for one in records.description.get("GlobalSecondaryIndexes", [])
        )
        self._try_calls(has_index=has_index, has_outbox=bool(outbox and outbox.description))
        found = () if is_local else (*self._functions(functions, stacks),)
        return Facts(
            table=target.table,
            records=records,
            outbox=outbox,
            relays=None if is_local else self._relays(outbox),
            ahead_s=self._ahead_s,
            functions=found,
            rules=dict(self._rules(stacks)),
            may_only_read=self._may_only_read,
            lease_used={} if is_local or not namespace else self._lease_used(namespace, found),
            items=self._items(most_items) if most_items else (),
            overdue_s=self._overdue_s() if has_index else None,
            reconciler_every_s=(
                target.local.reconciler_every_s if target.local else reconciler_every_s
            ),
            dead_letters=self._dead_letters(target.queue_url),
            escalated=self._waiting("escalations", target.escalation_queue_url),
            is_local=is_local,
            denied=(*self._denied,),
            unasked=self._unasked,
        )

    def _ask(self, what: str, call: Callable[[], Any]) -> Any:
        """The answer, or None if it is refused."""
        from botocore.exceptions import ClientError

        try:
            return call()
        except ClientError as error:
            self._unasked[what] = str(error)
            return None

    def _note_clock(self, answer: Mapping[str, Any]) -> None:
        with suppress(KeyError, ValueError):
            theirs = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
            self._ahead_s = (self._now() - theirs).total_seconds()

    def _table(self, name: str) -> TableFacts:
        from botocore.exceptions import ClientError

        client = self._target.dynamodb
        try:
            answer = client.describe_table(TableName=name)
        except ClientError as error:
            self._note_clock(error.response)
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return TableFacts(description=None)
            raise
        self._note_clock(answer)
        ttl = self._ask("TTL", lambda: client.describe_time_to_live(TableName=name))
        backups = self._ask("backups", lambda: client.describe_continuous_backups(TableName=name))
        found = (backups or {}).get("ContinuousBackupsDescription", {})
        recovery = found.get("PointInTimeRecoveryDescription", {})
        return TableFacts(
            description=answer["Table"],
            ttl=ttl and ttl["TimeToLiveDescription"],
            recovery=recovery.get("PointInTimeRecoveryStatus"),
        )

    def _try_calls(self, *, has_index: bool, has_outbox: bool) -> None:
        client, table = self._target.dynamodb, self._target.table
        key = {"pk": {"S": _NO_ITEM}}
        impossible = "attribute_exists(pk) AND attribute_not_exists(pk)"
        calls: dict[str, Callable[[], Any]] = {
            f"dynamodb:GetItem on {table}": lambda: client.get_item(TableName=table, Key=key),
            f"dynamodb:PutItem on {table}": lambda: client.put_item(
                TableName=table, Item=key, ConditionExpression=impossible
            ),
            f"dynamodb:UpdateItem on {table}": lambda: client.update_item(
                TableName=table,
                Key=key,
                UpdateExpression="REMOVE doctor",
                ConditionExpression=impossible,
            ),
        }
        if has_index:
            calls[f"dynamodb:Query on {table}/index/{DUE_INDEX}"] = lambda: self._due("0", 0)
        if has_outbox:
            outbox, message = self._target.outbox_table, {"id": {"S": _NO_ITEM}}
            never = impossible.replace("pk", "id")
            # An operator requeues messages and deletes them. Only functions write new ones.
            calls[f"dynamodb:UpdateItem on {outbox}"] = lambda: client.update_item(
                TableName=outbox,
                Key=message,
                UpdateExpression="REMOVE doctor",
                ConditionExpression=never,
            )
            calls[f"dynamodb:DeleteItem on {outbox}"] = lambda: client.delete_item(
                TableName=outbox, Key=message, ConditionExpression=never
            )
        for name, call in calls.items():
            self._try_call(name, call)
        writes = [name for name in calls if not name.startswith(_READS)]
        if self._denied == writes:
            self._may_only_read = True
            self._denied.clear()

    def _try_call(self, name: str, call: Callable[[], Any]) -> None:
        from botocore.exceptions import ClientError

        try:
            call()
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in _REFUSED:
                self._denied.append(name)
            elif code != "ConditionalCheckFailedException":
                self._unasked[name] = str(error)

    def _due(self, shard: str, until_ms: int) -> Any:
        return self._target.dynamodb.query(
            TableName=self._target.table,
            IndexName=DUE_INDEX,
            KeyConditionExpression="due_shard = :shard AND due_at <= :until",
            ExpressionAttributeValues={":shard": {"S": shard}, ":until": {"N": str(until_ms)}},
            Limit=1,
        )

    def _overdue_s(self) -> float | None:
        from oncekey.settings import DUE_SHARDS

        client, table = self._target.dynamodb, self._target.table
        key = {"pk": {"S": "due#shards"}}
        noted = self._ask("shards", lambda: client.get_item(TableName=table, Key=key)) or {}
        shards = int(noted.get("Item", {}).get("shards", {}).get("N", DUE_SHARDS))
        now_ms = int(self._now().timestamp() * 1000)
        oldest = now_ms
        for shard in range(max(shards, DUE_SHARDS)):
            page = self._ask("due records", partial(self._due, str(shard), now_ms))
            if page is None:
                return None
            oldest = min([oldest, *(int(item["due_at"]["N"]) for item in page["Items"])])
        return (now_ms - oldest) / 1000

    def _items(self, most: int) -> Sequence[Mapping[str, Any]]:
        client, table = self._target.dynamodb, self._target.table
        page = self._ask("items", lambda: client.scan(TableName=table, Limit=most))
        return page["Items"] if page else ()

    def _dead_letters(self, queue_url: str) -> int | None:
        from oncekey_operator.exits import UsageError
        from oncekey_operator.messages.queues import dead_letters_of

        if not queue_url:
            return None
        client = self._target.client("sqs")
        with suppress(UsageError):  # the queue has none
            queue = self._ask("dead letters", lambda: dead_letters_of(client, queue_url))
            return self._waiting("dead letters", queue.url) if queue else None
        return None

    def _waiting(self, what: str, queue_url: str) -> int | None:
        from oncekey_operator.messages.queues import waiting_in

        if not queue_url:
            return None
        client = self._target.client("sqs")
        waiting: int | None = self._ask(what, lambda: waiting_in(client, queue_url))
        return waiting

    def _relays(self, outbox: TableFacts | None) -> Sequence[Mapping[str, Any]] | None:
        stream = (outbox.description or {}).get("LatestStreamArn") if outbox else None
        if not stream:
            return None
        client = self._target.client("lambda")
        found = self._ask("relay", lambda: client.list_event_source_mappings(EventSourceArn=stream))
        relays: Sequence[Mapping[str, Any]] | None = found and found["EventSourceMappings"]
        return relays

    def _resources(self, stacks: Sequence[str], kind: str) -> list[str]:
        """The names of the stacks' resources of this kind."""
        return [
            one["PhysicalResourceId"]
            for stack in stacks
            for one in self._ask(f"stack {stack}", partial(self._listed, stack)) or []
            # A resource that is being created, or could not be, has no name yet.
            if one["ResourceType"] == kind and one.get("PhysicalResourceId")
        ]

    def _listed(self, stack: str) -> Sequence[Mapping[str, Any]]:
        if stack not in self._stacks:
            pages = self._target.client("cloudformation").get_paginator("list_stack_resources")
            self._stacks[stack] = [
                one
                for page in pages.paginate(StackName=stack)
                for one in page["StackResourceSummaries"]
            ]
        return self._stacks[stack]

    def _rules(self, stacks: Sequence[str]) -> Iterator[tuple[str, str]]:
        client = self._target.client("events") if stacks else None
        for name in self._resources(stacks, "AWS::Events::Rule"):
            assert client is not None
            rule = self._ask(f"rule {name}", partial(client.describe_rule, Name=name))
            if rule is not None:
                yield name, rule["State"]

    def _functions(self, names: Sequence[str], stacks: Sequence[str]) -> Iterator[FunctionFacts]:
        found = [*names, *self._resources(stacks, "AWS::Lambda::Function")]
        client = self._target.client("lambda") if found else None
        for name in found:
            assert client is not None
            one = self._ask(
                f"function {name}",
                partial(client.get_function_configuration, FunctionName=name),
            )
            if one is None:
                continue
            bound = self._ask(
                f"concurrency of {name}",
                partial(client.get_function_concurrency, FunctionName=name),
            )
            yield FunctionFacts(
                name=name,
                timeout_s=one["Timeout"],
                variables=one.get("Environment", {}).get("Variables", {}),
                is_stopped=(bound or {}).get("ReservedConcurrentExecutions") == 0,
                is_named=name in names,
            )

    def _lease_used(
        self, namespace: str, functions: Sequence[FunctionFacts]
    ) -> Mapping[str, float]:
        client = self._target.client("cloudwatch")
        pages = client.get_paginator("list_metrics")
        listed = self._ask(
            "metrics",
            lambda: [
                *pages.paginate(Namespace=namespace, MetricName="LeaseUsed").search("Metrics")
            ],
        )
        # Services of one account may share a namespace.
        services = {service_name(each.variables) for each in functions}
        found: dict[str, float] = {}
        for metric in listed or []:
            names = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
            if "operation" not in names or (services and names.get("service") not in services):
                continue
            got = self._ask(
                "metrics",
                partial(
                    client.get_metric_statistics,
                    Namespace=namespace,
                    MetricName="LeaseUsed",
                    Dimensions=metric["Dimensions"],
                    StartTime=self._now() - _DAY,
                    EndTime=self._now(),
                    Period=int(_DAY.total_seconds()),
                    ExtendedStatistics=["p99"],
                ),
            )
            points = (got or {}).get("Datapoints", [])
            if points:
                used = points[0]["ExtendedStatistics"]["p99"]
                found[names["operation"]] = max(used, found.get(names["operation"], 0))
        return found


def utc_now() -> datetime:
    """The time, by the layer's clock."""
    from oncekey.clock import SystemClock

    return datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
