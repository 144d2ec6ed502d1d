"""The CloudFormation resources of the CDK's constructs."""

from __future__ import annotations

from typing import TypeVar

from aws_cdk import Token
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from .checks import FUNCTION_TIMEOUT_S, VISIBILITY_TIMEOUT_S

R = TypeVar("R")


def function_timeout_s(function: lambda_.Function) -> int | None:
    """A function's present timeout; None if only the deployment knows it."""
    timeout = _resource(function, lambda_.CfnFunction).timeout
    return _number(timeout, FUNCTION_TIMEOUT_S)


def function_resource(function: lambda_.Function) -> lambda_.CfnFunction:
    """The CloudFormation resource of a function."""
    return _resource(function, lambda_.CfnFunction)


def queue_resource(queue: sqs.Queue) -> sqs.CfnQueue:
    """The CloudFormation resource of a queue."""
    return _resource(queue, sqs.CfnQueue)


def visibility_timeout_s(queue: sqs.Queue) -> int | None:
    """A queue's present visibility timeout; None if only the deployment knows it."""
    return _number(queue_resource(queue).visibility_timeout, VISIBILITY_TIMEOUT_S)


def _resource(construct: lambda_.Function | sqs.Queue, kind: type[R]) -> R:
    resource = construct.node.default_child
    assert isinstance(resource, kind)
    return resource


def _number(value: object, default: int) -> int | None:
    if value is None:
        return default
    return int(value) if isinstance(value, int | float) and not Token.is_unresolved(value) else None
