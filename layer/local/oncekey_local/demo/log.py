"""The log of a scene: every request with its answer, and the provider's charges and refunds."""

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
    """A payment or refund that a client orders. A retry sends the same order with the same key.

    `refund_of` is the payment to be refunded.
    """

    key: str
    amount: int
    tenant: str = "acme"
    refund_of: str | None = None


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request and its answer.

    `step` names the part of the scene. `order` is None if the request is not an order. A connection
    that ended without an answer has status 0. Header names are in lower case.
    """

    step: str
    tenant: str
    order: Order | None
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def replayed(self) -> bool:
        """Whether the answer says that it is a replay."""
        return self.headers.get("idempotent-replayed") == "true"

    @property
    def problem(self) -> str | None:
        """The code of the problem that the answer reports."""
        kind = self._member("type")
        return str(kind).rpartition(":")[2] if kind is not None else None

    @property
    def location(self) -> str | None:
        """The address of the payment in the answer."""
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
        """The status of the payment or refund in the answer."""
        return self._word("status")

    @property
    def accepts(self) -> bool:
        """Whether the answer accepts a payment and is not a replay."""
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
    """The log of one scene.

    Args:
        exchanges: in the order of their answers; of repeated status requests, only the last.
        earlier: exchanges of earlier scenes that this scene refers to.
        states: the last state of each accepted payment, by its id.
        made_before: the provider's charges and refunds before the scene.
        movements: the provider's charges and refunds during the scene, including declined ones.
        provider_calls: how many calls reached the provider, including repeated ones.
        faults_left: the planned faults that never happened.
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
