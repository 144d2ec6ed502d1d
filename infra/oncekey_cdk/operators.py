"""What an operator's commands may do, and the outputs by which they find the resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import CfnOutput, Stack
from constructs import Construct

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

    from .audit_table import AuditTable
    from .idempotency_table import IdempotencyTable
    from .reconciler import Reconciler
    from .response_bucket import ResponseBucket


@explained
class OncekeyOperators(Construct):
    """Lets people operate a service with `oncekey show`, `list`, `resolve` and the others.

        operators = OncekeyOperators(self, "Operators", table=records, audit=audit)
        operators.grant_act(role)

    The stack gets outputs, so that `oncekey list --stack NAME` finds the resources. A stack has
    one of these constructs.

    Args:
        table: The table of records.
        audit: The audit table.
        outbox: The outbox, or its table.
        responses: The bucket of large answers.
        reconciler: The reconciler, for its escalation queue.

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
    ) -> None:
        super().__init__(scope, construct_id)
        self._table = table
        self._audit = audit
        self._outbox = outbox.table if isinstance(outbox, Outbox) else outbox
        self._responses = responses
        self._queues = (outbox.queue, outbox.dead_letters) if isinstance(outbox, Outbox) else None
        self._escalated = None if reconciler is None else reconciler.escalated
        outputs = {
            "OncekeyTable": table.table_name,
            "OncekeyAuditTable": audit.table_name,
        }
        if self._outbox is not None:
            outputs["OncekeyOutboxTable"] = self._outbox.table_name
        if isinstance(outbox, Outbox):
            outputs["OncekeyQueueUrl"] = outbox.queue.queue_url
        if self._escalated is not None:
            outputs["OncekeyEscalationQueueUrl"] = self._escalated.queue_url
        if responses is not None:
            outputs["OncekeyResponseBucket"] = responses.bucket_name
        for name, value in outputs.items():
            CfnOutput(self, name, value=value).override_logical_id(name)

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
        for queue in (*(self._queues or ()), self._escalated):
            if queue is not None:
                allow(grantee, LOOK_ACTIONS, queue.queue_arn)
        if self._queues is not None:
            allow(grantee, FIND_QUEUE_ACTIONS, self._queues[1].queue_arn)
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
        if self._queues is not None:
            queue, dead_letters = self._queues
            grant_send(grantee, queue)
            grant_receive(grantee, dead_letters)
        if self._responses is not None:
            bucket = self._responses.bucket
            allow(grantee, (*KEEP_ACTIONS, *REMOVE_OBJECT_ACTIONS), bucket.arn_for_objects("*"))
            key = self._responses.encryption_key
            allow_key(grantee, KEEP_KEY_ACTIONS, key, service="s3")
