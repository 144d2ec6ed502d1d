"""The stack that a deployment may replace: layer, functions, API, alarms and grants."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aws_cdk import CfnOutput, Stack
from aws_cdk import Environment as Place
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager

from infra.canary import CANARY_API_URL, CANARY_CLIENT, CANARY_CUSTOMER
from infra.environments import RolloutPlan
from infra.layer_bundle import bundle_layer
from infra.log_groups import log_retention
from infra.oncekey_cdk import IdempotentHttpApi, IdempotentService, OncekeyLayer, handlers_code
from infra.service_environment import PROVIDER_API_KEY, PROVIDER_URL, WEBHOOK_SECRET

if TYPE_CHECKING:
    from constructs import Construct

    from infra.environments import Environment
    from infra.layer_requirements import LayerTarget
    from infra.oncekey_cdk import ServiceResources
    from oncekey_local.description import Service

# An alarm on a function goes off within three minutes.
_ROLLOUTS: dict[RolloutPlan, codedeploy.ILambdaDeploymentConfig | None] = {
    RolloutPlan.NONE: None,
    RolloutPlan.AT_ONCE: codedeploy.LambdaDeploymentConfig.ALL_AT_ONCE,
    RolloutPlan.CANARY: codedeploy.LambdaDeploymentConfig.CANARY_10_PERCENT_5_MINUTES,
    RolloutPlan.LINEAR: codedeploy.LambdaDeploymentConfig.LINEAR_10_PERCENT_EVERY_1_MINUTE,
}
ROOT = Path(__file__).resolve().parent.parent


class ServiceStack(Stack):
    """The functions of a service behind its HTTP API, each with its own exact grants."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        service: Service,
        environment: Environment,
        resources: ServiceResources,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            env=Place(account=environment.account, region=environment.region),
        )
        layer = layer_version(self, "Layer", target=environment.runtime)
        api = IdempotentHttpApi(
            self,
            "HttpApi",
            jwt_issuer=environment.jwt_issuer,
            jwt_audience=[environment.jwt_audience],
            cors=service.cors,
            requests_per_second=environment.requests_per_second,
            burst_requests=environment.burst_requests,
            log_retention=log_retention(environment),
            keeps_data=environment.keeps_data,
            api_props={"api_name": environment.prefix},
        )
        # With the id `Default` everything has the logical id that was released.
        created = IdempotentService(
            self,
            "Default",
            service,
            api=api,
            resources=resources,
            code=handlers_code(service, ROOT),
            settings=self._settings(environment, api),
            layers=[layer],
            runtime=lambda_runtime(environment.runtime),
            architecture=lambda_architecture(environment.runtime),
            log_retention=log_retention(environment),
            keeps_data=environment.keeps_data,
            rollout=_ROLLOUTS[environment.rollout],
        )
        CfnOutput(self, "AlarmTopicArn", value=created.alarms.topic.topic_arn)
        CfnOutput(self, "ApiUrl", value=api.api.api_endpoint)

    def _settings(
        self, environment: Environment, api: IdempotentHttpApi
    ) -> dict[str, str | secretsmanager.ISecret]:
        named = secretsmanager.Secret.from_secret_name_v2
        settings: dict[str, str | secretsmanager.ISecret] = {
            PROVIDER_URL.name: environment.provider_url,
            PROVIDER_API_KEY.name: named(
                self, "ProviderApiKey", environment.provider_api_key_secret
            ),
            WEBHOOK_SECRET.name: named(self, "WebhookSecret", environment.webhook_secret),
        }
        if environment.canary_customer:
            settings |= {
                CANARY_API_URL.name: api.api.api_endpoint,
                CANARY_CUSTOMER.name: environment.canary_customer,
                CANARY_CLIENT.name: named(self, "CanaryClient", environment.canary_client_secret),
            }
        return settings


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
