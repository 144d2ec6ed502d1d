"""A DynamoDB table with the defaults that data of a payment deserves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from .existing_tables import Schema, existing_faults
from .faults import overridden, override_faults, refuse, without_none
from .grants import (
    TABLE_READ_KEY_ACTIONS,
    TABLE_WRITE_KEY_ACTIONS,
    allow,
    allow_key,
)
from .synth_checks import OncekeyChecks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_kms as kms

    from .faults import Props


class SafeTable(Construct):
    """A table: on demand, recoverable to any second, encrypted, and kept.

    It has no fixed physical name: a retained table of that name would block the next fresh
    deployment, and a rollback. It is a `Table` and no `TableV2`, which is a global table to
    CloudFormation; infra/README.md says what a second Region means to conditions.

    Attributes:
        table: The table, ours or the one that was passed in.
        encryption_key: The customer's key that it is encrypted under, if any.

    Args:
        partition_key: The partition key.
        sort_key: The sort key, if there is one.
        ttl_attribute: The attribute with the epoch second after which DynamoDB may delete an item.
        indexes: Global secondary indexes. All of them from the first release: a table in use takes
            one change of an index in a deployment.
        stream: Whether functions can be called with its changes, old and new item.
        keeps_data: Whether it outlives its stack and refuses its own deletion.
        encryption_key: A customer's key; without one, a key that AWS owns, at no cost.
        existing: A table that is there already, used as it is; everything else but
            `encryption_key` is then of no effect. One of this app must have what is asked for
            above. Of an imported one nobody here knows; the first request that it refuses says so.
        table_props: Overrides of any property of `aws_dynamodb.Table`, by the CDK's names. None
            leaves a default as it is.

    Raises:
        ValueError: Something cannot be; all of it is named.
    """

    _kind = "SafeTable"
    # What may not be overridden, and why.
    _fixed: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        partition_key: dynamodb.Attribute,
        sort_key: dynamodb.Attribute | None = None,
        ttl_attribute: str | None = None,
        indexes: Sequence[Mapping[str, Any]] = (),
        stream: bool = False,
        keeps_data: bool = True,
        encryption_key: kms.IKey | None = None,
        existing: dynamodb.ITable | None = None,
        table_props: Mapping[str, Any] | None = None,
    ) -> None:
        faults = self.props_faults(table_props)
        table_props = without_none(table_props)
        if encryption_key is not None and "encryption_key" in table_props:
            faults.append("the key is given twice: say it in encryption_key= or in table_props")
        if existing is not None:
            needed = Schema(
                partition_key=partition_key,
                sort_key=sort_key,
                ttl_attribute=ttl_attribute,
                indexes=indexes,
                stream=stream,
            )
            faults += existing_faults(existing, needed, table_props)
        refuse(faults, scope=scope, construct_id=construct_id, kind=self._kind)
        super().__init__(scope, construct_id)
        OncekeyChecks.of(self)
        self.encryption_key = encryption_key
        self.table: dynamodb.ITable
        if existing is not None:
            self.table = existing
            self.encryption_key = encryption_key or existing.encryption_key
            return
        encryption_key = table_props.get("encryption_key", encryption_key)
        defaults: Props = {
            "partition_key": partition_key,
            "sort_key": sort_key,
            "billing_mode": dynamodb.BillingMode.PAY_PER_REQUEST,
            "time_to_live_attribute": ttl_attribute,
            "stream": dynamodb.StreamViewType.NEW_AND_OLD_IMAGES if stream else None,
            "point_in_time_recovery_specification": _recovery(table_props),
            "encryption": dynamodb.TableEncryption.CUSTOMER_MANAGED if encryption_key else None,
            "encryption_key": encryption_key,
            "deletion_protection": keeps_data,
            "removal_policy": RemovalPolicy.RETAIN if keeps_data else RemovalPolicy.DESTROY,
        }
        # Under the id `Default` it takes the logical id of this construct.
        created = dynamodb.Table(self, "Default", **overridden(defaults, table_props))
        # Also the one that the CDK creates where only the kind of encryption was asked for.
        self.encryption_key = created.encryption_key
        for index in indexes:
            created.add_global_secondary_index(**index)
        self.table = created

    @classmethod
    def props_faults(cls, table_props: Mapping[str, Any] | None) -> list[str]:
        """What is wrong with these overrides, for whoever creates the table in turn."""
        return override_faults(table_props, name="table_props", of=dynamodb.Table, fixed=cls._fixed)

    @property
    def table_name(self) -> str:
        """The physical name, for a function's environment."""
        return self.table.table_name

    @property
    def table_arn(self) -> str:
        """The ARN, for statements of your own."""
        return self.table.table_arn

    def allow(self, grantee: iam.IGrantable, *actions: str) -> None:
        """Let `grantee` do these actions to the table, and use its key for them.

        The indexes are not included, which `Table.grant` would do, now and later.
        """
        self._allow(grantee, actions, self.table.table_arn)

    def allow_index(self, grantee: iam.IGrantable, index: str, *actions: str) -> None:
        """Let `grantee` do these actions to one index of the table, and use its key for them."""
        self._allow(grantee, actions, f"{self.table.table_arn}/index/{index}")

    def _allow(self, grantee: iam.IGrantable, actions: Sequence[str], arn: str) -> None:
        allow(grantee, actions, arn)
        reads_only = {*actions} <= _READING
        allow_key(
            grantee,
            TABLE_READ_KEY_ACTIONS if reads_only else TABLE_WRITE_KEY_ACTIONS,
            self.encryption_key,
            service="dynamodb",
        )


def _recovery(given: Props) -> dynamodb.PointInTimeRecoverySpecification | None:
    if "point_in_time_recovery" in given:
        # The CDK's older name of the same; it takes one of the two.
        return None
    return dynamodb.PointInTimeRecoverySpecification(point_in_time_recovery_enabled=True)


_READING = {"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:Scan"}
