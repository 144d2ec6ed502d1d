"""A function of the description as a Lambda function, with a role of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aws_cdk import Duration, IgnoreMode, SecretValue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.layer_bundle import bundle_layer
from infra.log_groups import log_group
from oncekey_local.description import (
    BucketName,
    EnvironmentValue,
    Function,
    QueueUrl,
    Setting,
    TableName,
)

if TYPE_CHECKING:
    from aws_cdk import aws_s3 as s3

    from infra.environments import Environment
    from infra.layer_requirements import LayerTarget
    from infra.resources import Resources

ROOT = Path(__file__).resolve().parent.parent
# As in a .gitignore: everything at the top is left out, then one folder is let in again.
_NO_CACHES = ["__pycache__/", "*.pyc"]


def layer_version(
    scope: Construct, construct_id: str, *, target: LayerTarget
) -> lambda_.LayerVersion:
    """Create the layer: the package `oncekey` and what the reference service needs beside boto3.

    Raises:
        RuntimeError: The layer cannot be made; see `infra.layer_bundle.bundle_layer`.
    """
    bundle = bundle_layer(target)
    return lambda_.LayerVersion(
        scope,
        construct_id,
        code=lambda_.Code.from_asset(str(bundle.folder), asset_hash=bundle.digest),
        compatible_runtimes=[lambda_runtime(target)],
        compatible_architectures=[lambda_architecture(target)],
        description="oncekey and the locked dependencies of the reference service",
    )


def lambda_runtime(target: LayerTarget) -> lambda_.Runtime:
    """The CDK's name of the target's Python."""
    return lambda_.Runtime(f"python{target.python_version}", lambda_.RuntimeFamily.PYTHON)


def lambda_architecture(target: LayerTarget) -> lambda_.Architecture:
    """The CDK's name of the target's processor."""
    return {
        "arm64": lambda_.Architecture.ARM_64,
        "x86_64": lambda_.Architecture.X86_64,
    }[target.architecture]


class ServiceFunction(Construct):
    """A Lambda function that may log, trace, and nothing more until the stack grants it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function: Function,
        layer: lambda_.ILayerVersion,
        resources: Resources,
        environment: Environment,
    ) -> None:
        super().__init__(scope, construct_id)
        logs = log_group(self, "Logs", environment)
        # A role of our own: the CDK's would carry AWSLambdaBasicExecutionRole, which may write to
        # every log group of the account.
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        logs.grant_write(self.role)
        self.function = lambda_.Function(
            self,
            "Function",
            code=_functions_code(),
            handler=function.handler,
            runtime=lambda_runtime(environment.runtime),
            architecture=lambda_architecture(environment.runtime),
            timeout=Duration.seconds(function.timeout_s),
            memory_size=function.memory_mb,
            environment={
                name: _resolve(value, resources, environment)
                for name, value in function.environment.items()
            },
            layers=[layer],
            log_group=logs,
            role=self.role,
            tracing=lambda_.Tracing.ACTIVE,
        )

    def allow(self, arn: str, *actions: str) -> None:
        """Let the function do `actions` to exactly this resource.

        `Table.grant` is not used: it adds every index of the table, now and later.
        """
        self.role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=[arn]))

    def allow_answers(self, bucket: s3.IBucket, *, may_keep: bool = True) -> None:
        """Let the function fetch answers from `bucket`, and keep them there if it `may_keep` any.

        It may list the bucket, too: without that S3 says "denied" of an object that is missing, and
        the layer could not tell an answer that is lost from an outage.
        """
        objects = iam.PolicyStatement(
            actions=["s3:PutObject", "s3:GetObject"] if may_keep else ["s3:GetObject"],
            resources=[bucket.arn_for_objects("*")],
        )
        listing = iam.PolicyStatement(actions=["s3:ListBucket"], resources=[bucket.bucket_arn])
        self.role.add_to_policy(objects)
        self.role.add_to_policy(listing)


def _functions_code() -> lambda_.AssetCode:
    # Handlers are named from the root of the project, so the folder `functions` itself goes in.
    return lambda_.Code.from_asset(
        str(ROOT),
        exclude=["/*", "!/functions/", *_NO_CACHES],
        ignore_mode=IgnoreMode.GIT,
    )


def _resolve(value: EnvironmentValue, resources: Resources, environment: Environment) -> str:
    match value:
        case TableName(table=name):
            return resources.tables[name].table_name
        case BucketName(bucket=name):
            return resources.buckets[name].bucket_name
        case QueueUrl(queue=name):
            return resources.queues[name].queue_url
        case Setting.PROVIDER_URL:
            return environment.provider_url
        case Setting.PROVIDER_API_KEY:
            return _secret(environment.provider_api_key_secret)
        case Setting.WEBHOOK_SECRET:
            return _secret(environment.webhook_secret)
        case _:
            return value


def _secret(name: str) -> str:
    """Refer to the secret `name` so that no template, parameter or shell history ever holds it.

    CloudFormation replaces the reference while it deploys. What remains: the key stands in the
    function's configuration, encrypted at rest, in clear for whoever may call
    lambda:GetFunctionConfiguration, and a rotated key arrives with the next deployment. A NoEcho
    parameter would leave the same and pass the key through the hands of every deployment; reading
    the secret at run time would leave neither, at the price of a call at each cold start and a
    handler that no longer reads its settings from the environment alone.
    """
    return SecretValue.secrets_manager(name).unsafe_unwrap()
