"""Runs recorded handlers and settlements: `python -m tests.support.recorded_child`.

An order says what its process does: `invoke` a handler or `settle` a record.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import boto3

from oncekey import StoreError
from oncekey.settings import settings_from
from oncekey.store import defaults
from tests.support.asking_settler import Settling
from tests.support.events import load, with_key
from tests.support.forking import serve_orders
from tests.support.killed_functions import CLOCK, HANDLERS, tripwires

if TYPE_CHECKING:
    from oncekey.store.store import Store
    from tests.support.forking import Order
    from tests.support.tripwire import Tripwire


def warm_up() -> None:
    """What boto3 does at its first call takes longer than an invocation: here it is done once.

    No connection is left open, which the forks would share.
    """
    boto3.client("s3")
    store: Any = _store()
    with contextlib.suppress(StoreError):  # there may be no table yet
        store.read("nothing")
    store._client.close()


def _store() -> Store:
    """The store that the handlers use as well."""
    return defaults.store(settings_from(os.environ, {}).store_timeout_ms)


def begin(order: Order, tripwire: Tripwire) -> None:
    """What a fork needs before it carries out `order`."""
    tripwires.append(tripwire)
    if order["holds_clock"]:
        CLOCK.held_at_ms = CLOCK.now_ms()


def _carried_out(order: Order, tripwire: Tripwire) -> Any:
    begin(order, tripwire)
    return _settled(order) if order["pk"] else _answered(order)


def _answered(order: Order) -> Any:
    return HANDLERS[order["handler"]](with_key(load("apigw_http_v2_post"), order["key"]), None)


def _settled(order: Order) -> str:
    """What the reconciler does about a record: read it, ask its resolver, write what that says."""
    store = _store()
    record = store.read(order["pk"])
    assert record is not None
    settings = settings_from(os.environ, {})
    return Settling(store=store, clock=CLOCK, settings=settings).settle(record).value


if __name__ == "__main__":
    warm_up()
    serve_orders(_carried_out)
