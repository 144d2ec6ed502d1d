"""Runs a module as a child of `oncekey dev` that cannot outlive it.

`python -m oncekey_local.child PARENT_PID MODULE [ARGUMENT ...]` makes sure that the child ends with
its parent, and then becomes `python -m MODULE`.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
import threading

# <linux/prctl.h>: the signal that a process gets when the thread that forked it is gone.
PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Ends this process, without clean-up, as soon as its parent is gone.

    Standard input must be a pipe whose other end the parent holds. It is replaced by the empty
    device, as in Lambda. There are two mechanisms. The kernel's signal also ends a handler that
    never releases the interpreter's lock. The pipe also works if the kernel has no such signal.
    Raises `SystemExit` if the parent has ended before the call.
    """
    pipe = os.dup(0)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor, not a file
        os.dup2(nothing.fileno(), 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        raise SystemExit(1)
    threading.Thread(target=die_at_end_of, args=(pipe,), daemon=True, name="parent-watch").start()


def die_at_end_of(pipe: int) -> None:
    """Kills this process and its group when `pipe` ends. It never returns."""
    while os.read(pipe, 1):
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Becomes the module that the command line names."""
    parent_pid, module, *arguments = sys.argv[1:]
    die_with_parent(int(parent_pid))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
