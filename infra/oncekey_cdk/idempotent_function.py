"""A Lambda function whose handlers are protected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsii
from aws_cdk import Duration, Stack, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from oncekey.settings import DEFAULT_LEASE_MS
from oncekey_local.description.functions import variable_faults

from .arguments import explained
from .checks import ANSWERS, bucket_faults, lease_faults
from .faults import overridden, override_faults, refuse, without_none
from .grants import (
    DURABLE_ACTIONS,
    SECRET_ACTIONS,
    SECRET_KEY_ACTIONS,
    VARIABLES_KEY_ACTIONS,
    VPC_ACTIONS,
    allow,
    allow_key,
)
from .layer import ARCHITECTURE, RUNTIME, OncekeyLayer
from .log_groups import RETENTION, create_log_group
from .metrics import LayerMetrics, metrics_variables
from .resources import function_resource
from .rollout import Rollout
from .synth_checks import OncekeyChecks
from .wiring_checks import PROTECTED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aws_cdk import aws_codedeploy as codedeploy
    from aws_cdk import aws_logs as logs
    from aws_cdk import aws_secretsmanager as secretsmanager

    from .faults import Props
    from .idempotency_table import IdempotencyTable
    from .outbox import Outbox
    from .response_bucket import ResponseBucket

# The place of the account in an ARN.
_ACCOUNT = 4
# Shorter than an API waits.
TIMEOUT = Duration.seconds(20)
_MEMORY_MB = 512
_DEFAULTS = {
    # It takes a fraction of boto3's CPU time. Only functions of this construct use it by default.
    "ONCEKEY_TRANSPORT": "direct",
    # One read in ten seconds for each sandbox. So an operator can stop an operation within seconds.
    "ONCEKEY_PAUSE_CHECK_S": "10",
}
_OBSERVED: Mapping[str, Any] = {
    "tracing": lambda_.Tracing.ACTIVE,
    # The text format leaves out the fields of a log line, such as operation_id.
    "logging_format": lambda_.LoggingFormat.JSON,
}
# The properties that cannot be overridden, and why.
FIXED_PROPS = {
    "role": "grants go to this construct's own role; add statements with allow()",
    "environment": "use environment=",
    "log_retention": "it would be a second log group; use log_retention= of this construct",
    "log_removal_policy": "use keeps_data=",
}


@explained
@jsii.implements(iam.IGrantable)
class IdempotentFunction(Construct):
    """A function that may log, trace and reserve in its table; grant it everything else.

        IdempotentFunction(self, "Payments", table=records, handler="payments.handler",
                           code=lambda_.Code.from_asset("functions"))

    It has a role of its own. The CDK's role would have AWSLambdaBasicExecutionRole, which may write
    to every log group of the account. The construct is an `IGrantable`, for the grants of the CDK
    and ours.

    Attributes:
        function: The Lambda function.
        role: Its role.
        logs: Its log group, ours or the one of `function_props`.
        rollout: The alias and the deployment group of a gradual deployment, if there is one.
        works_for: The outbox whose queue calls it, if any.
        metrics: Where the layer's metrics of its calls are; None if ONCEKEY_METRICS_NAMESPACE is
            empty.

    Args:
        code: The handlers.
        handler: The handler's name in it, as `module.attribute`.
        timeout: Lambda ends a run after this time. Behind an API at most 29 s.
        table: The table of records; sets ONCEKEY_TABLE, and ONCEKEY_DUE_SHARDS if it has no index,
            and grants access.
        outbox: The outbox that handlers publish to; sets ONCEKEY_OUTBOX_TABLE and grants access.
        responses: The bucket for large answers; sets ONCEKEY_RESPONSE_BUCKET and grants access.
        environment: Further variables. Unless you set them, ONCEKEY_TRANSPORT is `direct`,
            ONCEKEY_PAUSE_CHECK_S is 10, ONCEKEY_METRICS_NAMESPACE is `oncekey`, and
            ONCEKEY_METRICS_SERVICE is the stack's name.
        layers: By default the library alone, in a layer that the stack's functions share.
        memory_mb: Memory. The share of the processor grows with it.
        runtime: The function's Python.
        architecture: The function's processor.
        log_retention: How long its log is kept.
        keeps_data: Whether its log is kept when the stack is deleted.
        rollout: How a deployment moves the traffic to a new version, such as
            `LambdaDeploymentConfig.CANARY_10_PERCENT_5_MINUTES`; by default at once, without an
            alias. The alarms of `Observability` on the function roll it back.
        function_props: Overrides of any property of `aws_lambda.Function`, by the CDK's names.
            None keeps a default.

    Raises:
        ValueError: An argument is wrong. The message lists all faults.
    """

    works_for: Outbox | None = None

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        code: lambda_.Code,
        handler: str,
        timeout: Duration = TIMEOUT,
        table: IdempotencyTable | None = None,
        outbox: Outbox | None = None,
        responses: ResponseBucket | None = None,
        environment: Mapping[str, str] | None = None,
        layers: Sequence[lambda_.ILayerVersion] | None = None,
        memory_mb: int = _MEMORY_MB,
        runtime: lambda_.Runtime = RUNTIME,
        architecture: lambda_.Architecture = ARCHITECTURE,
        log_retention: logs.RetentionDays = RETENTION,
        keeps_data: bool = True,
        rollout: codedeploy.ILambdaDeploymentConfig | None = None,
        function_props: Mapping[str, Any] | None = None,
    ) -> None:
        given = without_none(function_props)
        if isinstance(given.get("timeout"), Duration):
            timeout = given["timeout"]
        own = _own_variables(scope, table, outbox, responses)
        variables = {**_defaults(scope, timeout, table), **own, **(environment or {})}
        faults = [
            *_environment_faults(own, environment or {}),
            *_table_faults(scope, table, outbox),
            *_time_faults(timeout.to_seconds(integral=False), variables, responses),
            *override_faults(
                function_props, name="function_props", of=lambda_.Function, fixed=FIXED_PROPS
            ),
        ]
        refuse(faults, scope=scope, construct_id=construct_id, kind="IdempotentFunction")
        super().__init__(scope, construct_id)
        OncekeyChecks.of(self)
        self.metrics = LayerMetrics.of(variables)
        self.logs: logs.ILogGroup = given.get("log_group") or create_log_group(
            self, "Logs", retention=log_retention, keeps_data=keeps_data
        )
        self.role = self._own_role()
        defaults: Props = {
            "code": code,
            "handler": handler,
            "timeout": timeout,
            "runtime": runtime,
            "architecture": architecture,
            "memory_size": memory_mb,
            "log_group": self.logs,
            **_OBSERVED,
        }
        defaults["layers"] = self._library({**defaults, **given}) if layers is None else [*layers]
        props: Props = {**overridden(defaults, given), "role": self.role, "environment": variables}
        self.function = lambda_.Function(self, "Function", **props)
        # For the check in the finished templates that it has a table.
        function_resource(self.function).add_metadata(PROTECTED, value=True)
        self.rollout = Rollout.of(self, self.function, props["layers"], rollout)
        self._grant(table, outbox, responses)
        self._grant_overrides(given)

    @property
    def called(self) -> lambda_.Function | lambda_.Alias:
        """What others invoke: the alias of a gradual deployment, or the function itself."""
        return self.rollout.alias if self.rollout else self.function

    @property
    def grant_principal(self) -> iam.IPrincipal:
        """The role, for grants."""
        return self.role

    def _library(self, props: Props) -> list[OncekeyLayer]:
        runtime, architecture = props["runtime"], props["architecture"]
        return [OncekeyLayer.shared(self, runtime=runtime, architecture=architecture)]

    def _own_role(self) -> iam.Role:
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.logs.grant_write(role)
        return role

    def _grant_overrides(self, given: Props) -> None:
        """The grants that the CDK adds only to a role that it made."""
        if "vpc" in given:
            allow(self.role, VPC_ACTIONS, "*")
        if "durable_config" in given:
            self._let_checkpoint()
        allow_key(
            self.role, VARIABLES_KEY_ACTIONS, given.get("environment_encryption"), service="lambda"
        )

    def _let_checkpoint(self) -> None:
        # Not in the role's own policy: the function waits for that, and this names the function.
        policy = iam.Policy(self, "Durable")
        policy.add_statements(
            iam.PolicyStatement(
                actions=[*DURABLE_ACTIONS], resources=[f"{self.function.function_arn}:*"]
            )
        )
        policy.attach_to_role(self.role)

    def _grant(
        self,
        table: IdempotencyTable | None,
        outbox: Outbox | None,
        responses: ResponseBucket | None,
    ) -> None:
        if table:
            table.grant_reserve(self)
        if outbox:
            outbox.grant_publish(self)
        if responses:
            responses.grant_keep(self)

    def read_secret(self, variable: str, secret: secretsmanager.ISecret) -> None:
        """Let the function read `secret` at run time, and name it as `<variable>_ARN`.

            webhooks.read_secret("ONCEKEY_WEBHOOK_SECRET", secret)

        Its value is in no template and no configuration. A rotated value is used within minutes.
        The library reads ONCEKEY_WEBHOOK_SECRET_ARN and ONCEKEY_FINGERPRINT_SECRETS_ARN by itself.
        """
        named = secret.secret_full_arn
        # The ARN of an imported secret ends with six characters that are not known here.
        allow(self, SECRET_ACTIONS, named or f"{secret.secret_arn}-??????")
        allow_key(self, SECRET_KEY_ACTIONS, secret.encryption_key, service="secretsmanager")
        self.function.add_environment(f"{variable}_ARN", named or self._name_of(secret))

    def _name_of(self, secret: secretsmanager.ISecret) -> str:
        """The name of an imported secret; its ARN, as far as it is known, in another account.

        Secrets Manager looks up a name in the account of its caller.
        """
        # An ARN that is a parameter of the stack has no parts before the deployment.
        parts = secret.secret_arn.split(":")
        is_theirs = len(parts) > _ACCOUNT and parts[_ACCOUNT] != Stack.of(self).account
        return secret.secret_arn if is_theirs else secret.secret_name

    def allow(self, arn: str, *actions: str) -> None:
        """Let the function do these actions to exactly this resource."""
        allow(self, actions, arn)


def _defaults(
    scope: Construct, timeout: Duration, table: IdempotencyTable | None
) -> dict[str, str]:
    return {**_DEFAULTS, **metrics_variables(scope), **_default_lease(timeout, table)}


def _own_variables(
    scope: Construct,
    table: IdempotencyTable | None,
    outbox: Outbox | None,
    responses: ResponseBucket | None,
) -> dict[str, str]:
    variables = {}
    if table:
        variables["ONCEKEY_TABLE"] = table.name_for(scope)
        if not table.has_due_index:
            variables["ONCEKEY_DUE_SHARDS"] = "0"
    if outbox:
        variables["ONCEKEY_OUTBOX_TABLE"] = outbox.table.name_for(scope)
    if responses:
        variables["ONCEKEY_RESPONSE_BUCKET"] = responses.bucket_name
    return variables


def _environment_faults(own: Mapping[str, str], given: Mapping[str, str]) -> Iterator[str]:
    yield from variable_faults(given)
    for name in sorted({*own} & {*given}):
        yield f"environment[{name!r}] is set by another argument too: leave one of them out"


def _table_faults(
    scope: Construct, table: IdempotencyTable | None, outbox: Outbox | None
) -> Iterator[str]:
    if table:
        yield from table.region_faults(scope)
    if outbox:
        yield from outbox.table.region_faults(scope)
    if table and not table.has_due_index and outbox:
        yield (
            "outbox= needs recorded effects or queued work, and table= has no index due"
            " (due_index=False), by which a reconciler finds what they left undone"
        )


def _default_lease(timeout: Duration, table: IdempotencyTable | None) -> dict[str, str]:
    """The lease for calls without Lambda's context, as long as the function's timeout."""
    timeout_ms = round(timeout.to_milliseconds())
    if table is None or timeout_ms <= DEFAULT_LEASE_MS:
        return {}
    return {"ONCEKEY_DEFAULT_LEASE_MS": str(timeout_ms)}


def _time_faults(
    timeout_s: float, variables: Mapping[str, str], responses: ResponseBucket | None
) -> Iterator[str]:
    answers_days = responses.expire_after_days.get(ANSWERS) if responses else None
    if "ONCEKEY_TABLE" in variables:
        variables = {
            name: "" if Token.is_unresolved(value) else value for name, value in variables.items()
        }
        yield from lease_faults(timeout_s=round(timeout_s), environment=variables)
        yield from bucket_faults(environment=variables, answers_days=answers_days)
