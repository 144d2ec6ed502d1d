"""What was seen: every request with its answer, and every charge that the provider made."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

SUCCEEDED = "succeeded"


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a client wants paid. A retry sends the same order under the same key."""

    key: str
    amount: int
    tenant: str = "acme"


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request and its answer.

    `step` says which part the request has in its scene. `order` is None where nothing was to be
    paid. A connection that ended without an answer has status 0. Header names are in lower case.
    """

    step: str
    tenant: str
    order: Order | None
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def replayed(self) -> bool:
        """Whether the answer says that it was given before."""
        return self.headers.get("idempotent-replayed") == "true"

    @property
    def problem(self) -> str | None:
        """The code of the problem that the answer reports."""
        kind = self._member("type")
        return str(kind).rpartition(":")[2] if kind is not None else None

    @property
    def payment_id(self) -> str | None:
        """The id of the payment that the answer shows."""
        identifier = self._member("payment_id")
        return str(identifier) if identifier is not None else None

    def _member(self, name: str) -> Any:
        try:
            body = json.loads(self.body)
        except ValueError:
            return None
        return body.get(name) if isinstance(body, dict) else None


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A payment intent as the provider lists it; money has moved only if it `succeeded`."""

    id: str
    operation_id: str
    payment_id: str
    amount: int
    status: str = SUCCEEDED


@dataclass(frozen=True, kw_only=True)
class SceneLog:
    """What was seen in one scene.

    Args:
        exchanges: in the order in which the answers came.
        earlier: those of earlier scenes that this one goes back to.
        charges: what the provider did during the scene, declined charges included.
        provider_calls: how many calls reached the provider, repeated ones included.
        faults_left: what was to go wrong and never did.
        trouble: why the scene could not be played to its end.
    """

    exchanges: tuple[Exchange, ...] = ()
    earlier: tuple[Exchange, ...] = ()
    charges: tuple[Charge, ...] = ()
    provider_calls: int = 0
    faults_left: tuple[str, ...] = ()
    trouble: str | None = None

    def step(self, name: str) -> list[Exchange]:
        """The exchanges of one step."""
        return [each for each in (*self.earlier, *self.exchanges) if each.step == name]

    @property
    def charged(self) -> list[Charge]:
        """The charges that moved money."""
        return [charge for charge in self.charges if charge.status == SUCCEEDED]


@dataclass
class Recording:
    """A scene's log as it grows."""

    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    earlier: list[Exchange] = field(default_factory=list[Exchange])
