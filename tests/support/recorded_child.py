"""Runs one invocation a process: each order on standard input is carried out in a fresh fork.

`python -m tests.support.recorded_child` has everything imported before the first order, so a
process that is to be killed starts in milliseconds. An order names the journal that its process
writes, what it does (`invoke` a handler or `settle` a record) and where it is stopped. The reply
says how the process has ended, or that it is stopped; `continue` lets a stopped one go on.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any

import boto3

from oncekey import StoreError, defaults
from oncekey.settings import settings_from
from oncekey.settlement import Settler
from tests.support.events import load, with_key
from tests.support.killed_functions import CLOCK, HANDLERS, tripwires
from tests.support.tripwire import Stop, Tripwire

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.store import Store

Order = dict[str, Any]


def main(does: Callable[[Order], Any]) -> None:
    """Does the orders of standard input, one after the other, until it ends."""
    _warm_up()
    for line in sys.stdin:
        order = json.loads(line)
        pid = order["continue"] or os.fork()
        if pid == 0:
            os._exit(_carried_out(order, does))
        if order["continue"]:
            os.kill(pid, signal.SIGCONT)
        _, status = os.waitpid(pid, os.WUNTRACED)
        sys.stdout.write(json.dumps({"pid": pid, "ended": _ending(status)}) + "\n")
        sys.stdout.flush()


def _warm_up() -> None:
    """What boto3 does at its first call takes longer than an invocation: here it is done once.

    No connection is left open, which the forks would share.
    """
    boto3.client("s3")
    boto3.client("sqs")
    store: Any = _store()
    with contextlib.suppress(StoreError):  # there may be no table yet
        store.read("nothing")
    store._client.close()
    # A fork then copies less.
    gc.freeze()


def _store() -> Store:
    """The store that the handlers use as well."""
    return defaults.store(settings_from(os.environ, {}).store_timeout_ms)


def _ending(status: int) -> str:
    if os.WIFSTOPPED(status):
        return "stopped"
    code = os.waitstatus_to_exitcode(status)
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def _carried_out(order: Order, does: Callable[[Order], Any]) -> int:
    stop = Stop(**order["stop"]) if order["stop"] else None
    tripwire = Tripwire(order["journal"], stop)
    tripwire.install()
    tripwires.append(tripwire)
    if order["holds_clock"]:
        CLOCK.held_at_ms = CLOCK.now_ms()
    try:
        tripwire.note("answer", answer=does(order))
    except BaseException:  # noqa: BLE001 -- a fork must not go on as its parent would
        traceback.print_exc()
        return 1
    return 0


def _done(order: Order) -> Any:
    return _settled(order) if order["pk"] else _answered(order)


def _answered(order: Order) -> Any:
    return HANDLERS[order["handler"]](with_key(load("apigw_http_v2_post"), order["key"]), None)


def _settled(order: Order) -> str:
    """What the reconciler does about a record: read it, ask its resolver, write what that says."""
    store = _store()
    record = store.read(order["pk"])
    assert record is not None
    settings = settings_from(os.environ, {})
    return Settler(store=store, clock=CLOCK, settings=settings).settle(record).value


if __name__ == "__main__":
    main(_done)
