"""Moving from Powertools' idempotency utility: the hand-over, and its JMESPath expressions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from oncekey.effects.handlers import is_coroutine_function, operation_parameter
from oncekey.effects.raised import RefusedBelow
from oncekey.effects.running import current_operation
from oncekey.encoding.key_values import searchable
from oncekey.errors import ConfigurationError, NotExecuted
from oncekey.functions.keys import compiled
from oncekey.http.event import HttpRequest
from oncekey.record.outcome import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

_NO_KEY = "The request lacks the part that its key is taken from."
F = TypeVar("F", bound=Callable[..., Any])
Expression = Callable[..., Any]


def handed_over(old: Callable[..., Any]) -> Callable[[F], F]:
    """Keep Powertools' protection below ours while a release is switched over.

        @idempotent(operation="POST /payments", tenant=jwt_claim("tenant_id"))
        @handed_over(powertools_idempotent(persistence_store=old_table, config=config))
        def handler(event, context): ...

    Both tables then know every call, so neither release runs a call that the other one runs or has
    completed: during a gradual deployment, and after a rollback. A retry of a call that the old
    release completed gets the old answer, which is recorded in our table. While the old release
    still runs the call, the attempt ends as not executed (503 over HTTP), and the client may retry.
    Another payload under an old key is refused as a key that is used twice, if the old decorator
    has a `payload_validation_jmespath`. A call in which Powertools finds no key is refused as one
    without a key, if the old decorator has `raise_on_no_idempotency_key`.

    Write it on the whole handler, right below oncekey's decorator. If Powertools refuses the call,
    that is the proof that nothing was done. Work before the call is not seen.

    Arguments may be passed by position, although Powertools' `idempotent_function` reads keyword
    arguments only.

    Remove it, and then the old table, once Powertools' records have expired.

    Args:
        old: Powertools' decorator with its options, `idempotent` or `idempotent_function`. The
            function must keep its module and name, because Powertools' keys contain them.

    Raises:
        ConfigurationError: the function is a coroutine function or takes the operation as an
            argument, or, at a call, no operation of ours is running or its effects are recorded.
            After a crash, Powertools' answer would replace a run whose recorded writes were not
            applied.

    Limits remain. Powertools forgets a run that raised or was killed, in either release: the old
    release then runs it again. Powertools' keys have no tenant. If Powertools' table fails after
    the function has run, the outcome is unknown.
    """

    def decorate(function: F) -> F:
        faults = []
        signature = inspect.signature(function)
        if is_coroutine_function(function):
            faults.append("Powertools' decorators do not await: switch async functions at once")
        if operation_parameter(signature) is not None:
            faults.append("Powertools passes no operation on: use current_operation()")
        _refuse(faults)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            _check_operation()
            has_begun = False

            @functools.wraps(function)
            def noted(*args: Any, **kwargs: Any) -> Any:
                nonlocal has_begun
                has_begun = True
                return function(*args, **kwargs)

            try:
                if _reads_keywords(old):
                    args, kwargs = _by_name(signature, args, kwargs)
                return old(noted)(*args, **kwargs)
            except Exception as error:
                if has_begun:
                    raise
                # Until the function begins, only Powertools' own code has run.
                raise _refusal(error) from error

        return wrapped  # type: ignore[return-value]

    return decorate


def powertools_key(expression: str) -> Expression:
    """`key=` from an `event_key_jmespath` of Powertools, with its functions (`powertools_json`).

    It is applied to the first argument of a call. Unlike in Powertools, a key that is missing, or
    of which a part is missing, is refused: such calls would share one key. So is a call that the
    expression does not fit.

    Raises:
        ConfigurationError: it is not an expression, or calls a function that Powertools lacks.
    """
    search = _searching("powertools_key", expression)

    def key(*args: Any, **kwargs: Any) -> Any:
        try:
            found = search(*args, **kwargs)
        except ValueError as error:
            raise LookupError(str(error)) from None
        parts: Iterable[Any] = found.values() if isinstance(found, Mapping) else [found]
        if isinstance(found, list):
            parts = found
        if any(part is None or part == "" for part in parts):
            raise LookupError(f"{expression} finds nothing, or a part is missing")
        return found

    return key


def powertools_payload(expression: str) -> Expression:
    """`fingerprint=` from a `payload_validation_jmespath` of Powertools.

    It is applied to the first argument of a call, or to `{"body": ..., "headers": ...}` of an HTTP
    request.

    Raises:
        ConfigurationError: it is not an expression, or calls a function that Powertools lacks.
    """
    return _searching("powertools_payload", expression)


def _searching(name: str, expression: str) -> Expression:
    """Applies `expression` to a call. It raises ValueError if the expression does not fit it."""
    from aws_lambda_powertools.utilities.jmespath_utils import PowertoolsFunctions, query

    given: object = expression
    faults = ["is no JMESPath expression: give a text"]
    if isinstance(given, str):
        try:
            _, faults = compiled(given, PowertoolsFunctions)
        except ValueError as error:
            faults = [str(error)]
    if faults:
        raise ConfigurationError(f"{name}({expression!r})", faults)

    def search(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else next(iter(kwargs.values()))
        try:
            if isinstance(given, HttpRequest):
                given = {"body": given.body.decode("utf-8"), "headers": dict(given.headers)}
            return query(searchable(given), expression)
        except Exception as error:  # noqa: BLE001 -- of jmespath, or of a decoder of Powertools
            # Its text may quote the whole event.
            fault = f"{expression} does not fit the call ({type(error).__name__})"
            raise ValueError(fault) from None

    return search


def _reads_keywords(old: Callable[..., Any]) -> bool:
    # Powertools' `idempotent_function` without a function is a partial of itself.
    return isinstance(old, functools.partial) and "data_keyword_argument" in old.keywords


def _by_name(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments, by name as far as the function takes them by name."""
    parameters = signature.parameters.values()
    if any(each.kind in {each.POSITIONAL_ONLY, each.VAR_POSITIONAL} for each in parameters):
        return args, kwargs
    bound = signature.bind(*args, **kwargs)
    named = dict(zip(signature.parameters, bound.args, strict=False))
    return (), {**named, **bound.kwargs}


def _refusal(error: Exception) -> NotExecuted:
    """What Powertools' `error` means for a caller whose function has not begun."""
    from aws_lambda_powertools.utilities.idempotency.exceptions import (
        IdempotencyKeyError,
        IdempotencyValidationError,
    )

    match error:
        case IdempotencyKeyError():
            return RefusedBelow(Reason.KEY_MISSING, _NO_KEY)
        case IdempotencyValidationError():
            return RefusedBelow(Reason.KEY_REUSED)
        case _:
            return NotExecuted(f"Powertools did not run it: {type(error).__name__}")


def _check_operation() -> None:
    try:
        operation = current_operation()
    except LookupError:
        _refuse(["no operation is running: write it below oncekey's decorator, not above it"])
        raise
    if operation.records_effects:
        _refuse(["the effects are recorded: declare them so after the hand-over"])


def _refuse(faults: list[str]) -> None:
    if faults:
        raise ConfigurationError("@handed_over(...)", faults)
