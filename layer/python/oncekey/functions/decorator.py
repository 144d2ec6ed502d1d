"""The decorator of functions, for SQS records, EventBridge events, workflow steps and calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from oncekey import options
from oncekey.declared import second_operation
from oncekey.effects.handlers import (
    is_coroutine_function,
    is_generator_function,
    operation_faults,
    operation_parameter,
)
from oncekey.engine.execution import run, run_async
from oncekey.errors import ConfigurationError
from oncekey.functions.keys import KeySource, function_key
from oncekey.functions.operation import Call, FunctionOperation
from oncekey.misuse import explained, function_faults
from oncekey.record.record import Effects
from oncekey.tenants import reads_requests
from oncekey.value import Value, field

if TYPE_CHECKING:
    from datetime import timedelta

    from oncekey.clock import Clock
    from oncekey.effects.operation import Operation
    from oncekey.quotas.quota import Quota
    from oncekey.store.store import Store
    from oncekey.telemetry.operation_event import OnEvent

P = ParamSpec("P")
R = TypeVar("R")

NotExecutedRule = (
    type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]
)


@explained("@idempotent_function(operation='settle invoice', key='id', tenant=single_tenant())")
class idempotent_function(Value, kw_only=True):  # noqa: N801 -- written as a decorator
    """Make a function safe to call again: every key takes effect once.

    The function runs only after its key is durably reserved. Its result is stored, and every repeat
    returns an equal result of the same type. The result may be None, 0, False or "", and may have
    Decimal, datetime, UUID, bytes, tuples, sets, enums, dataclasses and pydantic models. If the
    result cannot be stored, the first call raises TypeError after the record is completed.

    `NotExecuted` is raised to the caller unchanged. It proves nothing about what the caller did
    before. `Final` is meant for HTTP handlers; in a function it is an ordinary exception.

    The function gets the operation as an argument if it takes one, and everything below it gets it
    from `current_operation()`. The lease ends with the invocation. The invocation's end is read
    from the Lambda context among the arguments. Without a context, it is taken from the protected
    handler that makes the call. Without a handler, the lease ends after ONCEKEY_DEFAULT_LEASE_MS.
    An `async def` function stays a coroutine function.

    Args:
        operation: the name that keys are bound to. If you rename it, all its keys are forgotten.
        key: finds the key of a call. Pass a callable that takes the call's arguments, or a JMESPath
            expression. The expression is applied to the argument, or to all arguments by name if
            there are several. The key is text, or any value that `oncekey.encoding.key_values`
            supports.
        tenant: finds the owner of the key. Pass a callable that takes the call's arguments, or
            `single_tenant()`.
        fingerprint: selects what must be the same in a repeat. Pass a callable that takes the
            call's arguments and returns a value that `oncekey.encoding.key_values` supports. By
            default only the key must be the same, because redelivered messages differ in details.
        fingerprint_secrets: makes the fingerprint an HMAC; see `idempotent`.
        effects: `unrecorded`, `repeatable` or `recorded`; see `idempotent`.
        not_executed: exception types, or a predicate, that prove that nothing happened; see
            `oncekey.idempotent`.
        store_raw_key: if False, the table does not contain the key.
        in_progress: `conflict` (raise `InProgress` at once, the default) or `wait`.
        wait_up_to: how long `wait` waits, 10 s by default.
        retention: how long results are kept, from completion, 24 h by default.
        max_lease: a lease shorter than the time left of the invocation, with `repeatable` effects
            only.
        reconcile_grace: see `idempotent`.
        quota: how many keys a tenant may use; see `oncekey.Quota`.
        on_event: is called on replays, conflicts, takeovers and unknown outcomes; see
            `oncekey.OperationEvent`. It lets you distinguish a replay from a run.
        local_cache: how many completed results each sandbox keeps in memory, none by default. A
            repeat found there is answered without a request to the table, unless its result is
            stored outside its record. A cached result is used for five minutes at most, even if the
            record changes in that time.
        store: where the records are, by default the DynamoDB table that ONCEKEY_TABLE names.
        clock: the source of time and randomness, for tests.

    Raises:
        ConfigurationError: an option is wrong; the message names every fault.

    A call raises `InProgress`, `KeyReused`, `OutcomeUnknown`, `StoreUnavailable`, `QuotaExceeded`,
    `Paused`, `KeyMissing` or `ResultUnavailable` if the function did not run, or if its recorded
    run has no confirmed end. Otherwise it raises the function's own exception.
    """

    operation: str
    key: KeySource = field(repr=False)
    tenant: Callable[..., str | None] = field(repr=False)
    fingerprint: Callable[..., Any] | None = field(default=None, repr=False)
    fingerprint_secrets: Sequence[bytes] | Callable[[], Sequence[bytes]] | None = field(
        default=None, repr=False
    )
    effects: str = "unrecorded"
    not_executed: NotExecutedRule = field(default=(), repr=False)
    store_raw_key: bool = True
    in_progress: str | None = None
    wait_up_to: timedelta | None = None
    retention: timedelta | None = None
    max_lease: timedelta | None = None
    reconcile_grace: timedelta | None = None
    quota: Quota | None = None
    on_event: OnEvent | None = field(default=None, repr=False)
    local_cache: int = 0
    store: Store | None = field(default=None, repr=False)
    clock: Clock | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        faults = [
            *options.name_faults(self.operation),
            *options.caller_faults(self.tenant, None),
            *options.effects_faults(self.effects, self.max_lease),
            *options.secrets_faults(self.fingerprint_secrets),
            *options.proof_faults(self.not_executed),
            *options.kind_faults({"store_raw_key": (self.store_raw_key, bool)}),
            *options.event_faults(self.on_event),
            *options.cache_faults(self.local_cache),
            *options.clock_faults(self.clock),
            *options.store_faults(self.store),
            *options.quota_faults(self.quota),
            *options.duration_faults(self._durations()),
            *options.wait_faults(self.in_progress, self.wait_up_to),
            *options.settings_faults(self._settings()),
        ]
        if self.fingerprint is not None and not callable(self.fingerprint):
            faults.append("fingerprint is no callable of the call's arguments")
        faults += options.rule_faults({"key": self.key, "fingerprint": self.fingerprint})
        if self.in_progress == "accepted":
            faults.append("in_progress is 'accepted': a function has no such answer, use 'wait'")
        if reads_requests(self.tenant):
            faults.append(
                "tenant reads the context of an HTTP request, which a function does not get: pass a"
                " callable of its arguments, such as lambda order: order['tenant_id']"
            )
        self._refuse(faults)

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Protect `function`, and keep its types.

        A parameter that is annotated as `Operation`, or is named `op`, gets the operation. It must
        be the last one or behind a `*`. Callers do not pass it, which a type checker does not know.
        So give it a default of None, or use `current_operation()` instead.

        Raises:
            ConfigurationError: `function` is not a function that returns, `key` cannot be applied
                to its parameters, or another function has the same operation.
        """
        self._refuse(_function_faults(function))
        signature = inspect.signature(function)
        self._refuse(operation_faults(signature))
        taken = operation_parameter(signature)
        parameters = [each for each in signature.parameters.values() if each is not taken]
        skip = 1 if parameters and parameters[0].name in {"self", "cls"} else 0
        own = signature.replace(parameters=parameters[skip:])
        bound = self._bound(own)
        # If the operation is a positional-only parameter, all arguments can be passed by position.
        by_place = taken is not None and taken.kind is taken.POSITIONAL_ONLY

        def call_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
            # Passing a default explicitly is the same call as leaving it out.
            given = own.bind(*args[skip:], **kwargs)
            given.apply_defaults()
            return Call(given.args, given.kwargs)

        def invoke(operation: Operation, args: Any, kwargs: Any, call: Call) -> Any:
            untyped: Callable[..., Any] = function
            if taken is None:
                return untyped(*args, **kwargs)
            if by_place:
                return untyped(*args[:skip], *call.args, operation, **call.kwargs)
            return untyped(*args, **kwargs, **{taken.name: operation})

        @functools.wraps(function)
        def protected(*args: P.args, **kwargs: P.kwargs) -> R:
            call = call_of(args, kwargs)
            result: R = run(
                bound.call(call),
                lambda operation: invoke(operation, args, kwargs, call),
                bound.find_store,
                bound.clock,
            )
            return result

        @functools.wraps(function)
        async def protected_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            call = call_of(args, kwargs)
            return await run_async(
                bound.call(call),
                lambda operation: invoke(operation, args, kwargs, call),
                bound.find_store,
                bound.clock,
            )

        wrapper: Any = protected_async if is_coroutine_function(function) else protected
        if taken is not None:
            # The parameters that callers pass.
            wrapper.__signature__ = signature.replace(parameters=parameters)
        self._refuse(second_operation(self.operation, function, wrapper, self.store))
        return wrapper  # type: ignore[no-any-return]  # R is its coroutine, if it is one

    def _refuse(self, faults: list[str]) -> None:
        if faults:
            raise ConfigurationError(f"@idempotent_function(operation={self.operation!r})", faults)

    def _bound(self, signature: inspect.Signature) -> FunctionOperation:
        return FunctionOperation(
            name=self.operation,
            key=function_key(self.key, signature, operation=self.operation),
            tenant=self.tenant,
            select=self.fingerprint,
            secrets=options.secrets_source(self.fingerprint_secrets),
            effects=Effects(self.effects),
            is_not_executed=options.predicate(self.operation, self.not_executed),
            stores_raw_key=self.store_raw_key,
            quota=self.quota,
            on_event=self.on_event,
            local_cache=self.local_cache,
            given_settings=self._settings(),
            store=self.store,
            given_clock=self.clock,
        )

    def _durations(self) -> dict[str, timedelta | None]:
        names = ("wait_up_to", "retention", "max_lease", "reconcile_grace")
        return {name: getattr(self, name) for name in names}

    def _settings(self) -> dict[str, int | str]:
        return options.settings_given(
            {
                "wait_up_to_ms": self.wait_up_to,
                "retention_s": self.retention,
                "max_lease_ms": self.max_lease,
                "reconcile_grace_ms": self.reconcile_grace,
            },
            {"in_progress": self.in_progress},
        )


def _function_faults(function: Any) -> list[str]:
    faults = function_faults(function)
    if faults:
        return faults
    if is_generator_function(function):
        return ["a generator has no result to store: return a list"]
    return []
