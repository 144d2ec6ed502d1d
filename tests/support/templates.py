"""The synthesised app, for tests of its templates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from infra.node import use_packaged_node

# The CDK starts node as it is imported.
use_packaged_node()

from aws_cdk.assertions import Template  # noqa: E402

from infra.composition import compose  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from aws_cdk import Stack

Resource = dict[str, Any]


@dataclass(frozen=True)
class Synthesised:
    """The two templates of one stage, and the folder with its assets."""

    stage: str
    stateful: Template
    service: Template
    folder: Path

    def text(self) -> str:
        """Both templates as CloudFormation gets them."""
        return json.dumps([self.stateful.to_json(), self.service.to_json()])

    def resources(self, kind: str) -> list[Resource]:
        """The resources of this type in both stacks."""
        found = [template.find_resources(kind) for template in (self.stateful, self.service)]
        return [dict(resource) for resources in found for resource in resources.values()]

    def properties(self, kind: str) -> list[Resource]:
        """The properties of the resources of this type in both stacks."""
        return [resource["Properties"] for resource in self.resources(kind)]

    def table(self, name: str) -> Resource:
        """The resource of the table that the description calls `name`."""
        prefix = f"{name.capitalize()}Table"
        tables = self.stateful.find_resources("AWS::DynamoDB::Table")
        (found,) = [value for key, value in tables.items() if key.startswith(prefix)]
        return dict(found)

    def statements(self) -> list[Resource]:
        """Every statement of every policy of every role."""
        policies = self.properties("AWS::IAM::Policy")
        return [one for policy in policies for one in policy["PolicyDocument"]["Statement"]]


def synthesise(context: dict[str, str], folder: Path) -> Synthesised:
    """Synthesise the reference service as `python -m infra.app` does."""
    app = compose(context=context, outdir=str(folder))
    stage = context.get("stage", "dev")
    prefix = f"{context.get('name', 'payments')}-{stage}"
    stateful, service = (
        cast("Stack", app.node.find_child(f"{prefix}-{name}")) for name in ("stateful", "service")
    )
    return Synthesised(stage, Template.from_stack(stateful), Template.from_stack(service), folder)
