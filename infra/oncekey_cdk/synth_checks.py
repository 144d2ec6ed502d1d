"""The checks of the finished templates, as errors of `cdk synth`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jsii
from aws_cdk import (
    Acknowledgment,
    IPolicyValidationPlugin,
    PolicyValidationPluginReport,
    PolicyViolatingResource,
    PolicyViolation,
    Stack,
    Stage,
    Validations,
)
from constructs import Construct

from .template_checks import RULES, Finding, findings

if TYPE_CHECKING:
    from constructs import IConstruct

_ID = "OncekeyChecks"


@jsii.implements(IPolicyValidationPlugin)
class _Plugin:
    def __init__(self, checks: OncekeyChecks) -> None:
        self._checks = checks

    @property
    def name(self) -> str:
        return "oncekey"

    @property
    def rule_ids(self) -> list[str]:
        return [*RULES]

    @property
    def version(self) -> None:
        return None

    def validate(self, context: Any) -> PolicyValidationPluginReport:
        templates = {
            path: json.loads(Path(path).read_text("utf-8")) for path in context.template_paths
        }
        self._checks.findings = [*findings(templates, _places(self._checks.node.root))]
        return PolicyValidationPluginReport(
            success=not self._checks.findings,
            violations=[_violation(finding) for finding in self._checks.findings],
        )


class OncekeyChecks(Construct):
    """Makes the synthesis fail if times do not fit together, or a piece is missing.

    The constructs here switch it on for their whole app, so you need not call it. It reads the
    written templates, after every override. Each finding is printed with its rule. If a finding is
    wrong for you, acknowledge it:
    `Validations.of(construct).acknowledge(Acknowledgment(id="oncekey::ApiTimeout", reason=...))`.

    Attributes:
        findings: The findings of the last synthesis.
    """

    def __init__(self, scope: Construct) -> None:
        super().__init__(scope, _ID)
        self.findings: list[Finding] = []
        Validations.of(scope).add_plugins(cast("IPolicyValidationPlugin", _Plugin(self)))

    @staticmethod
    def of(scope: IConstruct) -> OncekeyChecks | None:
        """The checks of the app that `scope` is in, switched on; None outside an app."""
        root = scope.node.root
        if not isinstance(root, Stage):
            return None
        found = root.node.try_find_child(_ID)
        return cast("OncekeyChecks", found) if found else OncekeyChecks(root)


def acknowledge(scope: IConstruct, rule: str, reason: str) -> None:
    """Accept the findings of one of our rules about `scope`, with a reason."""
    Validations.of(scope).acknowledge(Acknowledgment(id=f"oncekey::{rule}", reason=reason))


def _places(root: IConstruct) -> dict[str, object]:
    """The stage, account and Region of each template, by its path."""
    stacks = [one for one in root.node.find_all() if isinstance(one, Stack)]
    return {
        str(Path(stage.outdir, stack.template_file)): (stage.node.path, stack.account, stack.region)
        for stack in stacks
        if (stage := Stage.of(stack)) is not None
    }


def _violation(finding: Finding) -> PolicyViolation:
    return PolicyViolation(
        rule_name=finding.rule,
        description=finding.fault,
        # After one finding is acknowledged, only those with severity "error" fail the app.
        severity="error",
        violating_resources=[
            PolicyViolatingResource(
                resource_logical_id=finding.logical_id,
                template_path=finding.template,
                locations=[],
            )
        ],
    )
