"""What the worker makes of accepted requests for reports, against mocked tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from functions.outbox_worker import handler as worker
from functions.outbox_worker.handler import handler
from functions.reports.handler import handler as reports
from functions.shared import payments_table
from oncekey import InProgress, OutcomeUnknown
from oncekey.clock import SystemClock
from oncekey.errors import JobUnfinished
from oncekey.outbox.worker import Worker
from oncekey.queued.jobs import Jobs
from tests.support.queue_events import delivery, failed, message
from tests.support.reference_tables import physical
from tests.support.report_requests import json_of, post_report

if TYPE_CHECKING:
    from tests.support.provider import Provider
    from tests.support.reference_tables import Tables

HOUR_MS = 3_600_000


@pytest.fixture
def job(tables: Tables) -> str:
    """The message of a report that was accepted just now."""
    assert reports(post_report(), None)["statusCode"] == 202
    (found,) = tables.messages()
    return found


def status(tables: Tables) -> str:
    """That of the one record."""
    (record,) = tables.records()
    return str(record["status"])


def changed(job: str, **changes: Any) -> str:
    """The message with other members."""
    return json.dumps({**json.loads(job), **changes})


def handler_of_another_sandbox(event: dict[str, Any]) -> Any:
    """The same work in a worker of its own, as another process has."""
    return Worker(worker.topics)(event, None)


@pytest.mark.requirement("A12")
def test_the_first_delivery_makes_the_report(tables: Tables, job: str) -> None:
    """The worker makes the report under the id that the client was told, and the record ends with
    it.

    Red when the worker works under an operation of its own.
    """
    (accepted,) = tables.records()

    answer = handler(delivery(job), None)

    assert failed(answer) == []
    (row,), (record,) = tables.rows("reports"), tables.records()
    assert row["operation_id"] == record["operation_id"] == accepted["operation_id"]
    assert (record["status"], record["attempt"]) == ("COMPLETED", 1)


def test_a_delivery_of_what_is_made_is_a_success(
    tables: Tables, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that comes again is acknowledged, and no payment is looked up for it."""
    looked_up: list[str] = []
    find = payments_table.find

    def noted(tenant: str, payment_id: str) -> Any:
        looked_up.append(payment_id)
        return find(tenant, payment_id)

    monkeypatch.setattr(payments_table, "find", noted)

    answers = [handler(delivery(job, receives=receives), None) for receives in (1, 2)]

    assert [failed(answer) for answer in answers] == [[], []]
    assert len(looked_up) == len(tables.rows("reports")) == 1


def test_reports_and_charges_share_a_batch(provider: Provider, tables: Tables, job: str) -> None:
    """Each message of a batch is done by what its topic asks for."""
    tables.add_payment()

    answer = handler(delivery(message(), job), None)

    assert failed(answer) == []
    assert provider.counts()["charges"] == 1
    assert len(tables.rows("reports")) == 1


