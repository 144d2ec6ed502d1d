"""The table for notes of who settled what, when and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from aws_cdk import aws_dynamodb as dynamodb

from oncekey.store.dynamodb.schema import AUDIT

from .arguments import explained
from .grants import APPEND_ACTIONS
from .safe_table import SafeTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_kms as kms
    from constructs import Construct

_STRING = dynamodb.AttributeType.STRING


@explained
class AuditTable(SafeTable):
    """Notes of settlements and operators' actions, in order of time, under their record's key.

    The grants allow putting and reading, not updating or deleting. IAM cannot forbid to put an
    entry in the place of another one; point-in-time recovery has what was there. An entry expires
    at its own `expires_at`, or never without one.

    Raises:
        ValueError: An argument is wrong. The message lists all faults.
    """

    _kind = "AuditTable"
    _fixed: ClassVar[Mapping[str, str]] = {
        "partition_key": "entries are found by their record's key",
        "sort_key": "entries of one record are in the order of time",
        "time_to_live_attribute": "entries expire by it, and DynamoDB cannot rename it",
    }

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        keeps_data: bool = True,
        encryption_key: kms.IKey | None = None,
        existing: dynamodb.ITable | None = None,
        table_props: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            partition_key=dynamodb.Attribute(name=AUDIT.partition_key, type=_STRING),
            sort_key=dynamodb.Attribute(name=AUDIT.sort_key, type=_STRING),
            ttl_attribute=AUDIT.ttl_attribute,
            keeps_data=keeps_data,
            encryption_key=encryption_key,
            existing=existing,
            table_props=table_props,
        )

    def grant_append(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` add entries."""
        self.allow(grantee, *APPEND_ACTIONS)

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` list the entries of a record."""
        self.allow(grantee, "dynamodb:Query")
