"""Messages that their relay never sends, over real HTTP: what the reconciler makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.dev_service import running
from tests.support.payments_client import Client, code_of, new_key
from tests.support.settling import reconciled, reconciled_until, record_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.proof

OUTBOX = "payments-local-outbox"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """The reference service without its relay, where nobody waits longer than a second."""
    env = {
        "ONCEKEY_OUTBOX_GRACE_MS": "0",
        "ONCEKEY_START_WITHIN_MS": "1000",
        "ONCEKEY_RECONCILE_FIRST_DELAY_MS": "100",
    }
    options: dict[str, Any] = {"timeout_s": 20, "schedule_s": 300}
    service = "tests.support.unrelayed_service:SERVICE"
    with running(service, env=env, **options) as dev:
        yield Client(dev)


@pytest.mark.requirement("C18")
@pytest.mark.requirement("C21")
def test_a_message_that_its_relay_has_given_up_is_sent_by_the_reconciler(client: Client) -> None:
    """A payment is taken on, and no relay sends its message: it stays pending until the reconciler
    has, and is charged once, however often the reconciler runs.

    Red when nobody looks into the outbox, or what was sent stays in it.
    """
    key = new_key()
    accepted = client.ask(key)
    assert client.show(accepted.headers["location"]).json()["status"] == "pending"
    assert len(client.rows("outbox")) == 1

    run = reconciled_until(client, lambda run: run["resent"])

    assert (run["resent"], run["failed"]) == (1, 0)
    assert client.ended(accepted)["status"] == "succeeded"
    assert reconciled(client)["resent"] == 0
    client.quiet()
    assert client.ask(key).body == accepted.body
    counts = client.provider.counts()
    assert (counts["calls"], counts["charges"]) == (1, 1)


@pytest.mark.requirement("C21")
def test_a_request_whose_message_is_lost_ends_with_a_408(client: Client) -> None:
    """An accepted report whose message is gone for good: once its time is over the reconciler ends
    it, and the client that asks after it, or sends it again, is told 408; no report is made.

    Red when an accepted request that nobody begins stays pending for ever.
    """
    reports = client.at("/reports", {"payment_ids": ["pay_" + "0" * 32]})
    key = new_key()
    accepted = reports.ask(key)
    assert accepted.status == 202
    lose_message(reports, accepted.json()["operation_id"])
    assert reports.show(accepted.headers["location"]).json()["status"] == "pending"

    run = reconciled_until(reports, lambda run: run["timed_out"])

    assert (run["timed_out"], run["resent"]) == (1, 0)
    shown = reports.show(accepted.headers["location"]).json()
    assert (shown["status"], shown["answer"]["status"]) == ("completed", 408)
    answer = reports.ask(key)
    assert (answer.status, code_of(answer)) == (408, "not-started-in-time")
    assert answer.headers["idempotent-replayed"] == "true"
    record = record_of(reports, key)
    assert "due_at" not in record
    assert rows_of(reports, "reports", record["operation_id"]) == []


def lose_message(client: Client, operation_id: str) -> None:
    """Take the operation's message out of the outbox."""
    (item,) = rows_of(client, "outbox", operation_id)
    client.aws("dynamodb").delete_item(TableName=OUTBOX, Key={"id": item["id"]})