@pytest.mark.requirement("B4")
def test_a_second_worker_loses(
    tables: Tables, job: str, hidden: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one worker makes the report, a second that gets the message makes none, and puts it
    off; the report is made once.

    Scheduled: the second delivery arrives while the first looks a payment up.
    Red when a worker takes up what another has begun.
    """
    answers: list[Any] = []
    find = payments_table.find

    def meanwhile(tenant: str, payment_id: str) -> Any:
        monkeypatch.setattr(payments_table, "find", find)
        answers.append(handler_of_another_sandbox(delivery(job, receives=2, handle="again")))
        return find(tenant, payment_id)

    monkeypatch.setattr(payments_table, "find", meanwhile)

    answers.append(handler(delivery(job), None))

    assert [failed(answer) for answer in answers] == [["record-0"], []]
    # The longest that a caller is told to wait, twice, because it came a second time.
    assert hidden == [("again", 10)]
    assert len(tables.rows("reports")) == 1
    assert status(tables) == "COMPLETED"


def test_a_report_that_cannot_be_made_now_is_made_by_the_next_delivery(
    tables: Tables, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that lacks its settings fails the message and writes no report; mended, it makes it,
    under the same operation.
    """
    monkeypatch.setenv("REPORTS_TABLE", "")
    first = handler(delivery(job), None)
    assert (failed(first), status(tables)) == (["record-0"], "FAILED_RETRYABLE")
    monkeypatch.setenv("REPORTS_TABLE", physical("reports"))

    second = handler(delivery(job, receives=2), None)

    assert (failed(second), status(tables)) == ([], "COMPLETED")
    (row,), (record,) = tables.rows("reports"), tables.records()
    assert row["operation_id"] == record["operation_id"]


def test_what_is_not_on_record_is_not_acknowledged(
    tables: Tables, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report whose row could not be written leaves its message in the queue."""
    paused_ms: list[int] = []
    now_ms = SystemClock.now_ms
    monkeypatch.setattr(
        SystemClock, "pause", lambda _clock, duration_ms: paused_ms.append(duration_ms)
    )
    monkeypatch.setattr(SystemClock, "now_ms", lambda clock: now_ms(clock) + sum(paused_ms))
    monkeypatch.setenv("REPORTS_TABLE", "no-such-table")

    answer = handler(delivery(job), None)

    assert failed(answer) == ["record-0"]
    assert status(tables) != "COMPLETED"


@pytest.mark.requirement("B10")
def test_a_report_that_no_worker_began_in_time_is_never_made(
    tables: Tables, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that comes more than an hour late ends the operation: its client is told a stored
    408 from then on, and the message is done with.

    Red when a worker begins what is overdue, or the answer is not kept.
    """
    now_ms = SystemClock.now_ms
    monkeypatch.setattr(SystemClock, "now_ms", lambda clock: now_ms(clock) + HOUR_MS + 1)

    answer = handler(delivery(job), None)
    told = [reports(post_report(), None) for _ in range(2)]

    assert (failed(answer), status(tables)) == ([], "COMPLETED")
    assert tables.rows("reports") == []
    assert [each["statusCode"] for each in told] == [408, 408]
    assert json_of(told[0])["type"].endswith("not-started-in-time")
    assert told[0]["headers"]["Idempotent-Replayed"] == "true"
    assert len(tables.rows("outbox")) == 1


@pytest.mark.parametrize("gone", ["another owner", "another operation"])
def test_a_message_that_no_record_waits_for_is_done_with(
    tables: Tables, job: str, gone: str
) -> None:
    """A message of an acceptance that is over makes no report; the one that holds does."""
    payload = json.loads(job)["payload"]
    changes: dict[str, dict[str, Any]] = {
        "another owner": {"payload": {**payload, "owner": "another"}},
        "another operation": {"operation_id": "0f8fad5b-d9cb-469f-a165-70867728950e"},
    }

    answer = handler(delivery(changed(job, **changes[gone])), None)

    assert (failed(answer), status(tables)) == ([], "PENDING")
    assert tables.rows("reports") == []
    assert failed(handler(delivery(job), None)) == []
    assert len(tables.rows("reports")) == 1


def test_a_message_whose_record_is_gone_is_done_with(tables: Tables, job: str) -> None:
    """What nobody can be told of any more is not made."""
    (record,) = tables.records()
    tables.client.delete_item(TableName=physical("idempotency"), Key={"pk": {"S": record["pk"]}})

    answer = handler(delivery(job), None)

    assert failed(answer) == []
    assert (tables.rows("reports"), tables.records()) == ([], [])


def test_a_request_that_is_not_its_records_is_not_worked_on(tables: Tables, job: str) -> None:
    """A message that names another record than its request has fails, and makes no report."""
    payload = {**json.loads(job)["payload"], "record": "another"}

    answer = handler(delivery(changed(job, payload=payload)), None)

    assert (failed(answer), status(tables)) == (["record-0"], "PENDING")
    assert tables.rows("reports") == []


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"operation": "POST /forgotten"}, id="nobody's operation"),
        pytest.param({"topic": "oncekey.forgotten"}, id="unknown topic"),
        pytest.param({"payload": {}}, id="no task"),
        pytest.param({"payload": "nonsense"}, id="payload is text"),
    ],
)
def test_a_job_that_cannot_be_worked_on_fails_alone(
    tables: Tables, job: str, changes: dict[str, Any]
) -> None:
    """Such a message is reported, so that it ends as a dead letter; its neighbour is done."""
    answer = handler(delivery(changed(job, **changes), job), None)

    assert failed(answer) == ["record-0"]
    assert (len(tables.rows("reports")), status(tables)) == (1, "COMPLETED")


@pytest.mark.parametrize("kind", [InProgress, OutcomeUnknown])
@pytest.mark.parametrize(("receives", "delay_s"), [(1, 5), (2, 10), (4, 40)])
def test_not_now_puts_the_message_off(
    job: str,
    monkeypatch: pytest.MonkeyPatch,
    hidden: list[tuple[str, int]],
    kind: Any,
    receives: int,
    delay_s: int,
) -> None:
    """A message that stands behind another attempt fails, and comes back when that says so."""

    def our_refusal(*_: object) -> None:
        raise kind(operation="POST /reports", retry_after_s=5)

    monkeypatch.setattr(Jobs, "perform", our_refusal)

    answer = handler(delivery(job, receives=receives, handle="mine"), None)

    assert failed(answer) == ["record-0"]
    assert hidden == [("mine", delay_s)]


def test_a_report_that_cannot_be_made_is_not_asked_for_at_once(
    job: str, monkeypatch: pytest.MonkeyPatch, hidden: list[tuple[str, int]]
) -> None:
    """Its message fails, and comes again when it has waited for as long again as it was tried."""

    def fails(*_: object) -> None:
        raise JobUnfinished(operation="POST /reports", retry_after_s=1)

    monkeypatch.setattr(Jobs, "perform", fails)

    assert failed(handler(delivery(job), None)) == ["record-0"]
    assert hidden == []
