"""Runs the functions of the reference service: `python -m tests.support.golden_child`.

An order names the function, its environment, its time limit and its event, as Lambda has them.
"""

from __future__ import annotations

import contextlib
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import stripe
from botocore.config import Config

from infra.service import SERVICE
from oncekey.clock import SystemClock
from tests.support.forking import serve_orders

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.forking import Order
    from tests.support.tripwire import Tripwire

Handler = Any

_NOWHERE = "http://127.0.0.1:9"


class Context:
    """What Lambda hands a function beside the event: the time that is left, by the shared clock."""

    def __init__(self, timeout_s: int) -> None:
        self._deadline_ms = SystemClock().now_ms() + timeout_s * 1000

    def get_remaining_time_in_millis(self) -> int:
        """Until Lambda ends the invocation."""
        return self._deadline_ms - SystemClock().now_ms()


def _share_clock() -> Callable[[], None]:
    """The layer's clock tells the real time and what the test adds; what is returned stops it.

    The functions take no clock of their own, so it is the class that changes.
    """
    real_now_ms = SystemClock.now_ms
    held_at_ms: list[int] = []

    def now_ms(clock: SystemClock) -> int:
        if held_at_ms:
            return held_at_ms[0]
        return real_now_ms(clock) + int(Path(os.environ["CLOCK_FILE"]).read_text())

    SystemClock.now_ms = now_ms  # type: ignore[method-assign, assignment]
    return lambda: held_at_ms.append(SystemClock().now_ms())


def _imported(handler: str) -> Handler:
    module, _, name = handler.rpartition(".")
    return getattr(import_module(module), name)


def _warm_up() -> None:
    """What the SDKs do at their first call takes longer than an invocation: here it is done once.

    Nothing listens where the calls are sent, so no connection is left open for the forks to share.
    """
    options: dict[str, Any] = {
        "endpoint_url": _NOWHERE,
        "config": Config(retries={"total_max_attempts": 1}),
    }
    provider = stripe.StripeClient("none", base_addresses={"api": _NOWHERE})
    calls: list[Callable[[], object]] = [
        boto3.client("dynamodb", **options).list_tables,
        boto3.client("sqs", **options).list_queues,
        boto3.client("s3", **options).list_buckets,
        lambda: provider.v1.payment_intents.create({"amount": 1, "currency": "eur"}),
        # It is imported with the first answer.
        lambda: stripe.PaymentIntent,
    ]
    for call in calls:
        # Whatever it is: there was nobody to answer.
        with contextlib.suppress(Exception):
            call()


def main() -> None:
    """Carries out orders until standard input ends."""
    hold_clock = _share_clock()
    handlers = {function.name: _imported(function.handler) for function in SERVICE.functions}
    timeouts_s = {function.name: function.timeout_s for function in SERVICE.functions}
    _warm_up()

    def carry_out(order: Order, _: Tripwire) -> Any:
        os.environ.clear()
        os.environ.update(order["environment"])
        if order["holds_clock"]:
            hold_clock()
        name = order["function"]
        return handlers[name](order["event"], Context(timeouts_s[name]))

    serve_orders(carry_out)


if __name__ == "__main__":
    main()
