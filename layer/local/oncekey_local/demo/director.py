"""Plays the scenes one after the other, whatever comes of each, and judges them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from oncekey_local.demo.backstage import CannotPlay
from oncekey_local.demo.log import Recording, SceneLog
from oncekey_local.demo.money import ALWAYS, NOTHING_LATE, moved_behind_the_scenes
from oncekey_local.demo.promises import Broken, broken_promises

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from oncekey_local.demo.scene import Scene
    from oncekey_local.demo.stage import Stage

# All scenes together take a third of it. What is not played by then is reported as such.
_LONGEST_S = 100


@dataclass(frozen=True, kw_only=True)
class Performance:
    """One scene as it was played, and which of its promises were broken."""

    scene: Scene
    log: SceneLog
    broken: tuple[Broken, ...]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """All scenes, and what was broken only in the end."""

    performances: tuple[Performance, ...]
    broken: tuple[Broken, ...]

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return not self.broken and not any(each.broken for each in self.performances)


async def perform(stage: Stage, scenes: Sequence[Scene]) -> Outcome:
    """Plays every scene, and returns within two minutes, whatever has got stuck."""
    performances: list[Performance] = []
    try:
        async with asyncio.timeout(_LONGEST_S):
            for number, scene in enumerate(scenes, start=1):
                stage.narrator.title(number, scene.title)
                stage.narrator.paragraph(scene.about, "dim")
                performances.append(judged(scene, await _played(stage, scene)))
                stage.narrator.verdicts(scene.promises, performances[-1].broken)
    except TimeoutError:
        late = SceneLog(trouble=f"the demo gave up after {_LONGEST_S} s")
        performances += [judged(scene, late) for scene in scenes[len(performances) :]]
    return Outcome(performances=tuple(performances), broken=await _end(stage, performances))


def judged(scene: Scene, log: SceneLog) -> Performance:
    """The scene with its broken promises; those of a scene that was not played are not guessed."""
    promises = ALWAYS if log.trouble else (*ALWAYS, *scene.promises)
    return Performance(scene=scene, log=log, broken=tuple(broken_promises(log, promises)))


async def _played(stage: Stage, scene: Scene) -> SceneLog:
    stage.recording = recording = Recording()
    try:
        made_before = tuple(await stage.movements())
        before = {movement.id for movement in made_before}
        calls = await stage.provider_calls()
        trouble = await _trouble(scene.play(stage))
        faults_left = await stage.calm()
        # What is still on its way belongs to this scene, whatever became of it.
        trouble = trouble or await _trouble(stage.come_to_rest())
        movements = [each for each in await stage.movements() if each.id not in before]
        calls = await stage.provider_calls() - calls
    except (aiohttp.ClientError, TimeoutError, CannotPlay) as error:
        return SceneLog(
            exchanges=tuple(recording.exchanges), trouble=f"the service is gone: {error}"
        )
    return SceneLog(
        exchanges=tuple(recording.exchanges),
        earlier=tuple(recording.earlier),
        states=dict(recording.states),
        made_before=made_before,
        movements=tuple(movements),
        provider_calls=calls,
        faults_left=faults_left,
        trouble=trouble,
    )


async def _trouble(playing: Awaitable[None]) -> str | None:
    try:
        await playing
    except (CannotPlay, aiohttp.ClientError, TimeoutError) as error:
        return str(error) or type(error).__name__
    return None


async def _end(stage: Stage, performances: Sequence[Performance]) -> tuple[Broken, ...]:
    try:
        in_the_end = await stage.movements()
    except (aiohttp.ClientError, TimeoutError, CannotPlay) as error:
        seen = f"the provider cannot be asked: {error}"
        return (Broken(expected=NOTHING_LATE, seen=seen),)
    return tuple(moved_behind_the_scenes((each.log for each in performances), in_the_end))
