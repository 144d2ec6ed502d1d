"""Leaves alarms, dashboards and saved queries out of a deployment that nobody watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import jsii
from aws_cdk import Aspects, IAspect
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs

if TYPE_CHECKING:
    from constructs import Construct, IConstruct

# A value of the CDK's context, so that one app serves a watched stage and an emulator.
WATCHED = "oncekey:watched"
_VALUES = {None: True, True: True, "true": True, False: False, "false": False}
_KINDS = (cloudwatch.CfnAlarm, cloudwatch.CfnDashboard, logs.CfnQueryDefinition)


def watched_faults(scope: Construct) -> list[str]:
    """The fault of a value in the context that is neither true nor false."""
    given = scope.node.try_get_context(WATCHED)
    return [] if given in _VALUES else [f"-c {WATCHED}={given} is unknown: true or false"]


def is_watched(scope: Construct) -> bool:
    """Whether the alarms, dashboards and queries of this deployment are deployed."""
    return _VALUES[scope.node.try_get_context(WATCHED)]


def leave_out_if_unwatched(scope: Construct) -> None:
    """With `-c oncekey:watched=false`, no alarm, dashboard or query below `scope` is deployed.

    The constructs are there until the templates are written, so the app's code can still ask for
    them and change them.
    """
    if not is_watched(scope):
        Aspects.of(scope).add(cast("IAspect", _LeaveOut()))


@jsii.implements(IAspect)
class _LeaveOut:
    def visit(self, node: IConstruct) -> None:
        scope = node.node.scope
        if isinstance(node, _KINDS) and scope is not None:
            scope.node.try_remove_child(node.node.id)
