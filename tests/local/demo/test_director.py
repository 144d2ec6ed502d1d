"""The play goes on whatever a scene comes to, and is judged by what the provider says."""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from typing import TYPE_CHECKING, cast

import aiohttp
import pytest

from oncekey_local.demo import command, director
from oncekey_local.demo.backstage import CannotPlay
from oncekey_local.demo.log import CHARGE, REFUND, Exchange, Movement, Recording
from oncekey_local.demo.money import charged
from oncekey_local.demo.narrator import Narrator
from oncekey_local.demo.report import broken_by_scene, table, tell
from oncekey_local.demo.scene import Scene
from tests.support.demo_logs import accepted_answer, charge, refund

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey_local.demo.stage import Stage


ALL_KEPT = "All 6 promises were kept. Charges: 1 made, 1 due. Refunds: 0 made, 0 due. Time: 3 s."


class FakeStage:
    """A stage on which scenes move money by saying so."""

    def __init__(self) -> None:
        self.recording = Recording()
        self.narrator = Narrator(io.StringIO(), colour=False)
        self.made: list[Movement] = []
        self.asked = 0
        self.late_at = 0
        self.gone = False
        self.restless = False
        self.on_its_way: list[Exchange] = []
        self.faults_left: tuple[str, ...] = ()

    def charge(self) -> None:
        """Makes one charge."""
        self.made.append(charge(len(self.made)))

    def refund(self) -> None:
        """Makes one refund, which the provider lists after its charges like all of them."""
        self.made.append(refund(len(self.made)))

    async def movements(self) -> list[Movement]:
        """See `Backstage`."""
        if self.gone:
            raise aiohttp.ClientConnectionError("refused")
        self.asked += 1
        if self.asked == self.late_at:
            self.charge()
        return sorted(self.made, key=lambda movement: movement.kind)

    async def provider_calls(self) -> int:
        """See `Backstage`."""
        return len(self.made)

    async def calm(self) -> tuple[str, ...]:
        """See `Stage`."""
        return self.faults_left

    async def come_to_rest(self) -> None:
        """See `Stage`: whatever is on its way is charged."""
        if self.restless:
            raise CannotPlay("messages are on their way")
        for exchange in self.on_its_way:
            self.charge()
            self.recording.states[exchange.payment_id or ""] = "succeeded"
        self.on_its_way.clear()


def scene(play: Callable[[FakeStage], Awaitable[None]], *, due: int = 1, refunds: int = 0) -> Scene:
    """A scene that promises its charges."""
    return Scene(
        title="A scene",
        about="About it.",
        play=cast("Callable[[Stage], Awaitable[None]]", play),
        due=Counter({CHARGE: due, REFUND: refunds}),
        promises=(charged(due, says="charges as due"),),
    )


async def charging(stage: FakeStage) -> None:
    """Charges once."""
    stage.charge()


async def charging_twice(stage: FakeStage) -> None:
    """Charges once too often."""
    stage.charge()
    stage.charge()


async def giving_back(stage: FakeStage) -> None:
    """Gives back once."""
    stage.refund()


async def taking_on(stage: FakeStage) -> None:
    """Takes on a payment that is charged later."""
    exchange = accepted_answer("call", f"pay_{len(stage.made)}")
    stage.recording.exchanges.append(exchange)
    stage.on_its_way.append(exchange)


async def failing(stage: FakeStage) -> None:
    """Cannot go on."""
    raise CannotPlay("nobody to kill")


async def stuck(stage: FakeStage) -> None:
    """Never ends."""
    await asyncio.Event().wait()


async def leaving(stage: FakeStage) -> None:
    """Loses the provider."""
    stage.gone = True


def perform(stage: FakeStage, *scenes: Scene) -> director.Outcome:
    """What comes of these scenes."""
    return asyncio.run(director.perform(cast("Stage", stage), scenes))


def broken(outcome: director.Outcome) -> list[tuple[str, str]]:
    """What was seen in place of what was promised, by the number of the scene."""
    return [(number, each.seen) for number, each in broken_by_scene(outcome)]


def test_each_scene_has_its_own_money() -> None:
    """A scene is judged by the money moved in it, and not by what was moved before."""
    scenes = (scene(charging), scene(giving_back, due=0, refunds=1), scene(charging))
    outcome = perform(FakeStage(), *scenes)
    assert outcome.kept
    moved = [[each.kind for each in performed.log.moved] for performed in outcome.performances]
    assert moved == [[CHARGE], [REFUND], [CHARGE]]


