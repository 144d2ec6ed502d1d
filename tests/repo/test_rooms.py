"""The layer's rooms: imports run one way over them, and the design's table shows how."""

from __future__ import annotations

import pytest

from tests.support import rooms
from tests.support.tidy_files import Files, project_files

ENGINE = f"{rooms.LAYER}/engine/engine.py"
RECORD = f"{rooms.LAYER}/record/record.py"


@pytest.fixture(scope="module")
def files() -> Files:
    """Every text file of the project."""
    return project_files()


def test_imports_run_one_way_over_the_rooms(files: Files) -> None:
    """A room imports those before it in the order, also for types alone."""
    assert rooms.imports_against_the_order(files) == []


def test_the_designs_table_of_rooms_is_the_codes(files: Files) -> None:
    """The table of rooms is drawn from the code: `python -m tests.support.rooms`."""
    page = files[rooms.PAGE]

    assert page == rooms.page_with(rooms.drawn(files), page)


def test_every_test_is_in_a_room(files: Files) -> None:
    """The tests of a room of the layer are in the folder of its name."""
    assert rooms.tests_in_no_room(files) == []


@pytest.mark.parametrize(
    "line",
    [
        "from oncekey.engine.engine import attempt",
        "from oncekey.engine import engine",
        "def late():\n    from oncekey.engine.engine import attempt",
        "if TYPE_CHECKING:\n    from oncekey.engine.engine import attempt",
    ],
)
def test_an_import_of_a_room_above_is_found(line: str) -> None:
    """However it is written, an import against the order is a fault."""
    (fault,) = rooms.imports_against_the_order({RECORD: line, ENGINE: ""})

    assert "record imports engine, which stands above it" in fault


def test_an_import_of_a_room_below_is_none() -> None:
    """What is below may be imported."""
    code = "from oncekey.record.record import Record\nfrom oncekey import errors\n"

    assert rooms.imports_against_the_order({ENGINE: code, RECORD: ""}) == []


def test_a_folder_in_no_order_is_found() -> None:
    """A new room is given its place."""
    path = f"{rooms.LAYER}/attic/chest.py"

    (fault,) = rooms.imports_against_the_order({path: "from oncekey import errors"})

    assert "attic is no room" in fault


@pytest.mark.parametrize("path", ["tests/unit/test_it.py", "tests/test_it.py"])
def test_a_test_in_no_room_is_found(path: str) -> None:
    """A folder of tests is a room of the layer, or is named among the others."""
    good = {"tests/conftest.py": "", "tests/ground/test_it.py": "", "tests/e2e/test_it.py": ""}

    assert rooms.tests_in_no_room({**good, path: ""}) == [f"{path} is in no room"]
