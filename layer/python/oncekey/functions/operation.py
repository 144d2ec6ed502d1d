"""One idempotent function: the flow of its calls, and the result or exception of each call."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeGuard

from oncekey.effects.bare_run import run_bare
from oncekey.effects.handlers import is_awaitable, never_awaited
from oncekey.effects.operation import Operation
from oncekey.effects.raised import is_stop, leaves
from oncekey.effects.running import enclosing_deadline_ms, leaves_function
from oncekey.encoding.results import decode, encode
from oncekey.engine.engine import attempt
from oncekey.engine.operation_options import OperationOptions
from oncekey.engine.request import Request, deadline_ms, refuse_suspension, remaining_ms
from oncekey.engine.store_state import OperationContext
from oncekey.environment import OncePerEnvironment, environment
from oncekey.errors import (
    CallNotAnswered,
    CallUnfinished,
    InProgress,
    KeyMissing,
    KeyReused,
    NotExecuted,
    OutcomeUnknown,
    Paused,
    QuotaExceeded,
    ResultUnavailable,
    RunStopped,
    StoreError,
    StoreUnavailable,
)
from oncekey.flow.commands import Answered, Raised, Result, Unserialisable
from oncekey.http.fingerprint import selected_fingerprint
from oncekey.problem import is_our_refusal
from oncekey.record.identity import Identity
from oncekey.record.outcome import (
    Failed,
    Outcome,
    Ran,
    Reason,
    Refusal,
    Replayed,
    Unrecorded,
    whole_seconds,
)
from oncekey.settings import DEFAULT_LEASE_MS
from oncekey.store import defaults, in_use
from oncekey.telemetry import requests as telemetry
from oncekey.telemetry import watching
from oncekey.tenants import NOBODY_WHILE_DISABLED, is_name
from oncekey.value import Value, field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from oncekey.clock import Clock
    from oncekey.functions.keys import FunctionKey
    from oncekey.quotas.quota import Quota
    from oncekey.record.record import Effects
    from oncekey.settings import Settings
    from oncekey.store.store import Store
    from oncekey.telemetry.operation_event import OnEvent

_EXCEPTIONS: dict[Reason, type[CallNotAnswered]] = {
    Reason.RUNNING: InProgress,
    Reason.KEY_MISSING: KeyMissing,
    Reason.KEY_REUSED: KeyReused,
    Reason.OUTCOME_UNKNOWN: OutcomeUnknown,
    Reason.STORE_UNAVAILABLE: StoreUnavailable,
    Reason.ANSWER_UNAVAILABLE: ResultUnavailable,
    Reason.QUOTA_EXCEEDED: QuotaExceeded,
    Reason.PAUSED: Paused,
    Reason.UNFINISHED: CallUnfinished,
}


_NOT_SET_UP = "it is not set up as the function needs it: its log says what to put right"


class Call(Value):
    """The arguments of one call, without `self`."""

    args: tuple[Any, ...] = field(repr=False)
    kwargs: Mapping[str, Any] = field(repr=False)


class FunctionOperation(Value, kw_only=True):
    """The options of one function. All of them have been checked."""

    name: str
    key: FunctionKey = field(repr=False)
    tenant: Callable[..., str | None] = field(repr=False)
    select: Callable[..., Any] | None = field(repr=False)
    secrets: Callable[[], tuple[bytes, ...]] = field(repr=False)
    effects: Effects
    is_not_executed: Callable[[BaseException], bool] = field(repr=False)
    stores_raw_key: bool
    quota: Quota | None
    on_event: OnEvent | None = field(repr=False)
    local_cache: int
    given_settings: Mapping[str, int | str]
    store: Store | None
    given_clock: Clock | None
    _operation_context: OncePerEnvironment[OperationContext] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Prepare to read the environment at the first call. It is not read here."""
        object.__setattr__(self, "_operation_context", OncePerEnvironment(self._made))

    @property
    def clock(self) -> Clock:
        """The clock in use."""
        return in_use.clock_or(self.given_clock)

    async def call(self, call: Call) -> Any:
        """The flow of one call. It returns the function's result, of this call or an earlier one.

        If the function raised or the call was refused, it returns `Failed` with the exception to
        raise. An exception of the function is recorded first, if possible.

        Raises:
            ResultUnavailable: the stored result cannot be read.
            KeyMissing: the call has no key or no tenant.
            StoreUnavailable: the secrets of the fingerprint cannot be read.
        """
        # How the function ended: with this error, or with None if it returned.
        endings: list[BaseException | None] = []

        def returned(value: Any, operation: Operation) -> Result:
            endings.append(None)
            return _returned(value, operation)

        def raised(error: BaseException) -> Result:
            endings.append(error)
            return Raised(error)

        if defaults.is_disabled():
            outcome = await run_bare(
                Operation(
                    name=self.name,
                    operation_id=self.clock.new_operation_id(),
                    attempt=1,
                    tenant=self._tenant_while_disabled(call),
                    protected=False,
                ),
                self.effects,
                self.clock.now_ms() + DEFAULT_LEASE_MS,
                self.clock,
                is_not_executed=self.is_not_executed,
                returned=_returned_bare,
                raised=raised,
            )
        else:
            keyed = self._keyed_request(call, self._operation_context())
            outcome = await attempt(keyed, self.clock, returned=returned, raised=raised)
        return self._result(outcome, endings[0] if endings else None)

    def find_store(self) -> Store:
        """The store that was given, or else the one that the environment names.

        Raises:
            ConfigurationError: the environment names no table.
        """
        return defaults.store(self._settings().store_timeout_ms, self.store)

    def _settings(self) -> Settings:
        return defaults.settings(self.given_settings)

    def _made(self) -> OperationContext:
        options = OperationOptions(
            effects=self.effects,
            settings=self._settings(),
            is_not_executed=self.is_not_executed,
            stores_raw_key=self.stores_raw_key,
            quota=self.quota,
            on_event=self.on_event,
            local_cache=self.local_cache,
        )
        return OperationContext(options, self.find_store())

    def _keyed_request(self, call: Call, operation_context: OperationContext) -> Request:
        refuse_suspension(self.name, self.effects, (*call.args, *call.kwargs.values()))
        identity = Identity(
            tenant=self._tenant(call), operation=self.name, key=self.key(call.args, call.kwargs)
        )
        selected = None if self.select is None else self.select(*call.args, **call.kwargs)
        fingerprint = selected_fingerprint(selected, self._fingerprint_secrets())
        settings = operation_context.options.settings
        return Request(
            identity=identity,
            fingerprint=fingerprint.current,
            options=operation_context.options,
            deadline_ms=self._deadline_ms(call, settings, self.clock.now_ms()),
            store_state=operation_context.store_state,
            accepts=fingerprint.accepts,
        )

    def _deadline_ms(self, call: Call, settings: Settings, now_ms: int) -> int:
        """When this invocation ends.

        It is read from the context in the arguments, else from the enclosing operation, else it is
        the default.
        """
        left_ms = _left_ms(call)
        if left_ms is not None:
            return now_ms + left_ms
        enclosing_ms = enclosing_deadline_ms()
        # Code that runs after the enclosing deadline was not limited by it. It may be a task that
        # outlived its handler.
        if enclosing_ms is not None and enclosing_ms > now_ms:
            return enclosing_ms
        if "AWS_LAMBDA_FUNCTION_NAME" in environment().variables:
            telemetry.lease_without_context(self.name, settings.default_lease_ms)
        return deadline_ms(None, settings, now_ms)

    def _fingerprint_secrets(self) -> tuple[bytes, ...]:
        try:
            return self.secrets()
        except StoreError as error:
            telemetry.store_unavailable(self.name, error)
            watching.flush(self.clock.now_ms(), self.name)
            raise StoreUnavailable(
                operation=self.name,
                retry_after_s=1,
                detail="the secrets of its fingerprint cannot be read",
            ) from error

    def _tenant(self, call: Call) -> str:
        try:
            tenant = self.tenant(*call.args, **call.kwargs)
        except StopIteration:
            # A `next(...)` found nobody. A coroutine cannot raise this.
            tenant = None
        if not is_name(tenant):
            raise KeyMissing(
                operation=self.name,
                detail="the call does not say whose key it is: `tenant=` finds nobody in the"
                f" arguments{_in_place_of_a_name(tenant)}",
            )
        return tenant

    def _tenant_while_disabled(self, call: Call) -> str:
        # A call in a unit test need not name a tenant.
        try:
            tenant = self.tenant(*call.args, **call.kwargs)
        except (LookupError, StopIteration, TypeError, AttributeError, ValueError):
            return NOBODY_WHILE_DISABLED
        return tenant if is_name(tenant) else NOBODY_WHILE_DISABLED

    def _result(self, outcome: Outcome, error: BaseException | None) -> Any:
        match outcome:
            case Failed():
                return self._leaving(outcome.error)
            case Ran() | Unrecorded():
                return outcome.value
            case Replayed():
                return self._replayed(outcome)
            case Refusal():
                return self._leaving(self._exception(outcome, outcome.error or error))

    def _leaving(self, error: BaseException) -> Failed:
        leaves_function(error)
        return Failed(error)

    def _replayed(self, replayed: Replayed) -> Any:
        try:
            return decode(replayed.stored)
        except ValueError as error:
            raise ResultUnavailable(
                operation=self.name,
                operation_id=replayed.record.operation_id,
                detail=str(error),
            ) from error

    def _exception(self, refusal: Refusal, raised: BaseException | None) -> BaseException:
        if refusal.reason is Reason.NOT_EXECUTED:
            error = raised or NotExecuted(f"{self.name}: no time was left to begin")
            if is_stop(error):
                return NotExecuted(f"{self.name}: this attempt was stopped; call it again")
            return error
        if refusal.reason is Reason.UNFINISHED and _may_pass(raised):
            # The author's own exception does not claim that nothing was done. So it is passed on.
            return raised
        wait_ms = refusal.retry_after_ms
        error = _EXCEPTIONS[refusal.reason](
            operation=self.name,
            operation_id=refusal.record.operation_id if refusal.record else None,
            retry_after_s=None if wait_ms is None else whole_seconds(wait_ms),
            detail=_NOT_SET_UP if refusal.needs_deployment else refusal.detail or "",
        )
        # If only a deployment helps, the error is not retryable, although others of its class are.
        return error.in_vain() if refusal.needs_deployment else error


