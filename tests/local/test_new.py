"""`oncekey new` writes a service that works as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.node import use_packaged_node
from oncekey_local import cli
from oncekey_local.dev_process import DevProcess
from oncekey_operator.targets import OUTPUTS
from tests.support.dev_service import ROOT, send

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.fixture
def service(tmp_path: Path) -> Path:
    """A new service."""
    folder = tmp_path / "shop"
    assert cli.main(["new", str(folder)]) == 0
    return folder


def run(service: Path, *command: str, more: Mapping[str, str] | None = None) -> str:
    """The output of a Python command in the service's folder."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=service,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(more or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_tests_pass(service: Path) -> None:
    """The tests of a new service pass in its folder.

    Red when the template does not follow the library.
    """
    assert " passed" in run(
        service, "-m", "pytest", "-q", "-W", "error::UserWarning", "-p", "no:cacheprovider"
    )


def test_it_has_the_name_of_its_folder(service: Path) -> None:
    """The description and the project are named after the folder, and no placeholder is left."""
    texts = [path.read_text("utf-8") for path in service.rglob("*") if path.is_file()]
    assert not any("my-service" in text for text in texts)
    assert 'name="shop"' in (service / "service.py").read_text("utf-8")
    assert (service / ".gitignore").is_file()


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("Shop", "'Shop' cannot name a service: use 1 to 40 lower-case letters"),
        ("1shop", "'1shop' cannot name a service"),
        ("a_file", "'a_file' cannot name a service"),
        ("oncekey", "'oncekey' is the library's own name"),
        ("file", "file is a file: name a new folder"),
        ("full", "full is not empty: name a new folder, and copy from it"),
    ],
)
def test_what_is_no_new_folder_is_refused(
    name: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that stacks or queues cannot have, a file, and a folder with files are refused with
    what to do, and nothing is written.
    """
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.py").write_text("")
    before = sorted(tmp_path.rglob("*"))

    assert cli.main(["new", str(tmp_path / name)]) == 2

    assert complaint in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_cannot_be_made_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path through a file, or to where nobody may write, is a sentence and no traceback."""
    (tmp_path / "file").write_text("")

    assert cli.main(["new", str(tmp_path / "file" / "shop")]) == 2

    assert f"oncekey new: {tmp_path / 'file' / 'shop'}: Not a directory" in capsys.readouterr().err


def test_what_to_do_next_can_be_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands work as they are, also below a folder whose name has a space."""
    folder = tmp_path / "my work" / "shop"

    assert cli.main(["new", str(folder)]) == 0

    assert f"  cd '{folder}'\n" in capsys.readouterr().out


def test_an_empty_folder_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`oncekey new .` fills an empty folder, which gives the service its name, and says what to do
    next.
    """
    folder = tmp_path / "orders-1"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert cli.main(["new", "."]) == 0
    assert 'name="orders-1"' in Path("service.py").read_text("utf-8")
    said = capsys.readouterr().out
    assert "python -m pytest" in said
    assert "npx aws-cdk synth" in said


@pytest.mark.proof
def test_it_runs_on_this_machine(service: Path) -> None:
    """`oncekey dev` runs it without any option: an order is placed, retried and shipped."""
    with DevProcess(cwd=str(service)) as dev:
        token = dev.token("acme")
        headers = {"Idempotency-Key": "the-key-of-an-order"}
        answers = [
            send(
                dev.url,
                "POST",
                "/orders",
                token=token,
                headers=headers,
                body=b'{"item": "tea", "quantity": 2}',
            )
            for _ in range(2)
        ]
        assert [answer.status for answer in answers] == [201, 201]
        assert answers[0].body == answers[1].body
        location = f"/orders/{answers[0].json()['order_id']}"
        while (order := send(dev.url, "GET", location, token=token).json())["status"] != "shipped":
            assert order["status"] == "placed"
        assert (order["item"], order["quantity"]) == ("tea", 2)
        assert send(dev.url, "GET", location, token=dev.token("other")).status == 404


@pytest.mark.proof
def test_it_is_synthesised(service: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its CDK app passes every check of the templates, and has its routes, its alarms and what the
    operator's commands look for.
    """
    use_packaged_node()
    # Where the wheel has it.
    # As the CDK's command line passes it on.
    flags = json.loads((service / "cdk.json").read_text("utf-8"))["context"]
    more = {
        "PYTHONPATH": str(ROOT / "infra"),
        "CDK_OUTDIR": str(service / "cdk.out"),
        "CDK_CONTEXT_JSON": json.dumps(flags),
    }

    run(service, "app.py", more=more)

    template = json.loads((service / "cdk.out" / "shop.template.json").read_text("utf-8"))
    kinds = [one["Type"] for one in template["Resources"].values()]
    assert kinds.count("AWS::ApiGatewayV2::Route") == 2
    assert kinds.count("AWS::Lambda::Function") == 5
    assert "AWS::CloudWatch::Alarm" in kinds
    # `oncekey list --stack shop` finds what it needs.
    assert {*OUTPUTS.values()} - {*template["Outputs"]} == {"OncekeyResponseBucket"}
