"""The demo itself, played: against the service, and against the service without its protection."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from oncekey_local.demo.scenes import SCENES
from tests.support.demo_process import play

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo_process import Ended

ESCAPE = "\x1b"
_ROW = re.compile(r"^ *(\d+|total)  ?.* (\d+) +(\d+)  (kept|BROKEN)$", re.MULTILINE)


@pytest.fixture(scope="module")
def protected() -> Ended:
    """The demo, its output in a pipe."""
    return play()


@pytest.fixture(scope="module")
def unprotected() -> Ended:
    """The demo without protection, on a terminal."""
    return play("--unprotected", terminal=True)


def text(ended: Ended) -> str:
    """What was written, as a person sees it: without colour, and without what was overwritten."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", ended.output).replace("\r\n", "\n")
    return "\n".join(line.rpartition("\r")[2] for line in plain.split("\n"))


def rows(ended: Ended) -> dict[str, tuple[int, int, str]]:
    """The table: charges due, charges made and the verdict, by the number of the scene."""
    found = {row[1]: (int(row[2]), int(row[3]), row[4]) for row in _ROW.finditer(text(ended))}
    assert list(found) == [*(str(number) for number in range(1, len(SCENES) + 1)), "total"]
    return found


def test_every_promise_is_kept(protected: Ended) -> None:
    """The demo ends with status 0, and the provider has made exactly the charges that were due."""
    assert protected.status == 0, protected.output
    assert {verdict for _, _, verdict in rows(protected).values()} == {"kept"}
    assert all(due == made for due, made, _ in rows(protected).values())
    assert rows(protected)["total"][0] == sum(scene.due for scene in SCENES) == 7
    assert "promises were kept. Charges: 7 made, 7 due." in protected.output


def test_every_scene_is_told(protected: Ended) -> None:
    """Each scene has its number and title, and says which promises were kept."""
    for number, scene in enumerate(SCENES, start=1):
        assert f"\n{number:2}  {scene.title}\n" in protected.output
        for promise in scene.promises:
            assert f"✓ {promise.expected}" in " ".join(protected.output.split())


def test_piped_output(protected: Ended) -> None:
    """Into a pipe there are no escape sequences, and nothing is overwritten."""
    assert ESCAPE not in protected.output
    assert "\r" not in protected.output


def test_no_log_when_all_is_well(protected: Ended) -> None:
    """Where nothing failed there is no word of a log."""
    assert "service.log" not in protected.output


def test_unprotected_breaks(unprotected: Ended) -> None:
    """Without protection the demo ends with status 1, for charges that the provider has made."""
    assert unprotected.status == 1
    made = {number: (made, verdict) for number, (_, made, verdict) in rows(unprotected).items()}
    assert made["2"] == (1, "BROKEN")
    assert made["3"][0] > 1
    assert made["6"] == (5, "BROKEN")
    assert made["9"] == (2, "BROKEN")
    assert made["10"] == (1, "BROKEN")
    assert {made["5"], made["7"], made["8"]} == {(1, "kept")}


@pytest.mark.parametrize("number", [2, 3, 4, 6, 9])
def test_unprotected_names_the_double_charges(unprotected: Ended, number: int) -> None:
    """Each double charge is in the list of broken promises, with its scene."""
    listed = text(unprotected).rpartition("promises were broken")[2]
    assert re.search(
        rf"^ ?{number}  expected  .*\n +seen +a double charge: \d", listed, re.MULTILINE
    )


def test_terminal_output(unprotected: Ended) -> None:
    """On a terminal there is colour, and a countdown that ends."""
    assert f"{ESCAPE}[1m" in unprotected.output
    assert "waiting until the dead request's time is over:  6 s" in unprotected.output
    assert "waiting until the dead request's time is over: done" in text(unprotected)


def test_width(protected: Ended, unprotected: Ended) -> None:
    """No line is longer than 100 columns."""
    for ended in (protected, unprotected):
        assert [line for line in text(ended).splitlines() if len(line) > 100] == []


def test_nothing_is_left_behind(protected: Ended, unprotected: Ended) -> None:
    """Every process that a demo has started is gone when it ends, killed ones included."""
    for ended in (protected, unprotected):
        # dev, store, provider, two sandboxes, and one in place of the killed one
        assert len(ended.started) >= 6
        assert ended.still_there == []


@pytest.mark.parametrize("moment", ["starting service", "which takes its time"])
def test_interrupt(moment: str) -> None:
    """Ctrl-C, also while the service starts or a charge is held, ends all: status 130."""
    ended = play(interrupt_at=moment)
    assert ended.status == 130, ended.output
    assert len(ended.started) >= 1
    assert ended.still_there == []
    assert "stopped by SIGINT" in ended.output
    assert "Traceback" not in ended.output


def test_service_that_does_not_start(tmp_path: Path) -> None:
    """A service that does not start is said to, with the reason and the log: status 1."""
    ended = play(cwd=tmp_path, environment={"TMPDIR": str(tmp_path)})
    assert ended.status == 1
    assert "oncekey demo: the service failed: oncekey dev ended with status 2" in ended.output
    assert "run from the root of the project" in ended.output
    (log,) = tmp_path.glob("oncekey-demo-*/service.log")
    assert str(log) in ended.output
    assert "run from the root of the project" in log.read_text("utf-8")
    assert ended.still_there == []
