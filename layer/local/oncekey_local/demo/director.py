"""Plays the scenes one after the other, even if some fail, and checks their promises."""

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

# All scenes together normally take a third of this time. Scenes that were not played by then are
# reported as not played.
_LONGEST_S = 100


@dataclass(frozen=True, kw_only=True)
class Performance:
    """One played scene, with its log and its broken promises."""

    scene: Scene
    log: SceneLog
    broken: tuple[Broken, ...]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """All played scenes. `broken` are the promises that were broken after their scenes."""

    performances: tuple[Performance, ...]
    broken: tuple[Broken, ...]

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return not self.broken and not any(each.broken for each in self.performances)


async def perform(stage: Stage, scenes: Sequence[Scene]) -> Outcome:
    """Plays every scene. Returns within two minutes, even if something hangs."""
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
    """The scene with its broken promises. After trouble, only the promises in `ALWAYS` count."""
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
        # Calls and messages that are still on their way belong to this scene, even if it failed.
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
