"""What becomes of an unknown outcome over real HTTP: the reconciler, the event, and a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from functions.refunds.models import Refund, answer_of
from oncekey import Completed, Settlement, settle
from oncekey_local.functions.environment import REGION
from tests.support.dev_service import running
from tests.support.looking import until
from tests.support.payments_client import Client, code_of, new_key
from tests.support.provider import sdk
from tests.support.settling import (
    escalations,
    killed,
    killed_in_vain,
    reconciled,
    reconciled_until,
    record_of,
    rows_of,
    unknown,
    unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.dev_service import Answer

pytestmark = pytest.mark.proof

MAX_ATTEMPTS = 3
# A week: what nobody has settled by then is escalated again.
ESCALATED_AGAIN_MS = 7 * 24 * 3_600_000


@pytest.fixture(scope="module")
def payments() -> Iterator[Client]:
    """The reference service with a timeout of three seconds, whose reconciler runs when told to."""
    env = {
        "ONCEKEY_LEASE_MARGIN_MS": "300",
        "ONCEKEY_RECONCILE_GRACE_MS": "200",
        "ONCEKEY_RECONCILE_FIRST_DELAY_MS": "100",
        "ONCEKEY_RECONCILE_MAX_ATTEMPTS": str(MAX_ATTEMPTS),
        "ONCEKEY_RESOLVER_TIMEOUT_MS": "1500",
    }
    options: dict[str, Any] = {
        "timeout_s": 3,
        "visibility_timeout_s": 4,
        "schedule_s": 300,
    }
    with running("infra.service:SERVICE", env=env, **options) as dev:
        yield Client(dev)


@pytest.fixture
def refunds(payments: Client) -> Client:
    """A client that asks for a part of its own payment back; no event of before is on its way."""
    payments.provider.reset()
    made = payments.refunding()
    payments.provider.webhooks(hold=False)
    made.quiet()
    payments.provider.webhooks(hold=True)
    return made


def check_settled(refunds: Client, key: str, answer: Answer) -> None:
    """A retry has the true answer, out of the record: its refund is at the provider, and a row."""
    record = record_of(refunds, key)
    assert (answer.status, answer.headers["idempotent-replayed"]) == (201, "true")
    assert record["status"] == "COMPLETED"
    assert "due_at" not in record
    (row,) = rows_of(refunds, "refunds", record["operation_id"])
    assert row["refund_id"]["S"] == answer.json()["refund_id"]
    assert row["status"]["S"] == answer.json()["status"] == "succeeded"
    assert row["amount"]["N"] == str(answer.json()["amount"])
    assert answer.json()["payment_id"] == row["payment_id"]["S"] == refunds.body["payment_id"]


@pytest.mark.requirement("C18")
@pytest.mark.requirement("D6")
@pytest.mark.case(13)
def test_a_refund_whose_function_was_killed_is_found_by_the_reconciler(refunds: Client) -> None:
    """SIGKILL between the refund and its record: the client is told "unknown" until the reconciler
    has asked the provider, and from then on its retry is the true 201. The provider's events, which
    come later and twice, change nothing.

    Red when nobody asks the provider, the row is not written, or the late event settles again.
    """
    key = new_key()
    killed(refunds, key)
    unknown(refunds, key)

    run = reconciled_until(refunds, lambda run: bool(run["settled"]))
    answer = refunds.ask(key)

    assert (run["asked"], run["settled"], run["is_complete"]) == (1, 1, True)
    check_settled(refunds, key, answer)
    refunds.provider.webhooks(hold=False, copies=2, newest_first=True)
    refunds.quiet()
    assert '"outcome":"refund-not-in-doubt"' in refunds.dev.log()
    assert refunds.ask(key).body == answer.body
    check_settled(refunds, key, refunds.ask(key))
    assert refunds.provider.counts()["refunds"] == 1


@pytest.mark.requirement("D6")
@pytest.mark.case(14)
def test_a_refund_that_never_happened_may_run_again(refunds: Client) -> None:
    """SIGKILL, and the provider has made nothing of the call: once the reconciler has learnt that,
    the client's retry runs, and gives back once.

    Red when the key of a refund that never happened stays unknown, or its retry runs before
    anybody has asked.
    """
    key = new_key()
    killed_in_vain(refunds, key)
    unknown(refunds, key)
    assert refunds.provider.counts()["refunds"] == 0

    run = reconciled_until(refunds, lambda run: bool(run["settled"]))
    assert run["asked"] == 1
    assert record_of(refunds, key)["status"] == "FAILED_RETRYABLE"
    answer = refunds.ask(key)

    assert answer.status == 201
    assert "idempotent-replayed" not in answer.headers
    assert refunds.ask(key).body == answer.body
    record = record_of(refunds, key)
    assert record["attempt"] == 2
    assert len(rows_of(refunds, "refunds", record["operation_id"])) == 1
    assert refunds.provider.counts()["refunds"] == 1


@pytest.mark.requirement("D6")
@pytest.mark.parametrize("by", ["a person", "the event"])
def test_what_nobody_answers_for_is_asked_less_often_and_then_told_to_a_person_once(
    refunds: Client, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """A provider that does not answer: each turn is later than the one before, and after the last a
    person has one message, however often the reconciler runs, until a week is over. The client is
    told "unknown" all the while, until that person, or the provider's event after all, settles it.

    Red when an unanswered question settles anything, the turns never end, or each run tells again.
    """
    key = new_key()
    killed(refunds, key)
    unknown(refunds, key)
    turns: list[tuple[int, int]] = []
    with unreachable(refunds):
        for attempts in range(1, MAX_ATTEMPTS + 1):
            assert reconciled_until(refunds, lambda run: run["asked"])["still_unknown"] == 1
            record = record_of(refunds, key)
            turns.append((record["reconcile_attempts"], record["due_at"]))
            assert turns[-1][0] == attempts
        reconciled_until(refunds, lambda run: run["escalated"])
        assert reconciled(refunds)["visited"] == 0
    assert [due for _, due in turns] == sorted({due for _, due in turns})

    record = record_of(refunds, key)
    assert record["status"] == "UNKNOWN"
    assert record["escalated_at"] > turns[-1][1]
    assert record["due_at"] >= record["escalated_at"] + ESCALATED_AGAIN_MS
    (told,) = escalations(refunds)
    assert (told["operation_id"], told["status"]) == (record["operation_id"], "UNKNOWN")
    assert (told["topic"], told["operation"]) == ("oncekey.escalated", "POST /refunds")
    assert key not in str(told)
    assert code_of(refunds.ask(key)) == "outcome-unknown"

    if by == "a person":
        settle_by_hand(refunds, told["reference"], record["operation_id"], monkeypatch)
        assert refunds.ask(key).status == 201
    # Also where a person was faster: it is the event that has the row written.
    refunds.provider.webhooks(hold=False, copies=2)
    refunds.quiet()
    check_settled(refunds, key, refunds.ask(key))
    assert escalations(refunds) == []
    assert refunds.provider.counts()["refunds"] == 1


def settle_by_hand(
    refunds: Client, reference: str, operation_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a person does with the message, who has looked the refund up at the provider."""
    with sdk(refunds.provider.url) as client:
        (made,) = client.v1.refunds.list().data
    assert made.metadata is not None
    assert made.metadata["operation_id"] == operation_id
    refund = Refund(
        refund_id=made.metadata["refund_id"],
        payment_id=made.metadata["payment_id"],
        status=str(made.status),
        amount=made.amount,
    )
    for name, value in {
        "ONCEKEY_TABLE": "payments-local-idempotency",
        "AWS_ENDPOINT_URL": refunds.dev.store_url,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
    }.items():
        monkeypatch.setenv(name, value)
    completed = Completed(answer_of(refund))
    assert settle(reference, completed) is Settlement.SETTLED
    assert settle(reference, completed) is Settlement.NOT_IN_DOUBT


