"""Runs one invocation a process: each order on standard input is carried out in a fresh fork.

The process has everything imported before the first order, so one that is to be killed starts in
milliseconds. An order names the journal that its process writes and where it is stopped. The reply
says how the process has ended, or that it is stopped; `continue` lets a stopped one go on.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any

from tests.support.tripwire import Stop, Tripwire

if TYPE_CHECKING:
    from collections.abc import Callable

Order = dict[str, Any]


def serve_orders(carry_out: Callable[[Order, Tripwire], Any]) -> None:
    """Carries out the orders of standard input, one after the other, until it ends.

    What `carry_out` returns is the last line of the journal.
    """
    # A fork then copies less.
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        pid = order["continue"] or os.fork()
        if pid == 0:
            os._exit(_carried_out(order, carry_out))
        if order["continue"]:
            os.kill(pid, signal.SIGCONT)
        _, status = os.waitpid(pid, os.WUNTRACED)
        sys.stdout.write(json.dumps({"pid": pid, "ended": _ending(status)}) + "\n")
        sys.stdout.flush()


def _ending(status: int) -> str:
    if os.WIFSTOPPED(status):
        return "stopped"
    code = os.waitstatus_to_exitcode(status)
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def _carried_out(order: Order, carry_out: Callable[[Order, Tripwire], Any]) -> int:
    stop = Stop(**order["stop"]) if order["stop"] else None
    tripwire = Tripwire(order["journal"], stop)
    tripwire.install()
    # Standard output is for the replies, and a function may log to it.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        tripwire.note("answer", answer=carry_out(order, tripwire))
    except BaseException:  # noqa: BLE001 -- a fork must not go on as its parent would
        traceback.print_exc()
        return 1
    return 0
