"""Runs one invocation a process, as `tests.support.recorded_child` does, of an asynchronous path.

An order says whose turn it is: `invoke` is a request, `relay` sends what the outbox's stream has,
`work` takes one message from the queue, carries it out and acknowledges it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from oncekey.errors import CallNotAnswered
from oncekey.outbox.inbox import delivered
from oncekey.outbox.relay import OutboxRelay
from oncekey.store.sqs import SqsQueue
from tests.support.async_killed_functions import HANDLERS, JOBS
from tests.support.events import load, with_key
from tests.support.forking import serve_orders
from tests.support.recorded_child import begin, warm_up

if TYPE_CHECKING:
    from tests.support.forking import Order
    from tests.support.tripwire import Tripwire


# It has no connection yet, which the forks would share.
_sqs = boto3.client("sqs", config=Config(retries={"total_max_attempts": 1}))


def _carried_out(order: Order, tripwire: Tripwire) -> Any:
    begin(order, tripwire)
    match order["what"]:
        case "invoke":
            event = with_key(load("apigw_http_v2_post"), order["key"])
            return HANDLERS[order["handler"]](event, None)
        case "relay":
            return OutboxRelay(queue=SqsQueue(order["queue"]))({"Records": order["stream"]}, None)
    assert order["what"] == "work"
    return _worked(order["queue"])


def _worked(queue: str) -> str:
    """What became of the first message: "acknowledged", or why it stays in the queue."""
    (message,) = _sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=1)["Messages"]
    try:
        JOBS.perform(delivered(message["Body"]), None)
    except CallNotAnswered as refusal:
        return type(refusal).__name__
    _sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return "acknowledged"


if __name__ == "__main__":
    warm_up()
    serve_orders(_carried_out)
