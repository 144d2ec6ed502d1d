"""The CDK app of the tutorial is synthesised, word for word."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from infra.node import use_packaged_node
from tests.support.documents import run_example

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]


def test_the_documented_app_is_synthesised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen statements make a service: a kept table, a function that may reserve in it, an API
    that asks for tokens, a reconciler and alarms.
    """
    use_packaged_node()
    # Where the wheel has it.
    monkeypatch.syspath_prepend(str(ROOT / "infra"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "rides.py").write_text("def handler(event, context): ...\n")

    namespace = run_example("layer/docs/tutorial.md", "oncekey_cdk")

    (template,) = Path(namespace["app"].outdir).glob("*.template.json")
    resources = json.loads(template.read_text("utf-8"))["Resources"].values()
    kinds = {one["Type"] for one in resources}
    assert kinds >= {
        "AWS::DynamoDB::Table",
        "AWS::Lambda::Function",
        "AWS::Lambda::LayerVersion",
        "AWS::ApiGatewayV2::Route",
        "AWS::CloudWatch::Alarm",
    }
    (table,) = [one for one in resources if one["Type"] == "AWS::DynamoDB::Table"]
    assert table["DeletionPolicy"] == "Retain"
    (route,) = [one for one in resources if one["Type"] == "AWS::ApiGatewayV2::Route"]
    assert route["Properties"]["AuthorizationType"] == "JWT"
    for name in [one for one in sys.modules if one.partition(".")[0] == "oncekey_cdk"]:
        del sys.modules[name]
