"""The demo itself, played: against the service, and against the service without its protection."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from oncekey_local.demo.log import CHARGE, REFUND
from oncekey_local.demo.money import NOTHING_LATE
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
    """The table: money due, money moved and the verdict, by the number of the scene."""
    found = {row[1]: (int(row[2]), int(row[3]), row[4]) for row in _ROW.finditer(text(ended))}
    assert list(found) == [*(str(number) for number in range(1, len(SCENES) + 1)), "total"]
    return found


def test_every_promise_is_kept(protected: Ended) -> None:
    """The demo ends with status 0, and the provider has moved exactly the money that was due."""
    assert protected.status == 0, protected.output
    assert {verdict for _, _, verdict in rows(protected).values()} == {"kept"}
    assert all(due == moved for due, moved, _ in rows(protected).values())
    due: Counter[str] = sum((scene.due for scene in SCENES), Counter())
    assert due == {CHARGE: 6, REFUND: 3}
    assert rows(protected)["total"][0] == due.total()
    assert "promises were kept. Charges: 6 made, 6 due. Refunds: 3 made, 3 due." in protected.output


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


def test_the_worker_is_killed_in_the_middle(protected: Ended) -> None:
    """A worker dies by SIGKILL; its payment is pending then, and succeeds with nobody's help."""
    _, _, told = protected.output.partition("is killed (SIGKILL)")
    told, _, _ = told.partition("✓")
    states = re.findall(r"← 2\d\d payment \S+ (pending|succeeded)", told)
    assert states == ["pending", "pending", "succeeded"]


def test_two_unknown_refunds_are_settled_by_two_ways(protected: Ended) -> None:
    """Two processes die by SIGKILL in a refund; the one that was made is settled by the provider's
    event, sent twice, and the other by the reconciler's question.
    """
    told = text(protected)
    died, told, asked = (told.partition(f"\n {number}  ")[2] for number in (7, 8, 9))
    assert died.partition("\n 8  ")[0].count("is killed (SIGKILL)") == 2
    by_event = told.partition("\n 9  ")[0]
    assert re.findall(r"← (\d\d\d)", by_event) == ["201", "409"]
    assert "each of them twice" in by_event
    by_question = asked.partition("\n10  ")[0]
    assert "the reconciler runs: 1 asked about, 1 settled" in by_question
    assert re.findall(r"← (\d\d\d)", by_question) == ["201", "201"]


@pytest.mark.proof
def test_unprotected_breaks(unprotected: Ended) -> None:
    """Without protection the demo ends with status 1, for money that the provider has moved."""
    assert unprotected.status == 1
    moved = {number: (made, verdict) for number, (_, made, verdict) in rows(unprotected).items()}
    assert moved["2"] == (1, "BROKEN")
    assert moved["3"][0] > 1
    assert moved["4"] == (1, "BROKEN")
    assert moved["6"] == (2, "BROKEN")
    assert moved["7"] == (7, "BROKEN")
    assert moved["8"] == moved["9"] == (2, "BROKEN")
    assert moved["13"] == (1, "BROKEN")
    assert {moved["5"], moved["10"]} == {(1, "kept")}


@pytest.mark.parametrize(
    ("number", "kind"),
    [(2, CHARGE), (3, REFUND), (4, CHARGE), (6, CHARGE), (7, REFUND), (8, REFUND), (9, REFUND)],
)
@pytest.mark.proof
def test_unprotected_names_the_double_payments(unprotected: Ended, number: int, kind: str) -> None:
    """Each double charge and refund is in the list of broken promises, with its scene."""
    listed = text(unprotected).rpartition("promises were broken")[2]
    assert re.search(
        rf"^ ?{number}  expected  .*\n +seen +a double {kind}: \d", listed, re.MULTILINE
    )


@pytest.mark.proof
def test_unprotected_plays_to_its_end(unprotected: Ended) -> None:
    """Without protection every scene is played, and nothing moves after the end of its scene."""
    assert "the scene can be played to its end" not in text(unprotected)
    assert NOTHING_LATE not in text(unprotected)


@pytest.mark.proof
def test_terminal_output(unprotected: Ended) -> None:
    """On a terminal there is colour, and a countdown that ends."""
    assert f"{ESCAPE}[1m" in unprotected.output
    assert "waiting until the dead requests' leases end:  6 s" in unprotected.output
    assert "waiting until the dead requests' leases end: done" in text(unprotected)


@pytest.mark.proof
def test_width(protected: Ended, unprotected: Ended) -> None:
    """No line is longer than 100 columns."""
    for ended in (protected, unprotected):
        assert [line for line in text(ended).splitlines() if len(line) > 100] == []


@pytest.mark.proof
def test_nothing_is_left_behind(protected: Ended, unprotected: Ended) -> None:
    """Every process that a demo has started is gone when it ends, killed ones included."""
    for ended in (protected, unprotected):
        # dev, store, provider, six functions' sandboxes, and three in place of the killed ones
        assert len(ended.started) >= 12
        assert ended.still_there == []


@pytest.mark.proof
@pytest.mark.parametrize("moment", ["starting service", "takes its time", "the worker, process"])
def test_interrupt(moment: str) -> None:
    """Ctrl-C, also while the service starts, a call is held or a worker dies, ends all: 130."""
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
    assert "say --service MODULE:NAME" in ended.output
    (log,) = tmp_path.glob("oncekey-demo-*/service.log")
    assert str(log) in ended.output
    assert "say --service MODULE:NAME" in log.read_text("utf-8")
    assert ended.still_there == []
