"""Where a function's own metrics are in CloudWatch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aws_cdk import Names, Stack, Token
from aws_cdk import aws_cloudwatch as cloudwatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_cdk import Duration
    from constructs import Construct

NAMESPACE = "oncekey"
_NAMESPACE_VARIABLE, SERVICE_VARIABLE = "ONCEKEY_METRICS_NAMESPACE", "ONCEKEY_METRICS_SERVICE"
_NAME_MAX = 128


@dataclass(frozen=True, kw_only=True)
class LayerMetrics:
    """The metrics of one service.

    Attributes:
        namespace: Their namespace.
        service: Their dimension `service`.
    """

    namespace: str
    service: str

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> LayerMetrics | None:
        """The metrics of a function with these variables; None if it emits none."""
        namespace = variables.get(_NAMESPACE_VARIABLE, "")
        service = variables.get(SERVICE_VARIABLE, "")
        return cls(namespace=namespace, service=service) if namespace and service else None

    def metric(self, name: str, *, statistic: str, period: Duration) -> cloudwatch.Metric:
        """One metric of the whole service."""
        return cloudwatch.Metric(
            namespace=self.namespace,
            metric_name=name,
            dimensions_map={"service": self.service},
            statistic=statistic,
            period=period,
        )


def metrics_variables(scope: Construct) -> dict[str, str]:
    """The variables that turn the metrics on for the functions of this stack.

    Stacks of one account share a namespace, so the service is called as the stack.
    """
    return {_NAMESPACE_VARIABLE: NAMESPACE, **service_variable(Stack.of(scope))}


def service_variable(scope: Construct) -> dict[str, str]:
    """The variable that names the service of this construct, or of this stack: by its path."""
    stack = Stack.of(scope)
    name = stack.stack_name
    if Token.is_unresolved(name):
        # A nested stack gets its name in the deployment.
        name = Names.unique_resource_name(stack, max_length=_NAME_MAX, separator="-")
    inside = [each.node.id for each in scope.node.scopes[len(stack.node.scopes) :]]
    path = "-".join([name, *(each for each in inside if each != "Default")])
    # CloudWatch takes no dimension with other characters.
    return {SERVICE_VARIABLE: re.sub(r"[^ -~]", "-", path)[:_NAME_MAX]}
