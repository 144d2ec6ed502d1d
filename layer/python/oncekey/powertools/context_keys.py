"""The operation's keys in the log lines and traces of Powertools' Logger and Tracer."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from oncekey.effects.handlers import is_coroutine_function
from oncekey.effects.running import current_operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aws_lambda_powertools import Logger, Tracer

F = TypeVar("F", bound="Callable[..., Any]")

_NAMES = ("operation", "operation_id", "attempt", "idempotency_key")


def operation_keys(
    *, logger: Logger | None = None, tracer: Tracer | None = None
) -> Callable[[F], F]:
    """Add the running operation's keys to the log lines and the trace of a function.

    Write it below the decorator that protects the function, or below the route:

        @idempotent(operation="POST /payments", tenant=jwt_claim("tenant_id"))
        @operation_keys(logger=logger, tracer=tracer)
        def handler(event, context): ...

    While the function runs, each line of `logger` has `operation`, `operation_id`, `attempt` and
    `idempotency_key`, and afterwards the keys that it had before. They are kept for each thread and
    task, so records of a batch that run at once do not mix. `tracer` annotates its current segment
    with the same. The idempotency key is left out with `store_raw_key=False`.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with _added(logger, tracer):
                return function(*args, **kwargs)

        @functools.wraps(function)
        async def wrapped_async(*args: Any, **kwargs: Any) -> Any:
            with _added(logger, tracer):
                return await function(*args, **kwargs)

        return wrapped_async if is_coroutine_function(function) else wrapped  # type: ignore[return-value]

    return decorate


@contextmanager
def _added(logger: Logger | None, tracer: Tracer | None) -> Iterator[None]:
    operation = current_operation()
    keys: dict[str, Any] = {
        "operation": operation.name,
        "operation_id": operation.operation_id,
        "attempt": operation.attempt,
    }
    if operation.key_for_logs:
        keys["idempotency_key"] = operation.key_for_logs
    if tracer is not None:
        for name, value in keys.items():
            tracer.put_annotation(name, value)
    if logger is None:
        yield
        return
    # An operation may run within another one, whose keys come back afterwards.
    before = logger.thread_safe_get_current_keys()
    outer = {name: before[name] for name in _NAMES if name in before}
    # This operation may keep its own key out of the log, and the outer key is not its key.
    logger.thread_safe_remove_keys(list(outer))
    logger.thread_safe_append_keys(**keys)
    try:
        yield
    finally:
        logger.thread_safe_remove_keys(list(keys))
        logger.thread_safe_append_keys(**outer)
