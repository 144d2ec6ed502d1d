"""What an operator's commands may do, and the outputs by which they find the resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from oncekey_local.description import BucketName, QueueUrl, TableName
from oncekey_local.description.actions import (
    DELETE_ACTIONS,
    FETCH_ACTIONS,
    KEEP_ACTIONS,
    LIST_ACTIONS,
    READ_ACTIONS,
    RESERVE_ACTIONS,
    SCAN_ACTIONS,
    UPDATE_ACTIONS,
)

from .arguments import explained
from .event_sources import grant_receive, grant_send
from .faults import refuse
from .grants import (
    DESCRIBE_ACTIONS,
    FETCH_KEY_ACTIONS,
    FIND_QUEUE_ACTIONS,
    KEEP_KEY_ACTIONS,
    LOOK_ACTIONS,
    REMOVE_OBJECT_ACTIONS,
    STACK_ACTIONS,
    allow,
    allow_key,
)
from .outbox import Outbox, OutboxTable

if TYPE_CHECKING:
    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_sqs as sqs

    from oncekey_local.description import Service

    from .audit_table import AuditTable
    from .described.service_resources import ServiceResources
    from .idempotency_table import IdempotencyTable
    from .reconciler import Reconciler
    from .response_bucket import ResponseBucket


@explained
class OncekeyOperators(Construct):
    """Lets people operate a service with `oncekey show`, `list`, `resolve` and the others.

        operators = OncekeyOperators(self, "Operators", table=records, audit=audit)
        operators.grant_act(role)

    The stack gets outputs, so that `oncekey list --stack NAME` finds the resources. A stack has
    one of these constructs. `described` makes one for a description.

    Args:
        table: The table of records.
        audit: The audit table.
        outbox: The outbox, or its table.
        responses: The bucket of large answers.
        reconciler: The reconciler, for its escalation queue.
        queue: The queue that the relay sends to; by default the outbox's.
        dead_letters: Its dead letters; the same.
        escalated: The queue of what nobody else can settle; by default the reconciler's.

    Raises:
        ValueError: An argument is wrong. The message lists all faults.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        table: IdempotencyTable,
        audit: AuditTable,
        outbox: Outbox | OutboxTable | None = None,
        responses: ResponseBucket | None = None,
        reconciler: Reconciler | None = None,
        queue: sqs.IQueue | None = None,
        dead_letters: sqs.IQueue | None = None,
        escalated: sqs.IQueue | None = None,
    ) -> None:
        refuse(_others(scope), scope=scope, construct_id=construct_id, kind="OncekeyOperators")
        super().__init__(scope, construct_id)
        self._table = table
        self._audit = audit
        self._outbox = outbox.table if isinstance(outbox, Outbox) else outbox
        self._responses = responses
        if isinstance(outbox, Outbox):
            queue, dead_letters = queue or outbox.queue, dead_letters or outbox.dead_letters
        if reconciler is not None:
            escalated = escalated or reconciler.escalated
        self._queue, self._dead_letters, self._escalated = queue, dead_letters, escalated
        outputs: dict[str, str | None] = {
            "OncekeyTable": table.name_for(self),
            "OncekeyAuditTable": audit.name_for(self),
            "OncekeyOutboxTable": self._outbox.name_for(self) if self._outbox else None,
            "OncekeyResponseBucket": responses.bucket_name if responses else None,
            "OncekeyQueueUrl": queue.queue_url if queue else None,
            "OncekeyEscalationQueueUrl": escalated.queue_url if escalated else None,
        }
        for name, value in outputs.items():
            if value is not None:
                CfnOutput(self, name, value=value).override_logical_id(name)

    @classmethod
    def described(
        cls,
        scope: Construct,
        construct_id: str,
        service: Service,
        *,
        resources: ServiceResources,
        audit: AuditTable,
    ) -> OncekeyOperators:
        """Make it for a description: for the resources that its functions' variables name.

            OncekeyOperators.described(
                stack, "Operators", SERVICE, resources=created.resources,
                audit=AuditTable(stack, "Audit"),
            )

        Raises:
            ValueError: Functions name no table of records, or two resources in one variable.
        """
        named, faults = _named(service)
        refuse(faults, scope=scope, construct_id=construct_id, kind=cls.__name__)
        tables, queues = resources.tables, resources.queues
        queue = named.get("ONCEKEY_QUEUE_URL")
        (dead_letters,) = [one.dead_letters for one in service.queues if one.name == queue] or [""]
        given: Any = {
            "outbox": tables.get(named.get("ONCEKEY_OUTBOX_TABLE", "")),
            "responses": resources.buckets.get(named.get("ONCEKEY_RESPONSE_BUCKET", "")),
            "queue": queues.get(named.get("ONCEKEY_QUEUE_URL", "")),
            "dead_letters": queues.get(dead_letters),
            "escalated": queues.get(named.get("ONCEKEY_ESCALATION_QUEUE_URL", "")),
        }
        table: Any = tables[named["ONCEKEY_TABLE"]]
        return cls(scope, construct_id, table=table, audit=audit, **given)

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` look: show, list, tail, outbox, doctor, a console that changes nothing.

        It sees tenants and answers, and the audit lines. Not allowed is what `doctor` asks about
        functions, rules and metrics: it tells of that, and goes on.
        """
        self._table.allow(grantee, *READ_ACTIONS, *SCAN_ACTIONS)
        if self._table.has_due_index:
            self._table.grant_due(grantee)
        allow(grantee, DESCRIBE_ACTIONS, self._table.table_arn)
        allow(grantee, STACK_ACTIONS, Stack.of(self).stack_id)
        self._audit.grant_read(grantee)
        if self._outbox is not None:
            self._outbox.allow(grantee, *SCAN_ACTIONS)
            allow(grantee, DESCRIBE_ACTIONS, self._outbox.table_arn)
        for queue in (self._queue, self._escalated):
            if queue is not None:
                allow(grantee, LOOK_ACTIONS, queue.queue_arn)
        if self._dead_letters is not None:
            allow(grantee, (*LOOK_ACTIONS, *FIND_QUEUE_ACTIONS), self._dead_letters.queue_arn)
        if self._responses is not None:
            bucket = self._responses.bucket
            allow(grantee, FETCH_ACTIONS, bucket.arn_for_objects("*"))
            allow(grantee, LIST_ACTIONS, bucket.bucket_arn)
            key = self._responses.encryption_key
            allow_key(grantee, FETCH_KEY_ACTIONS, key, service="s3")

    def grant_act(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` look and act: resolve, bust, erase, pause, redrive, move and the others."""
        self.grant_read(grantee)
        # Not `grant_reserve`: that forbids to pause.
        self._table.allow(grantee, *RESERVE_ACTIONS, *DELETE_ACTIONS)
        self._audit.grant_append(grantee)
        if self._outbox is not None:
            self._outbox.allow(grantee, *UPDATE_ACTIONS, *DELETE_ACTIONS)
        if self._queue is not None and self._dead_letters is not None:
            grant_send(grantee, self._queue)
            grant_receive(grantee, self._dead_letters)
        if self._responses is not None:
            bucket = self._responses.bucket
            allow(grantee, (*KEEP_ACTIONS, *REMOVE_OBJECT_ACTIONS), bucket.arn_for_objects("*"))
            key = self._responses.encryption_key
            allow_key(grantee, KEEP_KEY_ACTIONS, key, service="s3")


def _others(scope: Construct) -> list[str]:
    return [
        f"the stack has {one.node.path!r} already, whose outputs have the same names: use that one"
        for one in Stack.of(scope).node.find_all()
        if isinstance(one, OncekeyOperators) and Stack.of(one) is Stack.of(scope)
    ]


def _named(service: Service) -> tuple[dict[str, str], list[str]]:
    """The resources that ONCEKEY_ variables name, and what is wrong with them."""
    found: dict[str, set[str]] = {"ONCEKEY_TABLE": set()}
    for function in service.functions:
        for variable, value in function.environment.items():
            match value:
                case TableName(table=name) | BucketName(bucket=name) | QueueUrl(queue=name):
                    found.setdefault(variable, set()).add(name)
                case _:
                    pass
    ours = {variable: names for variable, names in found.items() if variable.startswith("ONCEKEY_")}
    faults = [
        f"the description's functions name {', '.join(sorted(names))} in {variable}: operators"
        " work on one, so pass it to OncekeyOperators itself"
        for variable, names in ours.items()
        if len(names) > 1
    ]
    if not ours["ONCEKEY_TABLE"]:
        faults.append("no function of the description names a table of records in ONCEKEY_TABLE")
    return {variable: min(names) for variable, names in ours.items() if names}, faults
