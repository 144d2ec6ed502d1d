"""A function of recorded effects whose body is given with each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey import current_operation
from tests.support.function_calls import Calls
from tests.support.steps import FaultyStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey import Operation

CALL = {"id": "order-1"}
# Without a Lambda context.
LEASE_MS = 60_000 + 5_000


class Function(Calls):
    """A function of recorded effects; `ran` names the functions of its steps that ran."""

    store: Any

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"effects": "recorded", "store": FaultyStore(), **options})
        self.ran: list[str] = []

    def step(
        self,
        name: str,
        gives: Any = None,
        *,
        raises: BaseException | None = None,
        is_idempotent: bool = False,
    ) -> Any:
        """Do a step of the current operation."""

        def function() -> Any:
            self.ran.append(name)
            if raises is not None:
                raise raises
            return gives

        return current_operation().step(name, function, idempotent=is_idempotent)

    def calls(self, then: Callable[[Operation], Any]) -> Any:
        """One call, of which this is the body."""
        self.then = lambda _record: then(current_operation())
        return self.call(dict(CALL))

    def successor(self) -> Function:
        """The same function on the same store, once the lease of a call that began now is over."""
        other = Function(store=self.store)
        for _ in range(1000):
            # Each clock counts the owners that it draws, and no two may draw the same.
            other.clock.new_owner()
        other.clock.advance(LEASE_MS + 1)
        return other


def raising(error: BaseException) -> Any:
    """An expression that raises."""
    raise error


def dies(function: Function) -> None:
    """Its process is gone, and the record in progress."""
    function.store.is_dead = True


def fails(_function: Function) -> None:
    """It raises."""
    raise ValueError("of the successor")


def is_in_doubt(function: Function) -> None:
    """It leaves a step in doubt."""
    function.step("charge", raises=TimeoutError())
