"""Each rule of test_tidy.py on a good and on a bad example."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import tidy_code, tidy_files, tidy_marks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.tidy_files import Files

LAYER = "layer/python/oncekey"


def _layer(**modules: str) -> Files:
    return {f"{LAYER}/{name}.py": text for name, text in modules.items()}


@pytest.mark.parametrize(
    "statement",
    [
        "import oncekey_local.store.store",
        "from functions.payments import logic",
        "import infra",
        "def late():\n    from tests.support import events",
    ],
)
def test_an_upward_import_is_found(statement: str) -> None:
    """Whatever its form, and even inside a function, an import from above is a fault."""
    (fault,) = tidy_code.upward_imports(_layer(engine=statement))

    assert fault.startswith(f"{LAYER}/engine.py:")
    assert tidy_code.upward_imports(_layer(engine="from oncekey import clock")) == []


@pytest.mark.parametrize(
    "modules",
    [
        {"a": "from oncekey import b", "b": "from oncekey.a import value"},
        {"a": "from .b import value", "b": "from .c import value", "c": "import oncekey.a"},
        {"__init__": "from oncekey.a import value", "a": "from oncekey import other"},
        {"a": "if True:\n    from oncekey import b", "b": "class C:\n    from oncekey import a"},
    ],
)
def test_a_circle_of_imports_is_found(modules: Files) -> None:
    """Modules that need each other while they load are a fault, directly or by a detour."""
    (fault,) = tidy_code.import_cycles(_layer(**modules))

    assert "oncekey.a" in fault


@pytest.mark.parametrize(
    "late",
    [
        "def f():\n    from oncekey import a",
        "async def f():\n    from oncekey import a",
        "if TYPE_CHECKING:\n    from oncekey import a",
    ],
)
def test_an_import_that_does_not_happen_on_loading_forms_no_circle(late: str) -> None:
    """Imports for type checkers, or inside a function, close no circle."""
    assert tidy_code.import_cycles(_layer(a="from oncekey import b", b=late)) == []


@pytest.mark.parametrize(
    "code",
    [
        "import time",
        "from time import monotonic",
        "import random as chance",
        "from secrets import token_bytes",
        "from uuid import uuid4",
        "import uuid as u\nu.uuid1()",
        "import os\nos.urandom(8)",
        "import os.path\nos.urandom(8)",
        "from datetime import datetime\ndatetime.now(tz=UTC)",
        "import datetime as d\nd.datetime.utcnow()",
        "from datetime import date\ndate.today()",
    ],
)
def test_a_second_source_of_time_or_chance_is_found(code: str) -> None:
    """Time, randomness and ids are found under any alias, except in clock.py."""
    assert len(tidy_code.readings_of_time_and_chance(_layer(engine=code))) == 1
    assert tidy_code.readings_of_time_and_chance(_layer(clock=code)) == []


def test_pure_uses_of_dates_and_ids_are_no_fault() -> None:
    """Making a UUID or a date from given values reads nothing."""
    code = (
        "from datetime import UTC, datetime\nfrom uuid import UUID, uuid5\n"
        "datetime.fromtimestamp(0, tz=UTC)\nUUID(int=1)\n'the time of day'"
    )

    assert tidy_code.readings_of_time_and_chance(_layer(engine=code)) == []


@pytest.mark.parametrize(
    "code",
    [
        "import boto3",
        "from botocore.exceptions import ClientError",
        "if TYPE_CHECKING:\n    import botocore.client",
        "importlib.import_module('boto3')",
        "sys.modules['botocore.exceptions']",
    ],
)
def test_the_aws_sdk_elsewhere_is_found(code: str) -> None:
    """The SDK is a fault outside the room store/, also for type checkers and by name."""
    assert len(tidy_code.namings_of_the_aws_sdk(_layer(engine=code))) == 1
    assert tidy_code.namings_of_the_aws_sdk(_layer(**{"store/dynamodb/client": code})) == []


def test_prose_may_speak_of_the_sdk() -> None:
    """A docstring that explains boto3 is no import of it."""
    assert tidy_code.namings_of_the_aws_sdk(_layer(engine='"""boto3 retries by itself."""')) == []


@pytest.mark.parametrize(
    ("folder", "most"), [("layer/local/x", 400), ("functions", 400), ("infra", 400), ("tests", 450)]
)
def test_a_long_module_is_found(folder: str, most: int) -> None:
    """A module may be as long as its folder allows, and not a line longer."""
    assert tidy_code.long_modules({f"{folder}/m.py": "pass\n" * most}) == []
    assert tidy_code.long_modules({f"{folder}/m.py": "pass\n" * (most + 1)}) == [
        f"{folder}/m.py has {most + 1} lines, at most {most}"
    ]


@pytest.mark.parametrize("start", ["def f():\n", "async def f():\n", "class C:\n  def f(self):\n"])
def test_a_long_function_is_found(start: str) -> None:
    """A function may have 60 lines with its first, and not one more, its docstring aside."""
    most = tidy_code.MAX_FUNCTION_LINES
    documented = start + '    """It is\n\n    documented."""\n' + "    pass\n" * (most - 1)

    assert tidy_code.long_functions({"infra/m.py": documented}) == []
    assert tidy_code.long_functions({"infra/m.py": start + "    pass\n" * (most - 1)}) == []
    assert len(tidy_code.long_functions({"infra/m.py": start + "    pass\n" * most})) == 1


def test_an_unused_event_is_found() -> None:
    """An event counts as used when a test module names it, not when a helper does."""
    files = {
        "events/used.json": "{}",
        "events/spare.json": "{}",
        "events/README.md": "spare",
        "tests/http/test_it.py": "load('used')",
        "tests/support/events.py": "load('spare')",
    }

    assert tidy_files.unused_events(files) == ["events/spare.json is used by no test"]


@pytest.mark.parametrize(
    "line",
    [
        ".".join(("https://files", "pythonhosted", "org")) + "/packages/x.whl",
        ".".join(("https://registry", "npmjs", "org")),
        "--" + "index-url https://mirror.example.com",
        "pip install --extra" + "-index-url=x y",
    ],
)
def test_a_package_registry_is_found(line: str) -> None:
    """The host of a registry, or an option that names one, is a fault in any file."""
    assert tidy_files.registry_names({"Makefile": f"all:\n{line}\n"}) == [
        "Makefile:2 names a package registry"
    ]


@pytest.mark.parametrize("parts", [("home", "ada"), ("Users", "ada"), ("root", ".cache")])
def test_a_path_of_one_machine_is_found(parts: tuple[str, ...]) -> None:
    """A home folder is a fault; a URL whose path looks like one is not."""
    path = "/" + "/".join(parts)

    assert tidy_files.machine_paths({"README.md": f"see {path}/notes"}) != []
    assert tidy_files.machine_paths({"README.md": f"https://example.com{path}"}) == []


def test_an_address_in_the_lock_is_found() -> None:
    """A package locked by its address is a fault."""
    good = "boto3==1.40.0 \\\n    --hash=sha256:00\n"

    assert tidy_files.lock_addresses({"requirements.lock": good}) == []
    assert tidy_files.lock_addresses({"requirements.lock": good + "x @ https://x.example\n"}) == [
        "requirements.lock:3 locks an address"
    ]


def test_ignored_files_are_not_read(tmp_path: Path) -> None:
    """What .gitignore leaves out, and what is no text, is no file of the project."""
    (tmp_path / ".gitignore").write_text("cdk.out/\n*.egg-info/\n")
    for name in ("cdk.out/a.py", "x.egg-info/b.py", ".git/c.py", "infra/d.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("pass")
    (tmp_path / "infra" / "image.png").write_bytes(b"\xff\xfe\x00")

    assert set(tidy_files.project_files(tmp_path)) == {".gitignore", "infra/d.py"}


def _marked(code: str) -> Files:
    return {
        "tests/checklist.md": "| n | point |\n| --- | --- |\n| A1 | One |\n| B2 | Two |\n",
        "tests/cases.md": "| n | kind |\n| --- | --- |\n| 48 | deployment |\n",
        "tests/faults.md": "| n | right behaviour |\n| --- | --- |\n| K2.10 | It holds. |\n",
        "tests/http/test_it.py": code,
    }


GOOD = '@pytest.mark.{mark}\ndef test_it():\n    """It holds.\n\n    Red when it breaks.\n    """\n'


@pytest.mark.parametrize(
    "mark", ['requirement("A1")', "case(48)", 'requirement("A1", "B2")', 'fault("K2.10")']
)
def test_a_good_mark_is_no_fault(mark: str) -> None:
    """A mark that names a listed point, on a test that says when it is red, is right."""
    assert tidy_marks.wrong_marks(_marked(GOOD.format(mark=mark))) == []


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (GOOD.format(mark='requirement("A9")'), "requirement A9 is not in tests/checklist.md"),
        (GOOD.format(mark='requirement("A1", "Z1")'), "requirement Z1 is not in"),
        (GOOD.format(mark="case(49)"), "case 49 is not in tests/cases.md"),
        (GOOD.format(mark='fault("K2.1")'), "fault K2.1 is not in tests/faults.md"),
        (GOOD.format(mark="requirement()"), "requirement ? is not in"),
        (GOOD.format(mark="requirement(number)"), "requirement ? is not in"),
        (GOOD.format(mark="case(48)").replace("Red when", "Sure as"), "has no words 'Red when'"),
        ("@pytest.mark.case(48)\ndef test_it():\n    pass\n", "has no words 'Red when'"),
        ("pytestmark = pytest.mark.case(48)\n", "stands on no test function"),
    ],
)
def test_a_wrong_mark_is_found(code: str, fault: str) -> None:
    """A mark that names nothing, says nothing, or stands on no test is a fault."""
    (found,) = tidy_marks.wrong_marks(_marked(code))

    assert fault in found


def test_a_mark_of_one_parameter_belongs_to_its_test() -> None:
    """A mark inside a parametrisation counts for the test that bears it."""
    code = GOOD.format(
        mark='parametrize("x", [pytest.param(1, marks=pytest.mark.requirement("A1"))])'
    )

    assert tidy_marks.wrong_marks(_marked(code)) == []
    assert "requirement A1 has no test" not in tidy_marks.without_test(_marked(code))


def test_what_no_test_shows_is_found() -> None:
    """Each row of each list has a test of its own."""
    all_but_one = GOOD.format(mark='requirement("A1")') + GOOD.format(mark="case(48)")
    whole = all_but_one + GOOD.format(mark='requirement("B2")') + GOOD.format(mark='fault("K2.10")')

    assert tidy_marks.without_test(_marked(whole)) == []
    assert tidy_marks.without_test(_marked(all_but_one)) == [
        "requirement B2 has no test",
        "fault K2.10 has no test",
    ]


@pytest.mark.parametrize(("kind", "number"), [("requirement", 79), ("case", 37), ("fault", 79)])
def test_the_lists_are_read_whole(kind: str, number: int) -> None:
    """Every row of the project's own lists is understood."""
    assert len(tidy_marks.listed(tidy_files.project_files(), kind)) == number
