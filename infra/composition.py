"""The app: the two stacks of the description for one environment.

Importing the CDK starts node, so call `infra.node.use_packaged_node` first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aws_cdk import App, Tags

from infra.canary import with_canary
from infra.environments import CONTEXT_NAMES, environment_from, unknown_names
from infra.oncekey_cdk import OncekeyChecks
from infra.service import SERVICE
from infra.service_stack import ServiceStack
from infra.stateful_stack import StatefulStack

if TYPE_CHECKING:
    from aws_cdk.cx_api import CloudAssembly

    from oncekey_local.description import Service

CDK_JSON = Path(__file__).resolve().parent.parent / "cdk.json"


class CheckedApp(App):
    """An app whose failed synthesis gives the reasons in one error."""

    def synth(self, **options: Any) -> CloudAssembly:
        """Write the templates.

        Raises:
            ValueError: A check of the templates failed. The message has each fault and its fix.
        """
        try:
            return super().synth(**options)
        except RuntimeError:
            checks = OncekeyChecks.of(self)
            if checks is None or not checks.findings:
                raise
            left = _unacknowledged(Path(self.outdir))
            faults = "; ".join(str(finding) for finding in checks.findings if finding.fault in left)
            if not faults:
                raise
        raise ValueError(f"the templates are wrong: {faults}")


def _feature_flags() -> dict[str, object]:
    """The CDK's flags in cdk.json. Its command line passes them on; a direct call has the same."""
    flags: dict[str, object] = json.loads(CDK_JSON.read_text("utf-8"))["context"]
    return flags


def _unacknowledged(folder: Path) -> set[str]:
    """The texts of the findings that are not acknowledged."""
    report = json.loads((folder / "validation-report.json").read_text("utf-8"))
    return {
        violation["description"]
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
    }


def compose(
    *, service: Service = SERVICE, context: dict[str, str] | None = None, outdir: str | None = None
) -> App:
    """Build the app without calling AWS; `synth()` on it writes the templates to `outdir`.

    Args:
        service: What to deploy.
        context: Context values besides those of the CDK's command line.
        outdir: Where the templates go; a temporary folder by default.

    Raises:
        ValueError: The context names an unknown stage, or has an unknown name. The message lists
            the known ones.
    """
    # Without the version report, every machine makes the same templates.
    app = CheckedApp(
        context={**_feature_flags(), **(context or {})}, outdir=outdir, analytics_reporting=False
    )
    faults = unknown_names(app.node.get_all_context())
    if faults:
        raise ValueError("the context is wrong: " + "; ".join(faults))
    given = {name: app.node.try_get_context(name) for name in CONTEXT_NAMES}
    environment = environment_from(
        {"name": service.name} | {name: value for name, value in given.items() if value is not None}
    )
    if environment.canary_customer:
        service = with_canary(service)
    prefix = environment.prefix
    stateful = StatefulStack(app, f"{prefix}-stateful", service=service, environment=environment)
    ServiceStack(
        app,
        f"{prefix}-service",
        service=service,
        environment=environment,
        resources=stateful.resources,
    )
    Tags.of(app).add("service", environment.name)
    Tags.of(app).add("stage", environment.stage)
    return app
