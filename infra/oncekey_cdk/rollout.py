"""Gradual deployment: a new version of a function gets its traffic step by step, by CodeDeploy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from aws_cdk import FeatureFlags, Stack
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from .grants import ALARM_ACTIONS, MOVE_ACTIONS, allow
from .unwatched import is_watched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aws_cdk import aws_cloudwatch as cloudwatch
    from constructs import IConstruct

_ID = "OncekeyRollouts"
_ALIAS = "live"
# IAM takes 10,240 characters of inline policies for a role, and each function needs up to 450.
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
_MOST_OF_A_ROLE = 20
# The CDK's flag with which the content of a layer is a part of a function's version.
_LAYERS_COUNT = "@aws-cdk/aws-lambda:recognizeLayerVersion"


class Rollout(Construct):
    """The alias of a function that APIs, queues, streams and schedules call, and who moves it.

    At a deployment, CodeDeploy moves the alias to the new version as the configuration says. If one
    of the alarms goes off meanwhile, it moves the alias back, and CloudFormation rolls the stack
    back. If one is on at the beginning, the deployment fails before anything is moved. With
    `ALL_AT_ONCE` no alarm is asked, so that a correction can be deployed while an alarm is on.

    Attributes:
        alias: The alias.
        group: The deployment group.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function: lambda_.Function,
        layers: Sequence[lambda_.ILayerVersion],
        config: codedeploy.ILambdaDeploymentConfig,
    ) -> None:
        super().__init__(scope, construct_id)
        self._stopping: set[str] = set()
        if not FeatureFlags.of(self).is_enabled(_LAYERS_COUNT):
            for layer in layers:
                _let_it_count(layer, function)
        self.alias = lambda_.Alias(
            self, "Alias", alias_name=_ALIAS, version=function.current_version
        )
        shared = _Shared.of(self)
        # Not the alias's own ARN: the alias waits for the group, and the group for this. A policy
        # for each function, because a function may itself wait for the alias of another.
        arn = function.function_arn
        moves = iam.PolicyStatement(actions=[*MOVE_ACTIONS], resources=[arn, f"{arn}:{_ALIAS}"])
        role = shared.role_of_one_more()
        if _is_made_here(role):
            policy = iam.Policy(self, "Policy", roles=[role], statements=[moves])
            # The permissions are there before anything is moved.
            of_role = role.node.find_child("DefaultPolicy")
            moved_after: list[IConstruct] = [policy, of_role]
        else:
            # The CDK lists it for the team that makes the role.
            role.add_to_policy(moves)
            moved_after = []
        at_once = codedeploy.LambdaDeploymentConfig.ALL_AT_ONCE
        self.group = codedeploy.LambdaDeploymentGroup(
            self,
            "Group",
            alias=self.alias,
            application=shared.application,
            role=role,
            deployment_config=config,
            ignore_alarm_configuration=(
                config.deployment_config_name == at_once.deployment_config_name
            ),
        )
        self.group.node.add_dependency(*moved_after)

    @staticmethod
    def of(
        scope: Construct,
        function: lambda_.Function,
        layers: Sequence[lambda_.ILayerVersion],
        config: codedeploy.ILambdaDeploymentConfig | None,
    ) -> Rollout | None:
        """The rollout of a function with this configuration, if it has one."""
        if config is None:
            return None
        return Rollout(scope, "Rollout", function=function, layers=layers, config=config)

    def stop_on(self, *alarms: cloudwatch.Alarm) -> None:
        """Let these alarms stop a deployment and roll it back.

        Each must be able to go off while the traffic moves.
        """
        for alarm in alarms:
            # The alarms of an unwatched deployment are left out of the template.
            if alarm.node.path not in self._stopping and is_watched(self):
                self._stopping.add(alarm.node.path)
                self.group.add_alarm(alarm)


def _let_it_count(layer: lambda_.ILayerVersion, function: lambda_.Function) -> None:
    """Make other content of a layer another version of the function.

    Without its flag, the CDK looks at the layer's logical id only. The alias would then stay at a
    version with the old library.
    """
    made = layer.node.default_child
    if isinstance(made, lambda_.CfnLayerVersion):
        content = Stack.of(layer).resolve(made.content)
        function.invalidate_version_based_on(json.dumps(content, sort_keys=True))


class _Shared(Construct):
    """What the rollouts of a stack share: CodeDeploy's application, and a role for so many each."""

    def __init__(self, scope: Construct) -> None:
        super().__init__(scope, _ID)
        self.application = codedeploy.LambdaApplication(self, "Application")
        self._roles: list[iam.Role] = []
        self._functions = 0

    def role_of_one_more(self) -> iam.Role:
        """The role that moves the alias of the next function."""
        if self._functions % _MOST_OF_A_ROLE == 0:
            number = len(self._roles) + 1
            self._roles.append(_new_role(self, "Role" if number == 1 else f"Role{number}"))
        self._functions += 1
        return self._roles[-1]

    @staticmethod
    def of(scope: Construct) -> _Shared:
        stack = Stack.of(scope)
        found = stack.node.try_find_child(_ID)
        return cast("_Shared", found) if found else _Shared(stack)


def _new_role(scope: Construct, construct_id: str) -> iam.Role:
    role = iam.Role(
        scope, construct_id, assumed_by=iam.ServicePrincipal("codedeploy.amazonaws.com")
    )
    # As in AWS's own policy for CodeDeploy, AWSCodeDeployRoleForLambdaLimited.
    allow(role, ALARM_ACTIONS, "*")
    # The CDK adds a managed policy to it, which may move the aliases of the whole account.
    if _is_made_here(role):
        cast("iam.CfnRole", role.node.default_child).managed_policy_arns = None
    return role


def _is_made_here(role: iam.Role) -> bool:
    # A role that exists already (`Role.customize_roles`) is no resource.
    return role.node.default_child is not None
