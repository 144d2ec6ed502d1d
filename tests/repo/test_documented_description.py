"""The page on the description names every field, and its recipe works, word for word."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from oncekey_local import cli, description
from oncekey_local.description import (
    Function,
    Queue,
    QueueTrigger,
    ScheduleTrigger,
    Service,
    StreamTrigger,
)
from oncekey_local.description.grants import grants_of
from tests.support.documents import example_in_a_file, rows, text_of

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "layer/docs/reference/description.md"
ACTION = re.compile(r"`((?:dynamodb|sqs|s3):\w+)`")
# Those whose one argument has no name say it in the text.
UNNAMED = {"TableName", "BucketName", "QueueUrl", "Cors"}
CLASSES = {
    name: value
    for name in description.__all__
    if dataclasses.is_dataclass(value := getattr(description, name)) and name not in UNNAMED
}
# A function with one field alone, where more than a name is needed.
GIVEN: dict[str, Any] = {
    "streams": (StreamTrigger(table="t", on_failure="q"),),
    "queues": (QueueTrigger(queue="q"),),
    "schedule": ScheduleTrigger(every_minutes=1, on_failure="q"),
    "relays_from": "t",
}


def table(name: str) -> list[list[str]]:
    """The rows on the fields of a class."""
    return rows(text_of(PAGE), "## Values of variables" if name == "Setting" else f"# {name}\n")


def default(field: dataclasses.Field[Any]) -> str:
    """A field's default, as the page has it."""
    if field.default_factory is not dataclasses.MISSING:
        return f"`{field.default_factory()!r}`"
    return "" if field.default is dataclasses.MISSING else f"`{field.default!r}`"


@pytest.mark.parametrize("name", CLASSES)
def test_each_field_has_its_row(name: str) -> None:
    """Every class of the description has a row for each field, in order, with its default."""
    expected = [
        [f"`{one.name}`", default(one)]
        for one in dataclasses.fields(CLASSES[name])
        if one.name != "_"
    ]

    assert [row[:2] for row in table(name)] == expected


@pytest.mark.case(50)
def test_the_actions_of_a_field_are_those_that_it_grants() -> None:
    """A field's row names exactly the IAM actions that the field grants.

    Red when a grant changes and the page does not.
    """
    above: set[str] = set()
    for cell, _, _, text in table("Function"):
        name = cell.strip("`")
        given = GIVEN.get(name, ("x",) if isinstance(getattr(_plain(), name, ""), tuple) else "x")
        if name in {"name", "handler", "timeout_s", "memory_mb", "routes", "environment"}:
            granted: set[str] = set()
        elif name in {"allows", "compares"}:
            granted = set()
        else:
            changes = {name: given} | ({"sends_to": ("q",)} if name == "relays_from" else {})
            granted = _granted(dataclasses.replace(_plain(), **changes), name)
        documented = {*ACTION.findall(text), *(above if text.startswith("the same") else ())}
        assert documented == granted, name
        above = documented


def _plain() -> Function:
    return Function(name="f", handler="m.f", timeout_s=1)


def _granted(function: Function, field: str) -> set[str]:
    """With a queue in order, which lets a relay scan."""
    service = Service(name="s", functions=(), tables=(), queues=(Queue(name="q", fifo=True),))
    found = (grant for grant in grants_of(service, function) if grant.field == field)
    return {action for grant in found for action in grant.actions}


TRY = """
import json, os
os.environ["ORDERS_TABLE"] = "orders"
from oncekey.testing import MemoryStore, api_event, sqs_event, use_store
from orders import cancel, worker
from service import SERVICE
from oncekey_local.description.grants import grants_of

event = api_event(
    "POST /orders/{order_id}/cancellation",
    key="a-key-of-the-client",
    path_parameters={"order_id": "1"},
    claims={"tenant_id": "acme"},
)
store = MemoryStore()
with use_store(store):
    first, retry = (cancel.handler(event, None) for _ in range(2))
    told = worker.handler(sqs_event(store.messages), None)
    function = next(one for one in SERVICE.functions if one.name == "cancel")
    may = {(action, one.on.table) for one in grants_of(SERVICE, function) for action in one.actions}
    print(json.dumps({
        "same": first["body"] == retry["body"],
        "status": first["statusCode"],
        "writes": [write.kind for write in store.writes],
        "told": told,
        "may": ("dynamodb:UpdateItem", "orders") in may and ("dynamodb:PutItem", "outbox") in may,
    }))
"""


def test_the_recipe_adds_a_route_and_a_topic(tmp_path: Path) -> None:
    """A new service with the recipe's three blocks cancels an order once and handles its topic,
    and its description grants what the handler does.
    """
    folder = tmp_path / "shop"
    assert cli.main(["new", str(folder)]) == 0
    described = folder / "service.py"
    worker = folder / "orders" / "worker.py"
    (folder / "orders" / "cancel.py").write_text(
        example_in_a_file("layer/docs/reference/description.md", "import json")
    )
    new = example_in_a_file("layer/docs/reference/description.md", "CANCEL =")
    text = described.read_text("utf-8").replace("SERVICE = Service(", f"{new}\nSERVICE = Service(")
    text = text.replace("    functions=(\n", "    functions=(\n        CANCEL,\n", 1)
    described.write_text(text, "utf-8")
    above, _, _ = worker.read_text("utf-8").partition("# The queue has this one worker")
    worker.write_text(
        above + example_in_a_file("layer/docs/reference/description.md", "topics ="), "utf-8"
    )

    done = subprocess.run(
        [sys.executable, "-c", TRY],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "same": True,
        "status": 200,
        "writes": ["update"],
        "told": {"batchItemFailures": []},
        "may": True,
    }
