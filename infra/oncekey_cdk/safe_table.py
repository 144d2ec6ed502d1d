"""A DynamoDB table with safe defaults for payment data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from aws_cdk import RemovalPolicy, Stack, Token
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from .existing_tables import Schema, existing_faults, region_faults, region_of
from .faults import overridden, override_faults, refuse, without_none
from .grants import (
    TABLE_READ_KEY_ACTIONS,
    TABLE_WRITE_KEY_ACTIONS,
    allow,
    allow_key,
)
from .synth_checks import OncekeyChecks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_kms as kms

    from .faults import Props

# The place of the account in an ARN.
_ACCOUNT = 4


class SafeTable(Construct):
    """A table with on-demand billing, point-in-time recovery and encryption, which is kept.

    It has no fixed physical name, because a kept table of that name would block the next new
    deployment and a rollback. It is a `Table` and not a `TableV2`, which CloudFormation treats as a
    global table. infra/README.md says why conditions do not work across Regions.

    Attributes:
        table: The table, ours or the existing one.
        encryption_key: The customer's key of the table, if any.

    Args:
        partition_key: The partition key.
        sort_key: The sort key, if there is one.
        ttl_attribute: The attribute with the epoch second after which DynamoDB may delete an item.
        indexes: Global secondary indexes. Create all of them in the first release, because a later
            deployment can change only one.
        stream: Whether it has a stream with the old and the new item.
        keeps_data: Whether it is kept when the stack is deleted, and protected against deletion.
        encryption_key: A customer's key; without one, a key that AWS owns, at no cost.
        existing: An existing table, used as it is. All other arguments except `encryption_key` then
            have no effect. A table of this app must have the schema above. An imported one cannot
            be checked here; its first request says what is missing.
        table_props: Overrides of any property of `aws_dynamodb.Table`, by the CDK's names. None
            keeps a default.

    Raises:
        ValueError: An argument is wrong. The message lists all faults.
    """

    _kind = "SafeTable"
    # The properties that cannot be overridden, and why.
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
            faults.append("the key is given twice: use encryption_key= or table_props, not both")
        if existing is not None:
            needed = Schema(
                partition_key=partition_key,
                sort_key=sort_key,
                ttl_attribute=ttl_attribute,
                indexes=indexes,
                stream=stream,
            )
            faults += existing_faults(existing, needed, table_props, region=Stack.of(scope).region)
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
        # With the id `Default` it has the logical id of this construct.
        created = dynamodb.Table(self, "Default", **overridden(defaults, table_props))
        # The CDK creates a key if only the kind of encryption was given.
        self.encryption_key = created.encryption_key
        for index in indexes:
            created.add_global_secondary_index(**index)
        self.table = created

    @classmethod
    def props_faults(cls, table_props: Mapping[str, Any] | None) -> list[str]:
        """The faults of these overrides, for a construct that creates this table."""
        return override_faults(table_props, name="table_props", of=dynamodb.Table, fixed=cls._fixed)

    @property
    def table_name(self) -> str:
        """The physical name, for functions of this stack; the ARN of another account's table."""
        return self.name_for(self)

    def name_for(self, scope: Construct) -> str:
        """What functions in `scope` call it: by its name, or by its ARN from another account.

        DynamoDB looks up a name in the account of its caller.
        https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/rbac-cross-account-access.html
        """
        account = Stack.of(scope).account
        # The ARN of a table of this app has no parts before the deployment.
        parts = self.table.table_arn.split(":")
        if len(parts) > _ACCOUNT:
            is_theirs = parts[_ACCOUNT] != account
        else:
            theirs = self.table.env.account
            is_known = not (Token.is_unresolved(theirs) or Token.is_unresolved(account))
            is_theirs = is_known and theirs != account
        return self.table.table_arn if is_theirs else self.table.table_name

    def is_of_another_account(self, scope: Construct) -> bool:
        """Whether both accounts, its own and that of `scope`, are known and are two."""
        parts = self.table.table_arn.split(":")
        theirs = parts[_ACCOUNT] if len(parts) > _ACCOUNT else self.table.env.account
        ours = Stack.of(scope).account
        return theirs != ours and not (Token.is_unresolved(theirs) or Token.is_unresolved(ours))

    def region_faults(self, scope: Construct) -> Iterator[str]:
        """The fault of functions in `scope` that would look for it in another Region."""
        called = f"the table {self.node.path!r}"
        return region_faults(region_of(self.table), Stack.of(scope).region, called=called)

    @property
    def table_arn(self) -> str:
        """The ARN, for statements of your own."""
        return self.table.table_arn

    def allow(self, grantee: iam.IGrantable, *actions: str, below: str = "") -> None:
        """Let `grantee` do these actions on the table, and use its key for them.

        The grant does not include the indexes, as `Table.grant` would. `below="/index/NAME"` is one
        index, without the table.
        """
        allow(grantee, actions, f"{self.table.table_arn}{below}")
        reads_only = {*actions} <= _READING
        allow_key(
            grantee,
            TABLE_READ_KEY_ACTIONS if reads_only else TABLE_WRITE_KEY_ACTIONS,
            self.encryption_key,
            service="dynamodb",
        )


def _recovery(given: Props) -> dynamodb.PointInTimeRecoverySpecification | None:
    if "point_in_time_recovery" in given:
        # The CDK's older name of the same property. It accepts only one of the two.
        return None
    return dynamodb.PointInTimeRecoverySpecification(point_in_time_recovery_enabled=True)


_READING = {"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:Scan"}
