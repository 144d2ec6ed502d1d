"""A worker calls plain functions. What calling an async one or a generator makes runs nothing."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from oncekey.effects.handlers import has_not_run, is_coroutine_function, is_generator_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RUN_IT = "pass a function that runs it, such as with asyncio.run"


class WorkNotRun(TypeError):  # noqa: N818 -- the log shows the name alone
    """A function returned a coroutine or a generator, which nobody runs. Its message is not done.

    Return what `asyncio.run` returns for the coroutine, or consume the generator.
    """


def plain_function_faults(what: str, function: Callable[..., object]) -> Iterator[str]:
    """The faults of a function that a worker is to call; `what` names it in the message."""
    if not callable(function):
        yield f"{what} is a {type(function).__name__}: pass a function"
    elif isinstance(function, type):
        # A call would make an object, and do nothing with the message.
        yield f"{what} is the class {function.__name__}: pass a function, or an object of the class"
    elif is_coroutine_function(function):
        yield f"{what} is an async def function, and a Worker calls plain ones: {_RUN_IT}"
    elif is_generator_function(function):
        yield f"{what} is a generator function, whose body would not run: pass one without yield"


def refuse_unfinished(result: Any) -> None:
    """Refuse the result of a function whose work is still to be done.

    Raises:
        WorkNotRun: it is awaitable or a generator.
    """
    if not has_not_run(result):
        return
    if inspect.iscoroutine(result):
        result.close()  # Python need not warn as well
    raise WorkNotRun(f"a worker's function returned a {type(result).__name__}: {_RUN_IT}")
