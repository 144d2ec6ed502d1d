"""`oncekey dev` runs edited code from the next request on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncekey_local.dev_process import DevProcess
from oncekey_local.functions.sources import Sources
from tests.support.dev_service import ROOT, Meeting, send

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DESCRIPTION = """
from oncekey_local.description import Function, Route, Service

SERVICE = Service(
    name="edited",
    functions=(
        Function(
            name="edited",
            handler="edited.handler",
            timeout_s=29,
            routes=(Route(method="POST", path="/meet"), Route(method="GET", path="/said")),
        ),
    ),
    tables=(),
)
"""
HANDLER = """
from tests.support.sample_functions import meet

SAID = "one"

def handler(event, context):
    if event["rawPath"] == "/meet":
        return {"statusCode": 200, "body": SAID + " " + meet(event, context)["body"]}
    return {"statusCode": 200, "body": SAID}
"""


@pytest.fixture
def edited(tmp_path: Path) -> Iterator[tuple[DevProcess, Path]]:
    """A service whose code may be edited, and its file."""
    (tmp_path / "service.py").write_text(DESCRIPTION)
    (tmp_path / "pyproject.toml").write_text('[tool.oncekey]\nservice = "service:SERVICE"\n')
    code = tmp_path / "edited.py"
    code.write_text(HANDLER)
    environment = {"PYTHONPATH": str(ROOT)}
    with DevProcess(cwd=str(tmp_path), environment=environment, reloads=True) as dev:
        yield dev, code


def said(dev: DevProcess) -> tuple[int, str]:
    """The status, and what the handler says."""
    answer = send(dev.url, "GET", "/said", token=dev.token("acme"))
    return answer.status, answer.body.decode()


def test_the_next_request_runs_edited_code(edited: tuple[DevProcess, Path]) -> None:
    """A request after an edit runs the new code; one that runs meanwhile finishes with the old.
    A syntax error is in the log and costs requests a 500, and the old code does not run again.
    A change of the description asks for a restart.

    Red when the old processes take another request, or a running one is killed.
    """
    dev, code = edited
    with Meeting() as meeting:
        assert said(dev) == (200, "one")
        meeting.call(dev)
        _, connection = meeting.arrival()
        code.write_text(HANDLER.replace('"one"', '"two"'))
        assert said(dev) == (200, "two")
        connection.send("finished")
        running = meeting.answer()
        assert (running.status, running.body) == (200, b"one finished")

    code.write_text(HANDLER.replace('"one"', "(one"))
    assert said(dev)[0] == 500
    assert "SyntaxError" in dev.log() or "Syntax error" in dev.log()

    code.write_text(HANDLER.replace('"one"', '"three"'))
    assert said(dev) == (200, "three")
    assert "changed: edited.py; later requests run the new code" in dev.log()
    assert "restart oncekey dev" not in dev.log()
    (code.parent / "service.py").write_text(DESCRIPTION + "\n")
    assert said(dev) == (200, "three")
    assert "changed: service.py; the description may have changed: restart" in dev.log()
    assert "service.py; later requests" not in dev.log()


def test_what_is_no_code_of_the_project_is_not_watched(tmp_path: Path) -> None:
    """New, changed and removed Python files are seen once; tests, virtual environments and
    hidden folders are not looked at.
    """
    for name in (
        "tests/t.py",
        ".git/a.py",
        "env/pyvenv.cfg",
        "env/b.py",
        "pkg/c.py",
        "pkg/d.txt",
        "e.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    sources = Sources(str(tmp_path))
    assert sources.changed() == set()

    for name in ("tests/t.py", ".git/a.py", "env/b.py", "pkg/c.py", "pkg/d.txt", "pkg/new.py"):
        (tmp_path / name).write_text("changed")
    (tmp_path / "e.py").unlink()

    assert sources.changed() == {
        str(tmp_path / name) for name in ("pkg/c.py", "pkg/new.py", "e.py")
    }
    assert sources.changed() == set()
