"""The command of `make simulate`: its figures, how it goes on, and how a seed is replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncekey.settlement import resolvers
from tests.simulation import simulate
from tests.simulation.simulate import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _resolvers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command declares is taken back."""
    monkeypatch.setattr(resolvers, "_resolvers", resolvers._resolvers)


def test_a_run_goes_on_after_what_its_log_has_and_the_figures_add_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second run begins with the seed after the last of the first; the sum is of both."""
    log = tmp_path / "log"
    several = ["--seeds", "16", "--processes", "1", "--log", str(log)]

    assert main([*several, "--first", "1"]) == 0
    assert main(several) == 0
    assert main(["--sum", str(log)]) == 0

    said = capsys.readouterr().out
    assert "seeds 1 to 16\n" in said
    assert "seeds 17 to 32\n" in said
    assert "32 schedules (4 of whole services)" in said
    assert said.endswith("violations: 0\n")


def test_a_failing_seed_names_the_command_that_replays_it() -> None:
    """A run prints the command, and the command says what becomes of the seed."""
    figures = {**simulate.figures_of(range(1, 3)), "failed": [2]}

    assert simulate.told(figures).endswith("--replay 2")
    assert simulate.replayed(2) == "seed 2: no rule is broken"
