"""A function of the description as a Lambda function, with a role of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aws_cdk import Duration, IgnoreMode
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager

from infra.layer_bundle import bundle_layer
from infra.log_groups import log_retention
from infra.oncekey_cdk import IdempotentFunction, OncekeyLayer
from infra.oncekey_cdk.synth_checks import acknowledge
from oncekey_local.description import (
    BucketName,
    EnvironmentValue,
    Function,
    QueueUrl,
    Setting,
    TableName,
)

if TYPE_CHECKING:
    from constructs import Construct

    from infra.environments import Environment
    from infra.layer_requirements import LayerTarget
    from infra.resources import Resources

ROOT = Path(__file__).resolve().parent.parent
_NO_CACHES = ["__pycache__/", "*.pyc"]


def layer_version(scope: Construct, construct_id: str, *, target: LayerTarget) -> OncekeyLayer:
    """Create the layer: the package `oncekey` and the packages of the reference service.

    Raises:
        RuntimeError: The layer cannot be made; see `infra.layer_bundle.bundle_layer`.
    """
    bundle = bundle_layer(target)
    return OncekeyLayer(
        scope,
        construct_id,
        code=lambda_.Code.from_asset(str(bundle.folder), asset_hash=bundle.digest),
        runtimes=[lambda_runtime(target)],
        architectures=[lambda_architecture(target)],
        layer_props={"description": "oncekey and the locked dependencies of the reference service"},
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


class ServiceFunction(IdempotentFunction):
    """A Lambda function that may only log and trace, until the stack grants more."""

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
        secrets = _secrets(function, environment)
        super().__init__(
            scope,
            construct_id,
            code=_functions_code(),
            handler=function.handler,
            timeout=Duration.seconds(function.timeout_s),
            environment={
                name: _resolve(value, resources, environment)
                for name, value in function.environment.items()
                if name not in secrets
            },
            layers=[layer],
            memory_mb=function.memory_mb,
            runtime=lambda_runtime(environment.runtime),
            architecture=lambda_architecture(environment.runtime),
            log_retention=log_retention(environment),
            keeps_data=environment.keeps_data,
        )
        for variable, name in secrets.items():
            named = secretsmanager.Secret.from_secret_name_v2(self, f"{variable}Secret", name)
            self.read_secret(variable, named)
        if "ONCEKEY_TABLE" not in function.environment:
            acknowledge(
                self, "FunctionTable", "The description gives it no table, and it protects nothing."
            )


def _functions_code() -> lambda_.AssetCode:
    # Handlers are named from the project's root, so the asset holds the folder `functions` itself.
    # As in a .gitignore, all top-level entries are left out, and then that folder is included.
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
        case _:
            return value


def _secrets(function: Function, environment: Environment) -> dict[str, str]:
    """The secrets that a function reads, by the variable that would hold each."""
    names: dict[EnvironmentValue, str] = {
        Setting.PROVIDER_API_KEY: environment.provider_api_key_secret,
        Setting.WEBHOOK_SECRET: environment.webhook_secret,
    }
    return {
        variable: names[value]
        for variable, value in function.environment.items()
        if isinstance(value, Setting) and value in names
    }
