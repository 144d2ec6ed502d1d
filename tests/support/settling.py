"""Refunds whose function dies, and what comes to settle them in the running reference service."""

from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.looking import looks, until
from tests.support.payments_client import code_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.dev_service import Answer
    from tests.support.payments_client import Client

ESCALATED = "payments-local-escalated"


def killed(refunds: Client, key: str) -> None:
    """Ask for a refund whose function is killed when the provider has the call; it arrives."""
    refunds.provider.arm(hold=True)
    asked = refunds.start(key)
    refunds.provider.wait_held(1)
    refunds.dev.kill_busy("refunds")
    assert asked.result().status == 500
    refunds.provider.arm(hold=False)


def killed_in_vain(refunds: Client, key: str) -> None:
    """The same, and the provider refuses the call without a trace, after its sender has died."""
    calls = refunds.provider.counts()["calls"]
    refunds.provider.arm(fail=1, delay_ms=60_000)
    asked = refunds.start(key)
    until(lambda: refunds.provider.counts()["calls"] > calls, "the call does not arrive")
    refunds.dev.kill_busy("refunds")
    assert asked.result().status == 500
    refunds.provider.disarm()


def unknown(refunds: Client, key: str) -> Answer:
    """The answer to a retry once the lease of the dead function is over."""
    answer = refunds.settled_code(key, "request-in-progress")
    assert (answer.status, code_of(answer)) == (409, "outcome-unknown")
    assert int(answer.headers["retry-after"]) >= 1
    return answer


def record_of(client: Client, key: str) -> dict[str, Any]:
    """The record of the client's key: its numbers as numbers, its texts as texts."""
    (record,) = [each for each in client.records() if each.get("key") == {"S": key}]
    return {
        name: int(value["N"]) if "N" in value else value.get("S") for name, value in record.items()
    }


def rows_of(client: Client, table: str, operation_id: str) -> list[dict[str, Any]]:
    """The business rows that an operation has written."""
    wanted = {"S": operation_id}
    return [row for row in client.rows(table) if row["operation_id"] == wanted]


def reconciled(client: Client) -> dict[str, Any]:
    """The numbers of one run of the reconciler, which has not failed."""
    run = client.dev.call_now("reconciler")
    assert run["outcome"] == "result", run
    numbers: dict[str, Any] = run["said"]
    return numbers


def reconciled_until(client: Client, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The numbers of the first of its runs that does it: what is due is so by the clock."""
    for _ in looks():
        run = reconciled(client)
        if holds(run):
            return run
    raise AssertionError("no run of the reconciler does it")


@contextmanager
def unreachable(client: Client) -> Iterator[None]:
    """The provider's process is stopped for the length of a block: nobody is answered."""
    (pid,) = client.dev.pids(role="provider")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def escalations(client: Client) -> list[dict[str, Any]]:
    """Take the messages for a person out of their queue."""
    sqs = client.aws("sqs")
    url = sqs.get_queue_url(QueueName=ESCALATED)["QueueUrl"]
    taken: list[dict[str, Any]] = []
    while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for message in found:
            taken.append(json.loads(message["Body"]))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return taken
