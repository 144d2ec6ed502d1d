"""A Lambda function whose handlers are protected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsii
from aws_cdk import Duration, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from oncekey.settings import DEFAULT_LEASE_MS

from .checks import bucket_faults, lease_faults
from .faults import override_faults, refuse
from .grants import VPC_ACTIONS, allow
from .layer import ARCHITECTURE, RUNTIME, OncekeyLayer
from .log_groups import RETENTION, create_log_group
from .response_bucket import ANSWERS
from .synth_checks import OncekeyChecks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aws_cdk import aws_logs as logs

    from .faults import Props
    from .idempotency_table import IdempotencyTable
    from .outbox import Outbox
    from .response_bucket import ResponseBucket

# Below what an API waits for.
TIMEOUT = Duration.seconds(20)
_MEMORY_MB = 512
# What may not be overridden, and why.
FIXED_PROPS = {
    "role": "grants go to this construct's own; add statements with allow()",
    "environment": "say environment=",
}


@jsii.implements(iam.IGrantable)
class IdempotentFunction(Construct):
    """A function that may log, trace, reserve in its table, and nothing more until it is granted.

        IdempotentFunction(self, "Payments", table=records, handler="payments.handler",
                           code=lambda_.Code.from_asset("functions"))

    Its role is its own: the CDK's would carry AWSLambdaBasicExecutionRole, which may write to every
    log group of the account. It is an `IGrantable`, for every grant of the CDK and of ours.

    Attributes:
        function: The Lambda function.
        role: Its role.
        logs: Its log group.
        works_for: The outbox whose queue calls it, if any; it is told that one to put messages off.

    Args:
        code: The handlers.
        handler: The handler's name in it, as `module.attribute`.
        timeout: After this long Lambda ends a run. Behind an API at most 29 s.
        table: The table that its handlers reserve in: granted, and named as ONCEKEY_TABLE.
        outbox: Where its handlers publish: granted, and named as ONCEKEY_OUTBOX_TABLE.
        responses: Where they keep large answers: granted, and named as ONCEKEY_RESPONSE_BUCKET.
        environment: Further variables.
        layers: By default the library alone, in a layer that the stack's functions share.
        memory_mb: Memory, which the processor's share goes with.
        runtime: The function's Python.
        architecture: The function's processor.
        log_retention: For how long its log is kept.
        keeps_data: Whether its log outlives the stack.
        function_props: Overrides of any property of `aws_lambda.Function`, by the CDK's names.

    Raises:
        ValueError: Something cannot be; all of it is named.
    """

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
        function_props: Mapping[str, Any] | None = None,
    ) -> None:
        timeout = (function_props or {}).get("timeout", timeout)
        own = _own_variables(table, outbox, responses)
        variables = {**_default_lease(timeout, table), **own, **(environment or {})}
        answers_days = responses.expire_after_days.get(ANSWERS) if responses else None
        faults = [
            *(
                f"environment[{name!r}] is set by what was passed in; leave one of the two out"
                for name in sorted({*own} & {*(environment or {})})
            ),
            *_time_faults(timeout.to_seconds(), variables, answers_days),
            *override_faults(
                function_props, name="function_props", of=lambda_.Function, fixed=FIXED_PROPS
            ),
        ]
        refuse(faults, scope=scope, construct_id=construct_id, kind="IdempotentFunction")
        super().__init__(scope, construct_id)
        OncekeyChecks.of(self)
        self.works_for: Outbox | None = None
        self.logs = create_log_group(self, "Logs", retention=log_retention, keeps_data=keeps_data)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.logs.grant_write(self.role)
        defaults: Props = {
            "code": code,
            "handler": handler,
            "timeout": timeout,
            "runtime": runtime,
            "architecture": architecture,
            "memory_size": memory_mb,
            "layers": [OncekeyLayer.shared(self)] if layers is None else [*layers],
            "log_group": self.logs,
            "tracing": lambda_.Tracing.ACTIVE,
        }
        self.function = lambda_.Function(
            self,
            "Function",
            role=self.role,
            environment=variables,
            **{**defaults, **(function_props or {})},
        )
        self._grant(table, outbox, responses, in_vpc="vpc" in (function_props or {}))

    @property
    def grant_principal(self) -> iam.IPrincipal:
        """The role, for grants."""
        return self.role

    def _grant(
        self,
        table: IdempotencyTable | None,
        outbox: Outbox | None,
        responses: ResponseBucket | None,
        *,
        in_vpc: bool,
    ) -> None:
        if in_vpc:
            # Of a role that is not its own the CDK leaves that to the role's author.
            allow(self.role, VPC_ACTIONS, "*")
        if table:
            table.grant_reserve(self)
        if outbox:
            outbox.grant_publish(self)
        if responses:
            responses.grant_keep(self)

    def allow(self, arn: str, *actions: str) -> None:
        """Let the function do these actions to exactly this resource."""
        allow(self, actions, arn)


def _own_variables(
    table: IdempotencyTable | None, outbox: Outbox | None, responses: ResponseBucket | None
) -> dict[str, str]:
    variables = {}
    if table:
        variables["ONCEKEY_TABLE"] = table.table_name
    if outbox:
        variables["ONCEKEY_OUTBOX_TABLE"] = outbox.table.table_name
    if responses:
        variables["ONCEKEY_RESPONSE_BUCKET"] = responses.bucket_name
    return variables


def _default_lease(timeout: Duration, table: IdempotencyTable | None) -> dict[str, str]:
    """A lease for calls without Lambda's context that lasts as long as the function can."""
    timeout_ms = round(timeout.to_milliseconds())
    if table is None or timeout_ms <= DEFAULT_LEASE_MS:
        return {}
    return {"ONCEKEY_DEFAULT_LEASE_MS": str(timeout_ms)}


def _time_faults(
    timeout_s: float, variables: Mapping[str, str], answers_days: int | None
) -> Iterator[str]:
    if "ONCEKEY_TABLE" in variables:
        variables = {
            name: "" if Token.is_unresolved(value) else value for name, value in variables.items()
        }
        yield from lease_faults(timeout_s=round(timeout_s), environment=variables)
        yield from bucket_faults(environment=variables, answers_days=answers_days)
