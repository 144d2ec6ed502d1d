"""Notices the end of standard input: the sign that whoever holds the other end is gone."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_STANDARD_INPUT = 0


def at_end_of_stdin(loop: asyncio.AbstractEventLoop, then: Callable[[], object]) -> None:
    """Returns at once; `then` is called in `loop` when standard input ends, killed parent or not.

    What comes on standard input until then is thrown away.
    """
    threading.Thread(target=_read_to_the_end, args=(loop, then), daemon=True).start()


def _read_to_the_end(loop: asyncio.AbstractEventLoop, then: Callable[[], object]) -> None:
    # Straight from the descriptor: a thread in a buffered reader would block the interpreter's end.
    with contextlib.suppress(OSError):  # closed from the start
        while os.read(_STANDARD_INPUT, 4096):
            pass
    with contextlib.suppress(RuntimeError):  # the loop has ended by itself meanwhile
        loop.call_soon_threadsafe(then)
