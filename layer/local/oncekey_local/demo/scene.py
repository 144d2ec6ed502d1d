"""A scene: its play, its explanation and its promises."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey_local.demo.log import CHARGE, REFUND

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey_local.demo.promises import Promise
    from oncekey_local.demo.stage import Stage


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One scene. `due` has the correct numbers of charges and refunds in it."""

    title: str
    about: str
    play: Callable[[Stage], Awaitable[None]]
    due: Counter[str]
    promises: tuple[Promise, ...]


NOTHING = Counter[str]()
ONE_CHARGE, ONE_REFUND = Counter({CHARGE: 1}), Counter({REFUND: 1})