@pytest.mark.requirement("D6")
@pytest.mark.parametrize("is_declined", [False, True], ids=["succeeds", "fails"])
def test_a_payment_that_takes_the_provider_days_is_ended_by_its_event(
    payments: Client, *, is_declined: bool
) -> None:
    """The provider takes a charge on and does not end it: the payment stays pending, whatever the
    worker and the reconciler do; the event, twice, says how it ended.

    Red when a charge that is under way counts as made, or as declined.
    """
    payments.provider.reset()
    payments.provider.webhooks(hold=False)
    payments.provider.arm(process=1)
    accepted = payments.ask(new_key())
    wanted = {"S": accepted.json()["payment_id"]}
    until(
        lambda: any(
            row["payment_id"] == wanted and "provider_id" in row
            for row in payments.rows("payments")
        ),
        "the worker does not charge",
    )
    payments.quiet()
    reconciled(payments)
    assert payments.show(accepted.headers["location"]).json()["status"] == "pending"

    payments.provider.finish(decline=is_declined)
    payments.provider.webhooks(copies=2)

    ended = payments.ended(accepted)
    assert ended["status"] == ("declined" if is_declined else "succeeded")
    payments.quiet()
    assert payments.ended(accepted) == ended
    counts = payments.provider.counts()
    assert (counts["calls"], counts["charges"]) == (1, 0 if is_declined else 1)


# The last: its message is put off for longer than anybody waits here.
@pytest.mark.requirement("C21")
@pytest.mark.requirement("D6")
def test_a_refund_whose_client_never_asks_again_is_settled_after_its_lease(
    refunds: Client,
) -> None:
    """The event comes while the lease of a killed function still runs: the row is written, and the
    operation goes on running, because nobody can tell the dead from the living. Once the lease is
    over the reconciler ends the attempt, and once the grace is over it asks and settles.

    Red when an event ends a running attempt, or only a client's retry ends a dead one.
    """
    key = new_key()
    killed(refunds, key)
    refunds.provider.webhooks(hold=False)
    operation_id = record_of(refunds, key)["operation_id"]
    until(lambda: bool(rows_of(refunds, "refunds", operation_id)), "the event does not come")
    assert record_of(refunds, key)["status"] == "IN_PROGRESS"

    run = reconciled_until(refunds, lambda run: run["expired"])
    if not run["settled"]:
        # The grace for calls under way was not over yet.
        run = reconciled_until(refunds, lambda run: run["settled"])

    assert (run["asked"], run["settled"], run["failed"]) == (1, 1, 0)
    check_settled(refunds, key, refunds.ask(key))
    assert refunds.provider.counts()["refunds"] == 1
