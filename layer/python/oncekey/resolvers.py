"""Resolvers: they ask a provider what became of a step in doubt. They are declared, and found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey.errors import ConfigurationError, NotExecuted
from oncekey.handlers import is_coroutine_function
from oncekey.operation import downstream_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from oncekey.record import Record


@dataclass(frozen=True, slots=True)
class Completed:
    """The step took effect, and this is its result: what the step would have returned."""

    result: Any


@dataclass(frozen=True, slots=True)
class StillUnknown:
    """The provider cannot say yet; ask again after `retry_in`."""

    retry_in: timedelta


Finding = Completed | NotExecuted | StillUnknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What became of `step`? `downstream_key` is the one that it would have shown the provider.

    That is `op.downstream_key(...)` under the step's own name, the only one that a step may ask
    for. `key` and `principal` are empty where the operation keeps them out of the table.
    `started_at_ms` is by the clock of the attempt.
    """

    operation: str
    operation_id: str
    step: str
    downstream_key: str
    tenant: str
    principal: str
    key: str
    attempt: int
    started_at_ms: int


_resolvers: dict[tuple[str, str], Callable[[Question], Finding]] = {}


@dataclass(frozen=True, slots=True)
class resolver:  # noqa: N801 -- written as a decorator
    """Declare the function that finds out what became of a step: `@resolver("POST /x", "charge")`.

    It is asked once the attempt's lease and the grace for calls under way are over, and answers
    `Completed(result)`, `NotExecuted()` (returned or raised) or `StillUnknown(retry_in)`. What it
    raises otherwise means that it is still unknown. It must have no effect of its own: it may be
    asked again, also by two at once.

    Raises:
        ConfigurationError: the operation or the step has no name, the step has another resolver, or
            what is declared is no plain function.
    """

    operation: str
    step: str

    def __post_init__(self) -> None:
        if not self.operation or not self.step:
            raise ConfigurationError("@resolver", ["name the operation and its step"])

    def __call__(self, function: Callable[[Question], Finding], /) -> Callable[[Question], Finding]:
        """Declare `function`, which stays as it is."""
        faults = self._faults(function)
        if faults:
            raise ConfigurationError(f"@resolver({self.operation!r}, {self.step!r})", faults)
        _resolvers[self.operation, self.step] = function
        return function

    def _faults(self, function: object) -> list[str]:
        if not callable(function):
            return [f"a resolver is a function, not {type(function).__name__}"]
        if is_coroutine_function(function):
            return ["a resolver is a plain function: nobody awaits a coroutine"]
        known = _resolvers.get((self.operation, self.step))
        if known is not None and not _is_same(known, function):
            return [f"the step has the resolver {_name(known)} already"]
        return []


def _is_same(known: Callable[..., Any], function: Callable[..., Any]) -> bool:
    # A module that is loaded again declares the same function anew; lambdas all have one name.
    name = _name(function)
    return known is function or (name == _name(known) and "<lambda>" not in name)


def resolver_of(operation: str, step: str) -> Callable[[Question], Finding] | None:
    """The function that was declared for a step, in this process."""
    return _resolvers.get((operation, step))


def question_about(record: Record) -> Question | None:
    """What to ask about a record; None where no step is in doubt."""
    started = record.steps.started
    if started is None:
        return None
    return Question(
        operation=record.operation,
        operation_id=record.operation_id,
        step=started.name,
        downstream_key=downstream_key(record.operation_id, started.name),
        tenant=record.tenant,
        principal=record.principal,
        key=record.key,
        attempt=record.attempt,
        started_at_ms=started.at_ms,
    )


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', repr(function))}"
