"""A handler that charges in one step, and has its own idea of how it ended when that raised."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from oncekey import RunStopped
from tests.support.protected import problem_of
from tests.support.steps import POST, Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from oncekey import Operation

# What a handler makes of an exception out of its step: its answer says that nothing was charged.
ENDINGS = ("it passes", "402", "it commits that it failed", "it tries another step")
DENIALS = {"not charged", "failed"}


class Signalled(Exception):
    """Raised by a signal's handler, as those do that watch a time limit."""


class Charges:
    """Requests of one key, whose handler charges; `charged` has what reached the provider.

    `around` is entered around the first call of the step; `result` is what the charge gives.
    """

    def __init__(
        self,
        ending: str,
        around: AbstractContextManager[Any] | None = None,
        *,
        is_idempotent: bool = False,
        result: Callable[[], Any] = lambda: "c-1",
    ) -> None:
        self.service = Steps()
        self.service.then = self._handler
        self.charged: list[str] = []
        self.answers: list[Any] = []
        self._ending = ending
        self._around = around
        self._is_idempotent = is_idempotent
        self._result = result

    def send(self) -> Any:
        """One request: status and body or code of its answer, or the type of what it raised."""
        try:
            answer = self.service.send(POST)
        except BaseException as error:  # noqa: BLE001 -- whatever leaves the handler is looked at
            self.answers.append(type(error))
            return type(error)
        told = answer["body"] if answer["statusCode"] < 409 else problem_of(answer)[1]
        self.answers.append((answer["statusCode"], told))
        return self.answers[-1]

    def comes_back(self) -> Charges:
        """The client sends its request until the lease is long over."""
        for _ in range(2):
            self.send()
        self.service.lets_the_lease_run_out()
        for _ in range(2):
            self.send()
        return self

    def faults(self) -> list[str]:
        """What is wrong about these charges and answers."""
        charges = len(set(self.charged) if self._is_idempotent else self.charged)
        said = [answer for answer in self.answers if isinstance(answer, tuple)]
        finals = {told for status, told in said if status < 409}
        found = ["charged twice"] if charges > 1 else []
        found += ["denied though charged"] if charges and finals & DENIALS else []
        found += ["said though not charged"] if not charges and "charged" in finals else []
        found += ["two final answers"] if len(finals) > 1 else []
        return found

    def _handler(self, _event: Any, op: Operation) -> Any:
        try:
            with self._first():
                self._charges(op, "charge")
        except RunStopped:
            raise
        except BaseException:
            if self._ending == "it passes":
                raise
            if self._ending == "it commits that it failed":
                op.commit("failed")
                return {"statusCode": 201, "body": "failed"}
            if self._ending == "it tries another step":
                self._charges(op, "another")
                return {"statusCode": 201, "body": "charged"}
            return {"statusCode": 402, "body": "not charged"}
        return {"statusCode": 201, "body": "charged"}

    @contextlib.contextmanager
    def _first(self) -> Iterator[None]:
        around, self._around = self._around or contextlib.nullcontext(), None
        with around:
            yield

    def _charges(self, op: Operation, name: str) -> None:
        def function() -> Any:
            self.charged.append(op.downstream_key(name))
            return self._result()

        op.step(name, function, idempotent=self._is_idempotent)
