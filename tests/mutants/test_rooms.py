"""What is kept of the mutation tool's runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.mutants import operators, rooms
from tests.mutants.tool import Result

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_survivors_are_shown_again_and_those_whose_code_is_gone_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was caught stays counted, and a fault that can be made no more was not drawn."""
    monkeypatch.setattr(rooms, "FOUND", tmp_path / "rooms.toml")
    possible = operators.faults_of("oncekey/record/steps.py")
    left = possible[3]
    rooms.keep(
        Result(
            "record",
            possible=9,
            drawn=5,
            seed=7,
            tests=["tests/record"],
            equivalent=1,
            caught=2,
            survivors=[left.name, "oncekey/record/steps.py gone: 1 -> 2"],
        )
    )

    result, faults = rooms.last("record", possible)

    assert faults == [left]
    assert result == Result(
        "record",
        possible=9,
        drawn=4,
        seed=7,
        tests=["tests/record"],
        equivalent=1,
        caught=2,
    )
