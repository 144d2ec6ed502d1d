"""Resolvers ask a provider what became of something in doubt; how they are declared, and found."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeGuard

from oncekey.effects.handlers import is_coroutine_function
from oncekey.effects.operation import downstream_key
from oncekey.errors import ConfigurationError, NotExecuted
from oncekey.misuse import explained, function_faults
from oncekey.record.record import Effects
from oncekey.record.references import reference_to
from oncekey.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.record.record import Record


@dataclass(frozen=True, slots=True)
class Completed:
    """It took effect, and this is its result.

    Of a step it is what the step would have returned; of a whole operation what its function would
    have returned, or the HTTP answer of its handler, a dict with a `statusCode`. What exists and
    was declined is a result, too: the answer that says so. It is stored as it is given here:
    `before_store=` is the handler's, who is elsewhere.
    """

    result: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class StillUnknown:
    """The provider cannot say yet; ask again after `retry_in`, or when the next turn comes."""

    retry_in: timedelta = timedelta(0)


Finding = Completed | NotExecuted | StillUnknown


def is_finding(answer: object) -> TypeGuard[Finding]:
    """Whether `answer` is one of the three, whole."""
    if isinstance(answer, StillUnknown):
        # A number would say nothing of its unit.
        return isinstance(answer.retry_in, timedelta)
    return isinstance(answer, Completed | NotExecuted)


def check_finding(finding: object) -> None:
    """Return if `finding` is one.

    Raises:
        TypeError: it is not: an answer without its `Completed`, say, or a class that was not
            called. Nothing follows from that, least of all that nothing happened.
    """
    if not is_finding(finding):
        what = finding.__name__ if isinstance(finding, type) else type(finding).__name__
        raise TypeError(
            "oncekey: what was found out is Completed(answer), NotExecuted() or"
            f" StillUnknown(timedelta(...)), called; this is {what}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What became of `step`, or of the whole operation, where `step` is empty?

    `downstream_key` is the one that the step would have shown the provider, which is
    `op.downstream_key(...)` under the step's own name; of an operation `downstream_key_of(name)` is
    that of its call `name`. `reference` is `op.reference`. `response_version` is that of the
    operation's answers: give one of that version. `key` and `principal` are empty where
    the operation keeps them out of the table. `started_at_ms` is by the clock of the attempt: the
    start of the step, or of the operation's first attempt. `lease_until_ms` is when the lease of
    the last one was over: no call was sent after that, which bounds a provider's list. It is None
    where that is not on record.
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
        """What `op.downstream_key(name)` gave in every attempt."""
        return downstream_key(self.operation_id, name)


_resolvers: dict[tuple[str, str], Callable[[Question], Finding]] = {}


@explained("@resolver('POST /payments')")
class resolver(Value):  # noqa: N801 -- written as a decorator
    """Declare the function that finds out what became of something in doubt.

    `@resolver("POST /x", "charge")` is asked about a step of recorded effects,
    `@resolver("POST /x")` about a whole operation of other effects. It is asked once the attempt's
    lease and the grace for calls under way are over, and returns `Completed(result)`,
    `NotExecuted()` or `StillUnknown(retry_in)`. Whatever it raises means that it is still unknown,
    `NotExecuted` as well: out of a helper it may only say that the question was not asked. It may
    be asked again, also by two at once, and may run longer than anybody listens. So it has no
    effect of its own, but for writes that the handler would have made and that are harmless to
    repeat.

    Args:
        operation: the operation's name.
        step: the step, or nothing for the whole operation.

    Raises:
        ConfigurationError: the operation has no name, it or the step has another resolver, or what
            is declared is no plain function.
    """

    operation: str
    step: str = ""

    def __post_init__(self) -> None:
        faults = [] if self.operation else ["name the operation, and the step if it is about one"]
        if faults:
            raise ConfigurationError("@resolver", faults)

    def __call__(self, function: Callable[[Question], Finding], /) -> Callable[[Question], Finding]:
        """Declare `function`, which stays as it is."""
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
        known = _resolvers.get((self.operation, self.step))
        if known is not None and not _is_same(known, function):
            what = "step" if self.step else "operation"
            return [f"the {what} has the resolver {_name(known)} already"]
        return []


def _is_same(known: Callable[..., Any], function: Callable[..., Any]) -> bool:
    # A module that is loaded again declares the same function anew; lambdas all have one name.
    name = _name(function)
    return known is function or (name == _name(known) and "<lambda>" not in name)


def resolver_of(operation: str, step: str) -> Callable[[Question], Finding] | None:
    """The function that was declared for a step, or an operation, in this process."""
    return _resolvers.get((operation, step))


def is_declared(function: object) -> bool:
    """Whether `function` is somebody's resolver."""
    return any(known is function for known in _resolvers.values())


def nothing_in_doubt(record: Record) -> bool:
    """Whether nothing of an unknown record is in doubt, so that it is settled without asking."""
    return record.effects is Effects.RECORDED and not record.is_in_doubt


def question_about(record: Record) -> Question:
    """What to ask about a record: its step in doubt, or all of it."""
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
