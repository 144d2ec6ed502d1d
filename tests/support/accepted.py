"""A handler whose requests are accepted, its worker, and those who ask after it, on one store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey import single_tenant
from oncekey.outbox.envelope import sealed
from oncekey.outbox.inbox import Delivered, delivered
from oncekey.queued.jobs import Jobs
from oncekey.queued.status import OperationStatus
from tests.support.events import load, with_route
from tests.support.steps import FaultyStore, Steps

if TYPE_CHECKING:
    from tests.support.protected import Answer

START_WITHIN_MS = 3_600_000


class Accepted(Steps):
    """`@idempotent(mode="queued")`: `sends` accepts, `works` is a delivery, `asks` a look.

    A request sets what its handler does; the worker runs it.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"mode": "queued", "operation": "POST /reports", **options})
        self.jobs = Jobs(self.handler)
        self.status = OperationStatus(
            tenant=options.get("tenant", single_tenant()), store=self.store, clock=self.clock
        )

    @property
    def messages(self) -> list[Delivered]:
        """What was published, as a worker gets it."""
        return [delivered(sealed(message)) for message in self.store.messages]

    def works(self, message: Delivered | None = None) -> None:
        """One delivery of `message`, or else of the last one that was published."""
        self.jobs.perform(message or self.messages[-1], self.context())

    def asks(self, operation_id: str) -> Answer:
        """`GET /operations/{operation_id}`."""
        event = with_route(load("apigw_http_v2_post"), "GET", f"/operations/{operation_id}")
        event["pathParameters"] = {"operation_id": operation_id}
        return self.status(event, None)

    def another_sandbox(self, *, ahead_ms: int = 0, **options: Any) -> Accepted:
        """The same on the same store, by a clock that is ahead so much."""
        other = Accepted(**{"store": self.store, **options})
        other.clock.advance(self.clock.now_ms() - other.clock.now_ms() + ahead_ms)
        for _ in range(1000):
            # Each clock counts the owners that it draws, and no two may draw the same.
            other.clock.new_owner()
        return other


class Meanwhile(FaultyStore):
    """A store during whose call with a number something else happens, before it is carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.at: int | None = None
        self.happens: Any = None

    def schedule(self, at: int, happens: Any) -> None:
        """Before the call with this number, counted from now, let this happen once."""
        self.at, self.happens = len(self.asked) + at, happens

    def _asked(self, call: str, function: Any, argument: Any) -> Any:
        if self.at is not None and len(self.asked) == self.at:
            happens, self.at = self.happens, None
            happens()
        return super()._asked(call, function, argument)