def test_what_is_on_its_way_belongs_to_its_scene() -> None:
    """A scene ends when its payments have come to their end, and is judged by that."""
    outcome = perform(FakeStage(), scene(taking_on), scene(charging))
    assert outcome.kept
    assert outcome.performances[0].log.states == {"pay_0": "succeeded"}


def test_what_never_comes_to_rest() -> None:
    """A scene whose messages stay on their way could not be played to its end."""
    stage = FakeStage()
    stage.restless = True
    assert broken(perform(stage, scene(charging))) == [("1", "messages are on their way")]


def test_the_play_goes_on() -> None:
    """A broken promise, or a scene that cannot be played, does not stop those that follow."""
    outcome = perform(FakeStage(), scene(charging_twice), scene(failing), scene(charging))
    assert not outcome.kept
    assert broken(outcome) == [
        ("1", "a double charge: 2 charges at the provider, 1 due"),
        ("2", "nobody to kill"),
    ]
    assert outcome.performances[2].broken == ()


def test_a_fault_that_never_struck() -> None:
    """A scene whose fault did not happen shows nothing, and says so."""
    stage = FakeStage()
    stage.faults_left = ("lose_answer",)
    assert broken(perform(stage, scene(charging))) == [("1", "lose_answer never struck")]


def test_a_service_that_is_gone() -> None:
    """When nobody answers any more, every scene and the end say so."""
    outcome = perform(FakeStage(), scene(leaving), scene(charging))
    assert broken(outcome) == [
        ("1", "the service is gone: refused"),
        ("2", "the service is gone: refused"),
        ("", "the provider cannot be asked: refused"),
    ]


def test_late_charges() -> None:
    """A charge that comes after the end of the last scene is found."""
    stage = FakeStage()
    stage.late_at = 3  # before and after the scene, and then in the end
    outcome = perform(stage, scene(charging))
    assert [seen for _, seen in broken(outcome)] == ["late: charge 12.00 EUR pi_1"]
    assert not outcome.kept


def test_a_scene_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo ends even if a scene does not; the scenes not played are broken, not forgotten."""
    monkeypatch.setattr(director, "_LONGEST_S", 0)
    outcome = perform(FakeStage(), scene(stuck), scene(charging))
    assert broken(outcome) == [
        ("1", "the demo gave up after 0 s"),
        ("2", "the demo gave up after 0 s"),
    ]


def test_table() -> None:
    """The table has a row for each scene with the money due and moved, and the total."""
    scenes = (scene(charging), scene(charging_twice), scene(giving_back, due=0, refunds=1))
    lines = table(perform(FakeStage(), *scenes).performances)
    assert lines[0].split() == ["scene", "key", "sent", "answers", "due", "moved", "verdict"]
    assert set(lines[1]) == {"─"}
    assert lines[2].split() == ["1", "A", "scene", "0", "1", "1", "kept"]
    assert lines[3].split() == ["2", "A", "scene", "0", "1", "2", "BROKEN"]
    assert lines[4].split() == ["3", "A", "scene", "0", "1", "1", "kept"]
    assert lines[5].split() == ["total", "0", "3", "4", "BROKEN"]


@pytest.mark.parametrize(
    ("play", "protected", "last"),
    [
        (charging, True, ALL_KEPT),
        (charging_twice, True, "    seen      a double charge: 2 charges at the provider, 1 due"),
        (charging_twice, False, "This is what retries do to a service without protection."),
    ],
)
def test_last_words(
    play: Callable[[FakeStage], Awaitable[None]], protected: bool, last: str
) -> None:
    """The end says that all was kept, or what was expected and seen, and what to compare with."""
    output = io.StringIO()
    outcome = perform(FakeStage(), scene(play))
    tell(Narrator(output, colour=False), outcome, protected=protected, seconds=3.2)
    assert output.getvalue().splitlines()[-1].startswith(last)


@pytest.mark.parametrize(
    ("play", "protected", "shown"),
    [
        (charging, True, False),
        (charging_twice, True, True),
        (charging_twice, False, False),
        (failing, False, True),
    ],
)
def test_log(play: Callable[[FakeStage], Awaitable[None]], protected: bool, shown: bool) -> None:
    """The service's log is shown when something failed that should not."""
    outcome = perform(FakeStage(), scene(play))
    assert command._is_log_of_interest(outcome, protected=protected) is shown


def test_promise_is_told_as_kept_or_broken() -> None:
    """After its scene a promise stands with its mark, and a broken one with what was seen."""
    stage = FakeStage()
    perform(stage, scene(charging), scene(charging_twice))
    output = cast("io.StringIO", stage.narrator.output).getvalue()
    assert output.count("    ✓ charges as due\n") == 1
    assert (
        "    ✗ charges as due (seen: a double charge: 2 charges at the provider, 1 due)" in output
    )
