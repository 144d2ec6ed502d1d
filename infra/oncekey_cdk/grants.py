"""Grants of exact actions on exact resources: what each role calls, and no more.

The CDK's own grants are not used. `Table.grant_read_write_data` allows nine actions where a handler
needs three, on every index too; `Table.grant_stream_read` lets its role list all streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import aws_iam as iam

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aws_cdk import aws_kms as kms

# An operator's on the item that holds the pauses. A handler only reads it.
PAUSE_ACTIONS = ("dynamodb:PutItem", "dynamodb:UpdateItem")
PAUSES_KEY = "pause#all"
# The audit table's entries. The actions on all else are in `oncekey_local.description.actions`,
# because the local store knows them too.
APPEND_ACTIONS = ("dynamodb:PutItem",)
# An operator's: a table with its indexes, TTL and backups, what is in a stack, an erased answer.
DESCRIBE_ACTIONS = (
    "dynamodb:DescribeTable",
    "dynamodb:DescribeTimeToLive",
    "dynamodb:DescribeContinuousBackups",
)
STACK_ACTIONS = ("cloudformation:DescribeStacks", "cloudformation:ListStackResources")
REMOVE_OBJECT_ACTIONS = ("s3:DeleteObject",)
# How many messages wait, which queue has the dead letters, and where that one is.
LOOK_ACTIONS = ("sqs:GetQueueAttributes",)
FIND_QUEUE_ACTIONS = ("sqs:GetQueueUrl",)

# A secret that is read at run time.
SECRET_ACTIONS = ("secretsmanager:GetSecretValue",)

# CodeDeploy's, to move a function's alias, and to ask whether an alarm is on.
# https://docs.aws.amazon.com/codedeploy/latest/userguide/getting-started-create-service-role.html
MOVE_ACTIONS = (
    "lambda:GetAlias",
    "lambda:UpdateAlias",
    "lambda:GetProvisionedConcurrencyConfig",
)
ALARM_ACTIONS = ("cloudwatch:DescribeAlarms",)

# What Lambda calls under a function's role to join a VPC. The resources do not exist before.
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
VPC_ACTIONS = (
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
)

# What Lambda asks of a durable function's role, on the executions of each of its versions.
# https://docs.aws.amazon.com/lambda/latest/dg/durable-security.html
DURABLE_ACTIONS = ("lambda:CheckpointDurableExecution", "lambda:GetDurableExecutionState")

# What DynamoDB needs of its caller for a table with a customer's key. It decrypts the table's own
# key with the caller's permission. A write needs all of these.
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html
TABLE_READ_KEY_ACTIONS = ("kms:Decrypt", "kms:DescribeKey")
TABLE_WRITE_KEY_ACTIONS = (
    *TABLE_READ_KEY_ACTIONS,
    "kms:Encrypt",
    "kms:ReEncrypt*",
    "kms:GenerateDataKey*",
)
# Lambda decrypts a function's variables under its role.
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars-encryption.html
VARIABLES_KEY_ACTIONS = ("kms:Decrypt",)
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
SEND_KEY_ACTIONS = ("kms:GenerateDataKey", "kms:Decrypt")
RECEIVE_KEY_ACTIONS = ("kms:Decrypt",)
SECRET_KEY_ACTIONS = ("kms:Decrypt",)
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
KEEP_KEY_ACTIONS = ("kms:GenerateDataKey", "kms:Decrypt")
FETCH_KEY_ACTIONS = ("kms:Decrypt",)


def allow(grantee: iam.IGrantable, actions: Sequence[str], *arns: str) -> None:
    """Let `grantee` do these `actions` to exactly these resources, by a statement of their own."""
    iam.Grant.add_to_principal(grantee=grantee, actions=[*actions], resource_arns=[*arns])


def deny_items(grantee: iam.IGrantable, actions: Sequence[str], table_arn: str, *keys: str) -> None:
    """Forbid `grantee` these `actions` on the items with these partition keys, whatever allows it.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html
    """
    grantee.grant_principal.add_to_principal_policy(
        iam.PolicyStatement(
            effect=iam.Effect.DENY,
            actions=[*actions],
            resources=[table_arn],
            conditions={"ForAnyValue:StringEquals": {"dynamodb:LeadingKeys": [*keys]}},
        )
    )


def allow_key(
    grantee: iam.IGrantable, actions: Sequence[str], key: kms.IKey | None, *, service: str
) -> None:
    """Let `grantee` use a customer's key, through this AWS service only. None grants nothing.

    The key policy must allow IAM policies to grant access, as the default of CDK and console does.
    """
    if key is not None:
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=[*actions],
            resource_arns=[key.key_arn],
            conditions={"StringLike": {"kms:ViaService": f"{service}.*"}},
        )
