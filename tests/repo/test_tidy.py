"""The project's rules, applied to the project. Each rule is itself tested in test_tidy_rules.py."""

from __future__ import annotations

import pytest

from tests.support import tidy_code, tidy_files, tidy_marks
from tests.support.tidy_files import Files, project_files


@pytest.fixture(scope="module")
def files() -> Files:
    """Every text file of the project."""
    return project_files()


def test_the_layer_imports_nothing_above_it(files: Files) -> None:
    """The layer imports neither the local runtime, nor the service, infra, or tests."""
    assert tidy_code.upward_imports(files) == []


def test_imports_inside_the_layer_form_no_circle(files: Files) -> None:
    """Loading any module of the layer loads what it needs first."""
    assert tidy_code.import_cycles(files) == []


def test_time_and_chance_have_one_door(files: Files) -> None:
    """Only clock.py reads time, randomness or ids, so that a simulation can replace it."""
    assert tidy_code.readings_of_time_and_chance(files) == []


def test_the_aws_sdk_has_one_door(files: Files) -> None:
    """Only the modules of store/ know the AWS SDK."""
    assert tidy_code.namings_of_the_aws_sdk(files) == []


def test_modules_are_short(files: Files) -> None:
    """No module is longer than its folder allows."""
    assert tidy_code.long_modules(files) == []


def test_functions_are_short(files: Files) -> None:
    """No function is longer than 60 lines."""
    assert tidy_code.long_functions(files) == []


def test_every_sample_event_is_used(files: Files) -> None:
    """Every file of events/ is named by a test."""
    assert tidy_files.unused_events(files) == []


def test_no_file_names_a_package_registry(files: Files) -> None:
    """Where packages come from is the machine's setting."""
    assert tidy_files.registry_names(files) == []


def test_no_file_names_a_path_of_one_machine(files: Files) -> None:
    """The project is the same wherever it is checked out."""
    assert tidy_files.machine_paths(files) == []


def test_the_lock_holds_no_address(files: Files) -> None:
    """The lock pins by version and hash."""
    assert tidy_files.lock_addresses(files) == []


def test_every_mark_names_a_point_and_says_when_it_is_red(files: Files) -> None:
    """A marked test shows a listed point or case and names the weakening that turns it red."""
    assert tidy_marks.wrong_marks(files) == []


def test_every_listed_point_case_and_fault_has_a_test(files: Files) -> None:
    """What the layer must do, and what went wrong elsewhere or before, is shown by a test."""
    assert tidy_marks.without_test(files) == []
