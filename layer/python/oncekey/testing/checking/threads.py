"""Threads and pools that a handler uses belong to its process."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from contextvars import ContextVar

T = TypeVar("T")

# Whose work each pool was first given.
_owners: WeakKeyDictionary[ThreadPoolExecutor, object] = WeakKeyDictionary()


@contextmanager
def inherited(variable: ContextVar[T]) -> Iterator[None]:
    """Within the block, threads see the value that `variable` has where their work is begun.

    Python gives a new thread none of it, and a pool runs work in a thread of an earlier caller.
    Other variables stay as they are, because a handler does not have them in production either.

    A pool that was made under another value, such as one of the handler's module, gets a twin for
    each value: every process has pools of its own, and none waits for the threads of another.
    """
    from unittest.mock import patch

    start, submit = threading.Thread.start, ThreadPoolExecutor.submit
    twins: dict[tuple[int, int], ThreadPoolExecutor] = {}

    def with_value(value: T, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        token = variable.set(value)
        try:
            return work(*args, **kwargs)
        finally:
            variable.reset(token)

    def started(thread: threading.Thread) -> None:
        thread.run = partial(with_value, variable.get(), thread.run)  # type: ignore[method-assign]
        start(thread)

    def submitted(
        pool: ThreadPoolExecutor, work: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        value = variable.get()
        chosen = pool
        if _owners.setdefault(pool, value) is not value:
            twin = ThreadPoolExecutor(getattr(pool, "_max_workers", None))
            chosen = twins.setdefault((id(pool), id(value)), twin)
        return submit(chosen, with_value, value, work, *args, **kwargs)

    with ExitStack() as stack:
        stack.enter_context(patch.object(threading.Thread, "start", started))
        stack.enter_context(patch.object(ThreadPoolExecutor, "submit", submitted))
        try:
            yield
        finally:
            for each in twins.values():
                each.shutdown(wait=False)
