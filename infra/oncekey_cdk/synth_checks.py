"""The checks of the finished app, as errors of `cdk synth`."""

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
        self._checks.findings = [*findings(templates)]
        return PolicyValidationPluginReport(
            success=not self._checks.findings,
            violations=[_violation(finding) for finding in self._checks.findings],
        )


class OncekeyChecks(Construct):
    """Lets the synthesis fail if times do not fit: of queues, functions, APIs, leases, answers.

    Every construct here that has to do with times switches it on for its whole app, so that there
    is nothing to call. It looks at the templates as they are written, which no override comes
    after. What is wrong is printed, with its rule; whoever knows better acknowledges it:
    `Validations.of(construct).acknowledge(Acknowledgment(id="oncekey::ApiTimeout", reason=...))`.

    Attributes:
        findings: What the last synthesis has found.
    """

    def __init__(self, scope: Construct) -> None:
        super().__init__(scope, _ID)
        self.findings: list[Finding] = []
        Validations.of(scope).add_plugins(cast("IPolicyValidationPlugin", _Plugin(self)))

    @staticmethod
    def of(scope: IConstruct) -> OncekeyChecks | None:
        """The checks of the app that `scope` is in, switched on; None if it is in no app."""
        root = scope.node.root
        if not isinstance(root, Stage):
            return None
        found = root.node.try_find_child(_ID)
        return cast("OncekeyChecks", found) if found else OncekeyChecks(root)


def acknowledge(scope: IConstruct, rule: str, reason: str) -> None:
    """Let what this rule of ours finds of `scope` be, for a reason."""
    Validations.of(scope).acknowledge(Acknowledgment(id=f"oncekey::{rule}", reason=reason))


def _violation(finding: Finding) -> PolicyViolation:
    return PolicyViolation(
        rule_name=finding.rule,
        description=finding.fault,
        # Once one finding of an app is acknowledged, only errors among the others fail it.
        severity="error",
        violating_resources=[
            PolicyViolatingResource(
                resource_logical_id=finding.logical_id,
                template_path=finding.template,
                locations=[],
            )
        ],
    )
