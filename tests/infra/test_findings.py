"""What cdk-nag and cfn-lint say of the templates."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from infra.acknowledged import ACKNOWLEDGED
from infra.composition import compose
from tests.infra.conftest import PRODUCTION
from tests.support.sample_constructs import build_service, new_stack

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.proof

Finding = tuple[str, str, str]


def nag(app: App) -> Iterator[Finding]:
    """What cdk-nag's rules for AWS solutions find: rule and construct."""
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    report = json.loads(Path(app.outdir, "validation-report.json").read_text("utf-8"))
    for plugin in report["pluginReports"]:
        for violation in plugin["violations"]:
            for construct in violation["violatingConstructs"]:
                yield "cdk-nag", violation["ruleName"], construct["constructPath"]


def lint(*folders: str) -> Iterator[Finding]:
    """What cfn-lint finds in the templates of these folders: rule and logical id."""
    templates = [str(path) for folder in folders for path in Path(folder).glob("*.template.json")]
    cfn_lint = str(Path(sys.executable).with_name("cfn-lint"))
    result = subprocess.run(
        [cfn_lint, *templates, "--format", "json", "--regions", "us-east-1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not result.stderr, result.stderr
    assert len(templates) > 2
    for finding in json.loads(result.stdout):
        path: list[Any] = finding["Location"]["Path"] or [""]
        yield "cfn-lint", finding["Rule"]["Id"], str(path[1] if len(path) > 1 else path[0])


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> list[Finding]:
    """All findings, in production's stacks and in a stack that another team makes."""
    reference = compose(context=PRODUCTION, outdir=str(tmp_path_factory.mktemp("production")))
    stack = new_stack()
    build_service(stack)
    theirs = stack.node.root
    assert isinstance(theirs, App)
    found = [*nag(reference), *nag(theirs)]
    return [*found, *lint(reference.outdir, theirs.outdir)]


def test_every_finding_is_acknowledged_with_its_reason(findings: list[Finding]) -> None:
    """What the two tools find is nothing but what is acknowledged."""
    unknown = {
        finding for finding in findings if not [one for one in ACKNOWLEDGED if one.covers(*finding)]
    }

    assert unknown == set()


def test_nothing_is_acknowledged_that_is_not_found(findings: list[Finding]) -> None:
    """An entry that no finding answers to is out of date, and would hide the next one."""
    idle = [entry for entry in ACKNOWLEDGED if not [one for one in findings if entry.covers(*one)]]

    assert idle == []
    assert all(entry.reason.endswith(".") for entry in ACKNOWLEDGED)
