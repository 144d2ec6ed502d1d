"""The table of idempotency records, and who may do what to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from aws_cdk import Token
from aws_cdk import aws_dynamodb as dynamodb

from oncekey.store.dynamodb.schema import (
    DUE_INDEX,
    DUE_PARTITION_KEY,
    DUE_SORT_KEY,
    IDEMPOTENCY,
)
from oncekey_local.description.actions import DUE_ACTIONS, READ_ACTIONS, RESERVE_ACTIONS

from .arguments import explained
from .faults import refuse
from .grants import PAUSE_ACTIONS, PAUSES_KEY, deny_items
from .safe_table import SafeTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_kms as kms
    from constructs import Construct

_STRING, _NUMBER = dynamodb.AttributeType.STRING, dynamodb.AttributeType.NUMBER
_SCHEMA = "the layer reads and writes it under this name, and DynamoDB cannot rename it"

NO_INDEX = "the table has no index due (due_index=False), and a reconciler finds records only by it"


@explained
class IdempotencyTable(SafeTable):
    """The table of records, with the key, TTL and index that the layer needs.

        records = IdempotencyTable(self, "Records")
        records.grant_reserve(function)

    Every default can be overridden, except the schema. `from_table_name` and `from_table_arn` use
    an existing table, such as one that an earlier deployment left behind.

    Without `due_index`, a first request costs two write units fewer, and there is no
    reconciliation: nobody finds an attempt that died, and recorded effects, queued work and a
    `Reconciler` are refused. layer/docs/reference/limits.md says what remains.

    Attributes:
        has_due_index: Whether it has the index by which a reconciler finds open records.

    Raises:
        ValueError: An argument is wrong. The message lists all faults.
    """

    _kind = "IdempotencyTable"
    _fixed: ClassVar[Mapping[str, str]] = {
        "partition_key": _SCHEMA,
        "sort_key": "a record is one item",
        "time_to_live_attribute": _SCHEMA,
        "replication_regions": (
            "a condition sees one Region's copy only, so two Regions could both run a request; give"
            " each Region a table of its own, and each tenant one Region"
        ),
    }

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        keeps_data: bool = True,
        encryption_key: kms.IKey | None = None,
        existing: dynamodb.ITable | None = None,
        due_index: bool = True,
        table_props: Mapping[str, Any] | None = None,
    ) -> None:
        index = {
            "index_name": DUE_INDEX,
            "partition_key": dynamodb.Attribute(name=DUE_PARTITION_KEY, type=_STRING),
            "sort_key": dynamodb.Attribute(name=DUE_SORT_KEY, type=_NUMBER),
            "projection_type": dynamodb.ProjectionType.KEYS_ONLY,
        }
        self.has_due_index = due_index
        super().__init__(
            scope,
            construct_id,
            partition_key=dynamodb.Attribute(name=IDEMPOTENCY.partition_key, type=_STRING),
            ttl_attribute=IDEMPOTENCY.ttl_attribute,
            indexes=(index,) if due_index else (),
            keeps_data=keeps_data,
            encryption_key=encryption_key,
            existing=existing,
            table_props=table_props,
        )

    @classmethod
    def from_table_name(
        cls,
        scope: Construct,
        construct_id: str,
        table_name: str,
        *,
        encryption_key: kms.IKey | None = None,
        due_index: bool = True,
    ) -> IdempotencyTable:
        """An existing table of this account and Region, by its name.

        It must have the schema, and is not changed. If it has a customer's key, pass it as
        `encryption_key`; otherwise the grants do not include the key.
        """
        is_arn = table_name.startswith("arn:") and not Token.is_unresolved(table_name)
        faults = [f"{table_name!r} is an ARN: use from_table_arn"] if is_arn else []
        refuse(faults, scope=scope, construct_id=construct_id, kind=cls._kind)
        table = dynamodb.Table.from_table_name(scope, f"{construct_id}Existing", table_name)
        return cls(
            scope,
            construct_id,
            existing=table,
            encryption_key=encryption_key,
            due_index=due_index,
        )

    @classmethod
    def from_table_arn(
        cls,
        scope: Construct,
        construct_id: str,
        table_arn: str,
        *,
        encryption_key: kms.IKey | None = None,
        due_index: bool = True,
    ) -> IdempotencyTable:
        """The same by its ARN. Another account must allow the access too.

        A function then names the table by its ARN, because DynamoDB looks up a name in the account
        of its caller.
        """
        table = dynamodb.Table.from_table_arn(scope, f"{construct_id}Existing", table_arn)
        return cls(
            scope,
            construct_id,
            existing=table,
            encryption_key=encryption_key,
            due_index=due_index,
        )

    def grant_reserve(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` run protected handlers: reserve, complete, release, and no more.

        It may read what is paused, and not change it.
        """
        self.allow(grantee, *RESERVE_ACTIONS)
        self.deny_pauses(grantee)

    def deny_pauses(self, grantee: iam.IGrantable) -> None:
        """Forbid `grantee` to change what is paused, whatever else it may write here."""
        deny_items(grantee, PAUSE_ACTIONS, self.table.table_arn, PAUSES_KEY)

    def grant_reconcile(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` find due records by the index, and settle them."""
        self.grant_reserve(grantee)
        self.grant_due(grantee)

    def grant_due(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` query the index for due records.

        Raises:
            ValueError: The table has no index.
        """
        if not self.has_due_index:
            raise ValueError(f"{self.node.path}: {NO_INDEX}")
        self.allow(grantee, *DUE_ACTIONS, below=f"/index/{DUE_INDEX}")

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` show records, as `GET /operations/{operation_id}` does."""
        self.allow(grantee, *READ_ACTIONS)
