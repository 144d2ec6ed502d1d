"""Calls handlers of every signature, plain or `async def`."""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def call_with(handler: Callable[..., Any], context: Any) -> Callable[[Any], Any]:
    """A function of an event that calls `handler`, with `context` if it takes two arguments."""
    parameters = inspect.signature(handler).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [each for each in parameters if each.kind in kinds]
    needed = [each for each in taken if each.default is each.empty]
    takes_any = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    takes_context = len(needed) > 1 or (takes_any and not taken)
    takes_context |= any(each.name == "context" for each in taken)
    if takes_context:
        return lambda event: awaited(handler, event, context)
    return lambda event: awaited(handler, event)


def awaited(function: Callable[..., Any], *arguments: Any) -> Any:
    """What `function` returns, or what its coroutine does."""
    value = function(*arguments)
    return _run_apart(value) if inspect.iscoroutine(value) else value


def _run_apart(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run `coroutine` in a thread of its own, because an event loop may be running in this one."""
    outcome: list[tuple[Any, BaseException | None]] = []

    def carry_out() -> None:
        try:
            outcome.append((asyncio.run(coroutine), None))
        except BaseException as error:  # noqa: BLE001 -- it is raised again, in the thread of the play
            outcome.append((None, error))

    thread = threading.Thread(target=copy_context().run, args=(carry_out,), daemon=True)
    thread.start()
    thread.join()
    value, error = outcome.pop()
    if error is not None:
        raise error
    return value