def _in_place_of_a_name(tenant: object) -> str:
    """What `tenant=` found if it is no text, by its type: the number of a tenant, for example."""
    if tenant is None or isinstance(tenant, str):
        return ""
    return f", but a value of the type {type(tenant).__name__}: give its text, such as str(...)"


def _may_pass(error: BaseException | None) -> TypeGuard[BaseException]:
    """Whether `error` of an attempt that has acted may be raised to the caller.

    It may, unless the error claims that nothing was done.
    """
    return error is not None and not any(
        isinstance(each, NotExecuted | RunStopped) for each in leaves(error)
    )


def _returned(value: Any, operation: Operation) -> Result:
    """The result of a function that returned `value`.

    It never raises, because the function has run and its end must be recorded.
    """
    try:
        if operation.is_unused:
            telemetry.operation_unused(operation.name)
        if is_awaitable(value):
            return Raised(never_awaited(value), has_returned=True)
        if is_our_refusal(value):
            # The function called an HTTP operation and returned its refusal. So the function has
            # not ended either.
            return Answered(value=value, stored="", is_final=False)
        text = encode(value)
        # The first caller gets the same value that a replay would give.
        return Answered(value=decode(text), stored=text, is_final=True)
    except BaseException as mistake:  # noqa: BLE001 -- the function has run, so its end is recorded, whatever the author's objects raise
        return Unserialisable(mistake)


def _returned_bare(value: Any, operation: Operation) -> Result:
    """The same without a record: `value` is passed on unchanged."""
    if operation.has_collected and is_awaitable(value):
        return Raised(never_awaited(value), has_returned=True)
    return Answered(value=value, stored="", is_final=True, commits=not is_our_refusal(value))


def _left_ms(call: Call) -> int | None:
    """The remaining milliseconds, by a Lambda context or its proxy among the arguments, or None."""
    arguments = (*call.args, *call.kwargs.values())
    # An argument with a method of its own is asked first. Others may be proxies of a context.
    for argument in sorted(arguments, key=_has_none_itself):
        try:
            left_ms = remaining_ms(argument)
        except Exception:  # noqa: BLE001, S112 -- an object that raises here is not a context
            continue
        if left_ms is not None:
            return left_ms
    return None


def _has_none_itself(argument: object) -> bool:
    return inspect.getattr_static(argument, "get_remaining_time_in_millis", None) is None
