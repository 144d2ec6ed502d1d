"""The documentation says what the code does: its examples run, its tables are the code's."""

from __future__ import annotations

import itertools
import re
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from oncekey import (
    dynamodb_transaction,
    reconciler_settings,
    settings,
)
from oncekey.problem import PROBLEMS
from oncekey.settings import Settings
from oncekey.transitions import Transition
from tests.support.dynamodb import Recorder, dynamodb_table, store_on
from tests.support.events import load
from tests.support.protected import Protected

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
DESIGN = (ROOT / "layer" / "DESIGN.md").read_text("utf-8")
DOCUMENTS = ["README.md", "layer/DESIGN.md", "infra/README.md", "events/README.md"]


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table below `heading`, without its two header lines."""
    lines = text[text.index(heading) :].split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    table = list(itertools.takewhile(lambda line: line.startswith("|"), lines[start:]))
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in table[2:]]


def test_the_readmes_commands_exist() -> None:
    """Each `make` command of the documentation is a target of the Makefile."""
    text = "".join((ROOT / name).read_text("utf-8") for name in DOCUMENTS)
    for target in sorted(set(re.findall(r"(?:^|`|    )make ([a-z-]+)\b", text, re.MULTILINE))):
        result = subprocess.run(
            ["make", "--dry-run", "--always-make", target],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, (target, result.stderr)


def test_the_table_of_answers_is_the_codes() -> None:
    """Every problem code stands in the README with its status and its Retry-After."""
    documented = {
        row[2].strip("`"): (int(row[1]), "Retry-After" in row[3])
        for row in rows(README, "## What a client gets")
        if row[2]
    }

    assert documented == {
        code: (problem.status, problem.retryable) for code, problem in PROBLEMS.items()
    }


def test_the_table_of_variables_is_the_codes() -> None:
    """Every environment variable stands in the README with its default."""
    defaults = {field.name: field.default for field in fields(Settings)}
    expected = {
        "ONCEKEY_TABLE": "",
        "ONCEKEY_DISABLED": "0",
        "ONCEKEY_RESPONSE_BUCKET": "",
        "ONCEKEY_OUTBOX_TABLE": "",
        "ONCEKEY_QUEUE_URL": "",
        "ONCEKEY_FINGERPRINT_SECRETS": "",
        "ONCEKEY_FINGERPRINT_SECRETS_ARN": "",
        "ONCEKEY_WEBHOOK_SECRET": "",
        "ONCEKEY_WEBHOOK_SECRET_ARN": "",
        "ONCEKEY_ESCALATION_QUEUE_URL": "",
    }
    turns = reconciler_settings.ReconcilerSettings()
    for name, field in reconciler_settings._VARIABLES.items():
        expected[name] = str(getattr(turns, field))
    for name, field in {**settings._NUMBERS, **settings._TEXTS}.items():
        expected[name] = str(defaults[field])
    documented = {
        row[0].strip("`"): row[1].strip("`") for row in rows(README, "| variable | default |")
    }

    assert documented == expected


def test_the_iam_actions_are_those_that_are_sent() -> None:
    """The README names exactly the actions that a reserve, a wait and a completion send."""
    with dynamodb_table() as client:
        recorder = Recorder(client)
        service = Protected(store=store_on(client), in_progress="wait")

        def repeat(_event: object, _op: object) -> dict[str, Any]:
            service.then = None
            service.send(load("apigw_http_v2_post"))
            return {"statusCode": 200, "body": ""}

        service.then = repeat
        service.send(load("apigw_http_v2_post"))
    iam = README[README.index("**IAM.**") : README.index("**Cost.**")]
    own, _, others = iam.partition("nothing else")

    assert set(re.findall(r"dynamodb:(\w+)", own)) == set(recorder.operations)
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html
    # Those of the relay, the last for a FIFO queue.
    kinds = {"BatchWriteItem", "Scan"} | {
        f"{action}Item" for action in dynamodb_transaction._ACTIONS.values()
    }
    assert set(re.findall(r"dynamodb:(\w+)", others)) == kinds


def test_the_design_names_every_transition_and_module() -> None:
    """DESIGN.md has a row for each transition, and names each module once."""
    transitions = {row[0].strip("`") for row in rows(DESIGN, "## Transitions")}
    assert transitions == {kind.__name__ for kind in Transition.__args__}

    modules = {path.name for path in (ROOT / "layer/python/oncekey").glob("*.py")} - {"__init__.py"}
    table = DESIGN[DESIGN.index("## Where things are") : DESIGN.index("## States")]
    assert set(re.findall(r"`(\w+\.py)`", table)) == modules


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_between_documents_lead_somewhere(name: str) -> None:
    """A relative link names a file that is there."""
    document = ROOT / name
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text("utf-8")):
        assert (document.parent / target).exists(), target
