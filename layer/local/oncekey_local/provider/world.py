"""The provider's whole state, which a reset replaces."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiohttp import web

from oncekey_local.provider.faults import Faults
from oncekey_local.provider.keys import KeyMemory
from oncekey_local.provider.ledger import Ledger
from oncekey_local.provider.webhooks import Target, Webhooks


@dataclass
class World:
    """The whole state of a provider. A call belongs to the world in which it arrived."""

    webhooks: Webhooks
    ledger: Ledger = field(init=False)
    keys: KeyMemory = field(default_factory=KeyMemory)
    faults: Faults = field(default_factory=Faults)
    calls: int = 0

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.webhooks.emit, lambda: self.faults.take("process"))

    def counts(self) -> dict[str, int]:
        """The numbers of held and arrived calls, successful charges and refunds."""
        intents = self.ledger.payment_intents.values()
        return {
            "held": self.faults.held,
            "calls": self.calls,
            "charges": sum(intent.status == "succeeded" for intent in intents),
            "refunds": len(self.ledger.refunds),
        }


@dataclass
class Holder:
    """The current world. Its events are sent to `target`, if there is one."""

    target: Target | None
    world: World = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Replace the world with an empty one."""
        self.world = World(Webhooks(self.target))


WORLD = web.AppKey("world", Holder)
