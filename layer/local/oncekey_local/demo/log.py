"""What was seen: every request with its answer, and all money that the provider has moved."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

SUCCEEDED = "succeeded"
DECLINED = "declined"
PENDING = "pending"
CHARGE = "charge"
REFUND = "refund"


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a client wants paid, or given back. A retry sends the same order under the same key.

    `refund_of` is the payment that money is to be given back of.
    """

    key: str
    amount: int
    tenant: str = "acme"
    refund_of: str | None = None


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
    def location(self) -> str | None:
        """Where the answer says that its payment is found."""
        return self.headers.get("location")

    @property
    def payment_id(self) -> str | None:
        """The id of the payment that the answer shows."""
        return self._word("payment_id")

    @property
    def refund_id(self) -> str | None:
        """The id of the refund that the answer shows."""
        return self._word("refund_id")

    @property
    def state(self) -> str | None:
        """How far the payment or refund is that the answer shows."""
        return self._word("status")

    @property
    def accepts(self) -> bool:
        """Whether the answer takes a payment on, for the first time."""
        return self.status == 202 and not self.replayed

    def _word(self, name: str) -> str | None:
        value = self._member(name)
        return value if isinstance(value, str) else None

    def _member(self, name: str) -> Any:
        try:
            body = json.loads(self.body)
        except ValueError:
            return None
        return body.get(name) if isinstance(body, dict) else None


@dataclass(frozen=True, kw_only=True)
class Movement:
    """A charge or a refund as the provider lists it; money has moved only if it `succeeded`.

    `concerns` is the service's own id of the payment or refund.
    """

    kind: str
    id: str
    operation_id: str
    concerns: str
    amount: int
    status: str = SUCCEEDED


@dataclass(frozen=True, kw_only=True)
class SceneLog:
    """What was seen in one scene.

    Args:
        exchanges: in the order in which the answers came; of looks at what is awaited, the last.
        earlier: those of earlier scenes that this one goes back to.
        states: the last that was seen of each payment that was taken on, by its id.
        made_before: what the provider had done when the scene began.
        movements: what the provider did during the scene, declined charges included.
        provider_calls: how many calls reached the provider, repeated ones included.
        faults_left: what was to go wrong and never did.
        trouble: why the scene could not be played to its end.
    """

    exchanges: tuple[Exchange, ...] = ()
    earlier: tuple[Exchange, ...] = ()
    states: Mapping[str, str] = field(default_factory=dict[str, str])
    made_before: tuple[Movement, ...] = ()
    movements: tuple[Movement, ...] = ()
    provider_calls: int = 0
    faults_left: tuple[str, ...] = ()
    trouble: str | None = None

    def step(self, name: str) -> list[Exchange]:
        """The exchanges of one step."""
        return [each for each in (*self.earlier, *self.exchanges) if each.step == name]

    @property
    def moved(self) -> list[Movement]:
        """The charges and refunds that moved money."""
        return [movement for movement in self.movements if movement.status == SUCCEEDED]

    def moved_by(self, kind: str) -> list[Movement]:
        """Those of one kind."""
        return [movement for movement in self.moved if movement.kind == kind]


@dataclass
class Recording:
    """A scene's log as it grows."""

    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    earlier: list[Exchange] = field(default_factory=list[Exchange])
    states: dict[str, str] = field(default_factory=dict[str, str])
