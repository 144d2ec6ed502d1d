"""Collecting the garbage of a test, in a process that has loaded a great deal."""

from __future__ import annotations

import gc


def collect_garbage() -> None:
    """Collect what a test has left behind; later collections pass over all that is alive now.

    To look through all that is loaded takes up to a second, each time. What a fixture of longer
    life keeps alive now is never looked at again.
    """
    gc.collect()
    gc.freeze()
