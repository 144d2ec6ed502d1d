"""A report's whole way over real HTTP: accepted, asked after, made by the worker, and read."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.looking import until
from tests.support.payments_client import BODY, Client, code_of, new_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.dev_service import Answer

UNKNOWN = "pay_" + "0" * 32
QUEUE = "payments-local-payments"


@pytest.fixture
def reports(shared: Client) -> Client:
    """A client that asks for a report about a payment of its own; nothing else is on its way.

    The payment has been charged, so each of the functions has a process.
    """
    shared.provider.reset()
    shared.set_store_faults(delay_ms=0)
    paid = shared.ended(shared.ask(new_key()))
    shared.quiet()
    return shared.at("/reports", {"payment_ids": [paid["payment_id"], UNKNOWN]})


@contextlib.contextmanager
def unsent(reports: Client) -> Iterator[None]:
    """Messages stay in the outbox: the relay's processes are stopped for the length of a block."""
    relays = [each["pid"] for each in reports.dev.processes() if each["function"] == "outbox-relay"]
    assert relays
    for pid in relays:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in relays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def record_of(reports: Client, accepted: Answer) -> dict[str, Any]:
    """The record of the operation that was accepted."""
    wanted = {"S": accepted.json()["operation_id"]}
    (record,) = [each for each in reports.records() if each.get("operation_id") == wanted]
    return record


def completed(reports: Client, accepted: Answer) -> dict[str, Any]:
    """What the operation is said to have come to, once it is completed."""
    shown: list[Any] = []

    def is_completed() -> bool:
        shown.append(reports.show(accepted.headers["location"]).json())
        return bool(shown[-1]["status"] == "completed")

    until(is_completed)
    return dict(shown[-1])


def check_made_once(reports: Client, key: str, accepted: Answer) -> None:
    """There is one report of the operation; operation, report and retry tell the same of it."""
    operation_id = accepted.json()["operation_id"]
    said = completed(reports, accepted)
    location = "/reports/rep_" + operation_id.replace("-", "")
    assert said["answer"] == {"status": 201, "location": location}
    shown, replay = reports.show(location), reports.ask(key)
    assert (shown.status, replay.status) == (200, 201)
    assert shown.json() == replay.json()
    assert replay.headers["location"] == location
    assert replay.headers["idempotent-replayed"] == "true"
    wanted = {"S": operation_id}
    (row,) = [each for each in reports.rows("reports") if each["operation_id"] == wanted]
    assert json.loads(row["report"]["S"]) == shown.json()


@pytest.mark.requirement("A12")
@pytest.mark.requirement("B3")
def test_a_report_is_accepted_asked_after_made_and_read(reports: Client) -> None:
    """The client gets a 202 that says where to ask; there it is told that the operation is pending,
    and then where the report is. The same request is the same 202 while the operation is open, and
    the report itself afterwards.

    Red when the request waits for the report, or a repeat of it starts a second operation.
    """
    key = new_key()
    with unsent(reports):
        accepted, again = reports.ask(key), reports.ask(key)
        pending = reports.show(accepted.headers["location"])
        other = reports.ask(key, {"payment_ids": [UNKNOWN]})

    operation_id = accepted.json()["operation_id"]
    assert accepted.status == again.status == 202
    assert again.json()["operation_id"] == operation_id
    for answer in (accepted, again):
        assert answer.headers["location"] == f"/operations/{operation_id}"
        assert int(answer.headers["retry-after"]) == answer.json()["retry_after_s"] >= 1
        assert answer.json()["status"] == "pending"
    assert (pending.status, pending.json()["status"]) == (200, "pending")
    assert int(pending.headers["retry-after"]) >= 1
    assert (other.status, code_of(other)) == (422, "key-reused")

    check_made_once(reports, key, accepted)
    report = reports.ask(key).json()
    assert (report["payments"], report["unknown"]) == (2, 1)
    assert report["totals"] == {"succeeded": {BODY["currency"]: BODY["amount"]}}
    assert record_of(reports, accepted)["attempt"]["N"] == "1"


@pytest.mark.requirement("C11")
def test_operation_and_report_look_absent_to_another_tenant(reports: Client) -> None:
    """Pending or completed, another tenant's operation is a 404 like one that never was, and so is
    its report; the same key is that tenant's own, and its report counts no payment of another's.

    Red when operations or reports are found by their id alone, or the tenant is left out of the
    record's key.
    """
    key, other = new_key(), reports.of("globex")
    with unsent(reports):
        accepted = reports.ask(key)
        while_pending = other.show(accepted.headers["location"])
    report = completed(reports, accepted)["answer"]["location"]
    after = other.show(accepted.headers["location"])
    never = other.show("/operations/0f8fad5b-d9cb-469f-a165-70867728950e")

    assert (never.status, code_of(never)) == (404, "operation-unknown")
    for answer in (while_pending, after):
        assert (answer.status, answer.body) == (never.status, never.body)
    assert (other.show(report).status, code_of(other.show(report))) == (404, "report-unknown")

    own = other.ask(key)
    assert own.json()["operation_id"] != accepted.json()["operation_id"]
    check_made_once(other, key, own)
    assert other.ask(key).json()["unknown"] == 2
    assert reports.show(own.headers["location"]).status == 404


@pytest.mark.requirement("E3")
@pytest.mark.parametrize("is_lost", [False, True], ids=["delivered again", "asked for again"])
def test_a_report_whose_worker_was_killed_is_made_once(reports: Client, is_lost: bool) -> None:
    """SIGKILL in the middle of the work: until the lease is over the client is told 202 with the
    same id; then a later attempt works on the message, delivered again. Where the queue has lost
    it, the client's own retry brings the next.

    Red when a dead attempt holds its operation for good, or the next is another operation.
    """
    key = new_key()
    # While the store is slow, looking all these up ends with the function's timeout, not with a
    # report; afterwards it is quick on a busy machine, too.
    slow = {"payment_ids": [f"pay_{number:032x}" for number in range(50)]}
    client = reports.at("/reports", slow)
    with unsent(client):
        accepted = client.ask(key)
        client.set_store_faults(delay_ms=200)
    until(lambda: record_of(client, accepted)["status"]["S"] == "IN_PROGRESS")
    client.dev.kill_busy("outbox-worker")
    client.set_store_faults(delay_ms=0)
    assert record_of(client, accepted)["status"]["S"] == "IN_PROGRESS"
    if is_lost:
        sqs = client.aws("sqs")
        sqs.purge_queue(QueueUrl=sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"])

    answers: list[Answer] = []

    def is_made() -> bool:
        answers.append(client.ask(key) if is_lost else client.show(accepted.headers["location"]))
        return answers[-1].status == 201 or answers[-1].json()["status"] == "completed"

    until(is_made)
    statuses = [answer.json().get("status") for answer in answers[:-1]]
    assert statuses[0] == "in_progress"
    assert {answer.json()["operation_id"] for answer in answers[:-1]} == {
        accepted.json()["operation_id"]
    }
    # Only a client that asks for it has it accepted again.
    assert ("pending" in statuses) == is_lost
    check_made_once(client, key, accepted)
    assert int(record_of(client, accepted)["attempt"]["N"]) >= 2
    assert client.ask(key).json()["unknown"] == len(slow["payment_ids"])
    client.quiet()
