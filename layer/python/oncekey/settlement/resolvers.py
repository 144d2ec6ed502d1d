"""Resolvers, which ask a provider what happened: how to declare one and how it is found."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeGuard

from oncekey.effects.handlers import is_coroutine_function
from oncekey.effects.operation import downstream_key
from oncekey.errors import ConfigurationError, NotExecuted
from oncekey.misuse import explained, function_faults
from oncekey.options import kind_faults
from oncekey.record.record import Effects
from oncekey.record.references import reference_to
from oncekey.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.record.record import Record


@dataclass(frozen=True, slots=True)
class Completed:
    """It took effect, and this is its result.

    For a step, it is the value that the step would have returned. For a whole operation, it is the
    value that its function would have returned, or the HTTP answer of its handler: a dict with a
    `statusCode`. If the provider declined, that is a result, too: give the answer that says so. The
    result is stored unchanged. The handler's `before_store=` is not applied, because the handler
    may be in another process.
    """

    result: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class StillUnknown:
    """The provider does not know yet. Ask again in the next turn, and not before `retry_in`."""

    retry_in: timedelta = timedelta(0)


Finding = Completed | NotExecuted | StillUnknown


def is_finding(answer: object) -> TypeGuard[Finding]:
    """Whether `answer` is an instance of one of the three, with valid members."""
    if isinstance(answer, StillUnknown):
        # A number would have no unit.
        return isinstance(answer.retry_in, timedelta)
    return isinstance(answer, Completed | NotExecuted)


def check_finding(finding: object) -> None:
    """Return if `finding` is a finding.

    Raises:
        TypeError: it is not, for example an answer without `Completed`, or a class that was not
            called. Such a value says nothing, and certainly not that nothing happened.
    """
    if not is_finding(finding):
        what = finding.__name__ if isinstance(finding, type) else type(finding).__name__
        raise TypeError(
            "oncekey: what was found out is Completed(answer), NotExecuted() or"
            f" StillUnknown(timedelta(...)), called; this is {what}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What happened to `step`, or to the whole operation if `step` is empty?

    Attributes:
        downstream_key: the key that the step gives the provider: `op.downstream_key(...)` with the
            step's own name. For a whole operation, use `downstream_key_of(name)`.
        principal: empty if the operation keeps it out of the table.
        key: empty if the operation keeps it out of the table.
        started_at_ms: the start of the step, or of the operation's first attempt, in epoch
            milliseconds by the clock of the attempt.
        reference: `op.reference`.
        lease_until_ms: the end of the last attempt's lease, in epoch milliseconds; None if it is
            not on record. No call was sent later, so a search at the provider can end there.
        response_version: the version of the operation's answers. Give an answer of this version.
    """

    operation: str
    operation_id: str
    step: str
    downstream_key: str
    tenant: str
    principal: str = field(repr=False)
    key: str = field(repr=False)
    attempt: int
    started_at_ms: int
    reference: str = ""
    lease_until_ms: int | None = None
    response_version: int = 1

    def downstream_key_of(self, name: str) -> str:
        """The value of `op.downstream_key(name)`, which is the same in every attempt."""
        return downstream_key(self.operation_id, name)


_resolvers: dict[tuple[str, str], Callable[[Question], Finding]] = {}


@explained("@resolver('POST /payments')")
class resolver(Value):  # noqa: N801 -- written as a decorator
    """Declare the function that finds out what happened to an unknown operation or step.

    `@resolver("POST /x", "charge")` is asked about a step of an operation with recorded effects.
    `@resolver("POST /x")` is asked about a whole operation with other effects.

    It is called after the end of the attempt's lease and of the grace for calls that may still
    arrive. It returns `Completed(result)`, `NotExecuted()` or `StillUnknown(retry_in)`. If it
    raises, the outcome stays unknown. This includes `NotExecuted`, because a helper may raise that
    to say that the provider was not asked.

    It may be called again, also twice at the same time, and may still run when its result is no
    longer awaited. So it must have no effects, except writes that the handler would have made and
    that are harmless to repeat.

    Args:
        operation: the operation's name.
        step: the step's name; empty for the whole operation.

    Raises:
        ConfigurationError: the operation's name is empty, a name is not a text, the operation or
            the step has another resolver, or the declared object is not a plain function of one
            argument.
    """

    operation: str
    step: str = ""

    def __post_init__(self) -> None:
        faults = kind_faults({"operation": (self.operation, str), "step": (self.step, str)})
        if not self.operation:
            faults = ["name the operation, and the step if it is about one"]
        if faults:
            raise ConfigurationError("@resolver", faults)

    def __call__(self, function: Callable[[Question], Finding], /) -> Callable[[Question], Finding]:
        """Declare `function` and return it unchanged."""
        faults = self._faults(function)
        if faults:
            name = f"@resolver({self.operation!r}{f', {self.step!r}' if self.step else ''})"
            raise ConfigurationError(name, faults)
        _resolvers[self.operation, self.step] = function
        return function

    def _faults(self, function: object) -> list[str]:
        faults = function_faults(function)
        if faults or not callable(function):
            return faults
        if is_coroutine_function(function):
            return ["a resolver is a plain function: nobody awaits a coroutine"]
        try:
            inspect.signature(function).bind(object())
        except TypeError:
            return ["a resolver takes one argument, the question"]
        except ValueError:
            # Some callables written in C say nothing of their arguments.
            pass
        known = _resolvers.get((self.operation, self.step))
        if known is not None and not _is_same(known, function):
            what = "step" if self.step else "operation"
            return [f"the {what} has the resolver {_name(known)} already"]
        return []


def _is_same(known: Callable[..., Any], function: Callable[..., Any]) -> bool:
    # A reloaded module declares the same function again. Lambdas are excluded, because they all
    # have the same name.
    name = _name(function)
    return known is function or (name == _name(known) and "<lambda>" not in name)


def resolver_of(operation: str, step: str) -> Callable[[Question], Finding] | None:
    """The function declared in this process for a step or an operation, or None."""
    return _resolvers.get((operation, step))


def is_declared(function: object) -> bool:
    """Whether `function` was declared as a resolver."""
    return any(known is function for known in _resolvers.values())


def nothing_in_doubt(record: Record) -> bool:
    """Whether an unknown record has no step in doubt, so that it can be settled without asking."""
    return record.effects is Effects.RECORDED and not record.is_in_doubt


def question_about(record: Record) -> Question:
    """The question about a record: about its step in doubt, or about the whole operation."""
    started, step = record.steps.started, record.step_in_doubt
    return Question(
        operation=record.operation,
        operation_id=record.operation_id,
        step=step,
        downstream_key=downstream_key(record.operation_id, step) if step else "",
        tenant=record.tenant,
        principal=record.principal,
        key=record.key,
        attempt=record.attempt,
        started_at_ms=started.at_ms if started is not None else record.created_at_ms,
        reference=reference_to(record),
        lease_until_ms=record.lease_until_ms,
        response_version=record.policy.response_version if record.policy is not None else 1,
    )


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', repr(function))}"
