"""The documentation says what the code does: its examples run, its tables are the code's."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import settings
from oncekey.engine.operation_pointer import Pointer
from oncekey.outbox.envelope import sealed
from oncekey.problem import PROBLEMS
from oncekey.reconciler import settings as reconciler_settings
from oncekey.record.counter import Count
from oncekey.record.message import Message
from oncekey.record.pause import Pause, PauseScope
from oncekey.record.policy import Encoding, Policy
from oncekey.record.steps import FinishedStep, StartedStep
from oncekey.record.stored_answer import Place, StoredRef
from oncekey.record.transitions import Transition
from oncekey.settings import Settings
from oncekey.store.dynamodb import transaction as dynamodb_transaction
from oncekey.store.dynamodb.codec import (
    finished_value,
    policy_value,
    started_value,
)
from oncekey.store.dynamodb.counters import count_update
from oncekey.store.dynamodb.outbox import message_item
from oncekey.store.dynamodb.pauses import pause_parameters
from tests.store.test_store_contract import NAMES
from tests.support import telemetry_pages
from tests.support.documents import (
    DOCUMENTS,
    PAGES,
    ROOT,
    anchors,
    blocks,
    examples_run_by,
    rows,
    text_of,
)
from tests.support.dynamodb import Recorder, dynamodb_table, store_on
from tests.support.events import load
from tests.support.protected import Protected
from tests.support.replacing import replace

if TYPE_CHECKING:
    from pathlib import Path

DESIGN = ROOT / "layer" / "docs" / "design"
RECORD = (DESIGN / "record.md").read_text("utf-8")
REFERENCE = "layer/docs/reference"


def names_in(heading: str) -> set[str]:
    """The names in the first column of the table in record.md below `heading`."""
    return {row[0].strip("`") for row in rows(RECORD, heading)}


def test_the_documented_commands_exist() -> None:
    """Each `make` command of the documentation is a target of the Makefile."""
    text = "".join(text_of(name) for name in DOCUMENTS)
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
    """Every problem code stands in the documentation with its status and its Retry-After."""
    documented = {
        row[2].strip("`"): (int(row[1]), "Retry-After" in row[3])
        for row in rows(text_of(f"{REFERENCE}/http-contract.md"), "## What a client gets")
        if row[2]
    }

    assert documented == {
        code: (problem.status, problem.retryable) for code, problem in PROBLEMS.items()
    }


def test_the_table_of_variables_is_the_codes() -> None:
    """Every environment variable stands in the documentation with its default."""
    defaults = {name: field.default for name, field in Settings.fields_.items()}
    expected = {
        "ONCEKEY_TABLE": "",
        "ONCEKEY_DISABLED": "0",
        "ONCEKEY_RESPONSE_BUCKET": "",
        "ONCEKEY_OUTBOX_TABLE": "",
        "ONCEKEY_QUEUE_URL": "",
        "ONCEKEY_TRANSPORT": "sdk",
        "ONCEKEY_METRICS_NAMESPACE": "",
        "ONCEKEY_METRICS_SERVICE": "",
        "ONCEKEY_TRACES": "off",
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
    table = rows(text_of(f"{REFERENCE}/settings.md"), "| variable | default |")
    documented = {row[0].strip("`"): row[1].strip("`") for row in table}

    assert documented == expected


def test_the_iam_actions_are_those_that_are_sent() -> None:
    """The page without the CDK names just the actions that reserve, wait and completion send."""
    with dynamodb_table() as client:
        recorder = Recorder(client)
        service = Protected(store=store_on(client), in_progress="wait")

        def repeat(_event: object, _op: object) -> dict[str, Any]:
            service.then = None
            service.send(load("apigw_http_v2_post"))
            return {"statusCode": 200, "body": ""}

        service.then = repeat
        service.send(load("apigw_http_v2_post"))
    _, _, below = text_of("layer/docs/guides/without-cdk.md").partition("## Actions\n")
    iam, _, _ = below.partition("## boto3\n")
    own, _, others = iam.partition("nothing else")

    assert set(re.findall(r"dynamodb:(\w+)", own)) == set(recorder.operations)
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html
    # Those of the reconciler and the relay, beside those of a transaction.
    kinds = {"Query", "BatchWriteItem", "Scan"} | {
        f"{action}Item" for action in dynamodb_transaction._ACTIONS.values()
    }
    assert set(re.findall(r"dynamodb:(\w+)", others)) == kinds


def test_the_design_names_every_transition() -> None:
    """The table of transitions has a row for each transition."""
    text = (DESIGN / "transitions.md").read_text("utf-8")
    transitions = {row[0].strip("`") for row in rows(text, "## Transitions")}
    assert transitions == {kind.__name__ for kind in Transition.__args__}


def test_the_design_names_every_attribute_of_a_record() -> None:
    """The format of a record is written down: its attributes, and the members of its maps."""
    assert names_in("| attribute | type | meaning |") == NAMES | {"put_off"}

    unusual = Policy(
        encoding=Encoding.HTTP,
        retention_s=1,
        gone_for_s=1,
        response_version=2,
        preset="stripe",
        is_queued=True,
        grace_ms=1,
    )
    assert names_in("**`policy`**") == set(policy_value(unusual)["M"])

    started = StartedStep(name="charge", position=0, mark=1, at_ms=1)
    finished = FinishedStep(name="charge", position=0, at_ms=1, result="1", is_final=True)
    members = {*started_value(started)["M"], *finished_value(finished)["M"]}
    assert names_in("**`steps`**") == members


def test_the_design_names_every_member_of_other_items() -> None:
    """The format of pointers, counters, outbox items and envelopes is written down."""
    assert names_in("| member of a pointer |") == {field.name for field in fields(Pointer)}

    count = Count(name="quota#1", tenant="acme", limit=1, expires_at_s=2, runs_out_at_s=1)
    counter = set(count_update("table", count)["ExpressionAttributeNames"].values())
    documented = names_in("| attribute of a counter |")
    assert {name.replace("<epoch seconds>", "1") for name in documented} == counter

    pause = Pause(scope=PauseScope.TENANT, name="acme", reason="r", by="ops", since_ms=1)
    values = pause_parameters("table", pause)["ExpressionAttributeValues"]
    assert names_in("| member of a pause |") == set(values[":pause"]["M"])

    small = Message(
        id="1",
        topic="payment.requested",
        payload="1",
        operation_id="2",
        operation="POST /payments",
        tenant="acme",
        created_at_ms=1,
        sequence=1,
        traceparent="00-1-2-01",
    )
    payload_ref = StoredRef(place=Place.OBJECT, name="outbox/1/2", digest="3")
    large = replace(small, payload="", payload_ref=payload_ref)
    kept = {"tries", "set_aside_at", "reason", "escalated_at"}
    assert names_in("## The outbox table") == {*message_item(small), *message_item(large)} | kept
    sent = {*json.loads(sealed(small)), *json.loads(sealed(large))}
    assert names_in("## Messages in the queue") == sent


def test_the_places_to_change_are_there() -> None:
    """architecture.md names only files and folders that exist as the places to change.

    Red when a module is renamed and the page is not.
    """
    text = (DESIGN / "architecture.md").read_text("utf-8")
    cells = [cell for row in rows(text, "## Where to change what") for cell in row[1:]]
    named = re.findall(r"`([a-z_]+(?:/[a-z_]*)+(?:\.py)?|[a-z_]+\.py)`", " ".join(cells))
    bases = (ROOT, ROOT / "layer/python/oncekey")

    assert named
    assert [each for each in named if not any((base / each).exists() for base in bases)] == []


def test_every_code_block_is_run_by_a_test() -> None:
    """A block is Python that a test runs, commands or a drawing; only the page of tables without
    the CDK has templates, which tests/infra/test_documented_schema.py reads.
    """
    run = examples_run_by(ROOT / "tests")
    for page in PAGES:
        for language, code in blocks(page):
            templates = {"yaml", "hcl"} if page.endswith("/without-cdk.md") else set[str]()
            assert language in {"python", "console", "text"} | templates, (page, language)
            assert language != "python" or code in run, f"no test runs this of {page}:\n{code}"


def test_the_front_page_is_short() -> None:
    """A newcomer reads the front page in a few minutes: it has at most 150 lines."""
    assert len(text_of("README.md").splitlines()) <= 150


def test_every_page_is_in_the_index() -> None:
    """layer/docs/README.md leads to each page beside and below it; the design has its own index."""
    index = ROOT / "layer/docs/README.md"
    linked = {(index.parent / target).resolve() for target in links(index)}
    pages = {path for path in index.parent.rglob("*.md") if "design" not in path.parts}

    assert pages - {index} <= linked


def test_the_pages_on_log_lines_and_metrics_are_drawn_from_the_code() -> None:
    """Every event that is logged and every metric stands in the documentation as the code has it,
    and no other; `python -m tests.support.telemetry_pages` draws the pages anew.
    """
    for page, text in telemetry_pages.drawn().items():
        assert page.read_text("utf-8") == text, page


def test_no_log_line_is_missed_by_its_page() -> None:
    """Every text in the layer that looks like the name of an event is the name of a drawn line.

    Red when a line is logged in a way that the page's generator does not see.
    """
    logged = set()
    for path in (ROOT / "layer/python").rglob("*.py"):
        code = path.read_text("utf-8")
        logged |= set(re.findall(r'"oncekey_event": "([a-z-]+)"', code))
        logged |= set(re.findall(r'\b_?say\(\s*logging\.\w+,\s*"([a-z-]+)"', code))

    assert logged == {line.event for line in telemetry_pages.lines()}


def links(document: Path) -> list[str]:
    """The files that a page links to."""
    return re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text("utf-8"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_between_documents_lead_somewhere(name: str) -> None:
    """A relative link names a file that is there, and a heading that stands in it."""
    document = ROOT / name
    for target, heading in re.findall(
        r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", document.read_text("utf-8")
    ):
        file = (document.parent / target).resolve() if target else document
        assert file.exists(), target
        if heading:
            assert heading in anchors(file.relative_to(ROOT).as_posix()), (target, heading)
