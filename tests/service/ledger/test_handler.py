"""The daily run: what it finds, what it says of it, and when it fails."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from functions.ledger import sources
from functions.ledger.handler import EXAMPLES_MAX, ComparisonIncomplete
from functions.ledger.models import SETTLING_S, Request, Window
from functions.ledger.time_budget import RESERVE_MS
from functions.shared.settings import NotConfigured
from tests.service.ledger.conftest import BUCKET, Ledgers, metrics_in

if TYPE_CHECKING:
    from tests.support.provider import Provider

AGREED = "AGREED: {n} compared, {n} equal, 0 different"


def payment_id(number: int) -> str:
    """An id of ours."""
    return f"pay_{number:032x}"


def refund_id(number: int) -> str:
    """An id of ours."""
    return f"ref_{number:032x}"


@pytest.mark.requirement("C19")
def test_ledgers_that_agree(ledgers: Ledgers, capsys: pytest.CaptureFixture[str]) -> None:
    """What both have the same of is counted as equal, over several pages, and there is a report.

    Red when a page of either side is left out, or a row is joined by anything but its id.
    """
    intents = {number: ledgers.charge(payment_id(number)) for number in range(101)}
    for number, intent in intents.items():
        ledgers.add_payment(payment_id(number), intent)
    made = ledgers.give_back(intents[0], refund_id(1), 300)
    ledgers.add_refund(refund_id(1), made, 300)

    verdicts = ledgers.run()

    assert verdicts["payments"].startswith(AGREED.format(n=101))
    assert verdicts["refunds"].startswith(AGREED.format(n=1))
    assert metrics_in(capsys.readouterr().out) == {
        name: {
            "LedgerIncomplete": 0,
            "LedgerEqual": count,
            "LedgerDifferent": 0,
            "LedgerOnlyOurs": 0,
            "LedgerOnlyTheirs": 0,
        }
        for name, count in (("payments", 101), ("refunds", 1))
    }
    reports = ledgers.reports()
    assert set(reports) == {"payments.txt", "refunds.txt"}
    assert AGREED.format(n=101) in reports["payments.txt"]


@pytest.mark.requirement("C19")
def test_ledgers_that_do_not(
    ledgers: Ledgers, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """A charge without a row, a row without a charge, another amount, currency or state are found.

    Red when one side's surplus is not looked at, or a field is not compared.
    """
    unknown = ledgers.charge(payment_id(1))
    stranger = ledgers.charge(None, 700)
    ledgers.add_payment(payment_id(2), "pi_gone")
    amount, currency, pending = (ledgers.charge(payment_id(number)) for number in (3, 4, 5))
    ledgers.add_payment(payment_id(3), amount, amount=1300)
    ledgers.add_payment(payment_id(4), currency, currency="usd")
    ledgers.add_payment(payment_id(5), None, status="pending", charged_at=None)

    with caplog.at_level(logging.INFO):
        verdicts = ledgers.run()

    assert verdicts["payments"] == (
        "DIFFERENT: 6 compared, 0 equal, 3 different, 1 only ours (missing at the provider),"
        " 2 only theirs (missing in our table)"
    )
    head, _, findings = ledgers.reports()["payments.txt"].partition("\n\n")
    assert verdicts["payments"] in head
    eur = "currency eur, status succeeded"
    assert findings.splitlines() == [
        f"only theirs  {payment_id(1)}: provider_id {unknown}, amount 1200, {eur}",
        f"only ours    {payment_id(2)}: provider_id pi_gone, amount 1200, {eur}",
        f"different    {payment_id(3)}: amount ours 1300 theirs 1200",
        f"different    {payment_id(4)}: currency ours usd theirs eur",
        (
            f"different    {payment_id(5)}: provider_id ours None theirs {pending},"
            " status ours pending theirs succeeded"
        ),
        f"only theirs  {stranger}: provider_id {stranger}, amount 700, {eur}",
    ]
    counted = metrics_in(capsys.readouterr().out)["payments"]
    assert (counted["LedgerDifferent"], counted["LedgerOnlyOurs"], counted["LedgerOnlyTheirs"]) == (
        3,
        1,
        2,
    )
    (said,) = [one for one in caplog.records if getattr(one, "ledger", "") == "payments"]
    assert said.levelno == logging.ERROR
    assert f"different {payment_id(4)}: currency" in vars(said)["examples"]
    assert "usd" not in json.dumps(vars(said)["examples"])


@pytest.mark.requirement("C19")
def test_refunds_that_do_not_agree(ledgers: Ledgers) -> None:
    """A refund without a row, a row without a refund, another amount and state are found.

    Red when refunds are not compared, or a refund is joined by anything but its id of ours.
    """
    intent = ledgers.charge(payment_id(1))
    ledgers.add_payment(payment_id(1), intent)
    lost = ledgers.give_back(intent, refund_id(1), 10)
    ledgers.add_refund(refund_id(2), "re_gone", 20)
    made = ledgers.give_back(intent, refund_id(3), 30)
    ledgers.add_refund(refund_id(3), made, 31, status="pending")

    verdicts = ledgers.run()

    assert verdicts["payments"].startswith(AGREED.format(n=1))
    assert ledgers.reports()["refunds.txt"].partition("\n\n")[2].splitlines() == [
        (
            f"only theirs  {refund_id(1)}: provider_id {lost}, amount 10, currency eur,"
            " status succeeded"
        ),
        f"only ours    {refund_id(2)}: provider_id re_gone, amount 20, status succeeded",
        (
            f"different    {refund_id(3)}: amount ours 31 theirs 30, status ours pending theirs"
            " succeeded"
        ),
    ]


@pytest.mark.requirement("C19")
def test_a_payment_that_was_charged_twice_is_different(ledgers: Ledgers) -> None:
    """Two charges for one payment are one finding, with their sum and both ids.

    Red when the second is taken for the first, or ends the run for its repeated id.
    """
    first, second = ledgers.charge(payment_id(1)), ledgers.charge(payment_id(1))
    ledgers.add_payment(payment_id(1), first)

    ledgers.run()

    (finding,) = ledgers.reports()["payments.txt"].partition("\n\n")[2].splitlines()
    assert "amount ours 1200 theirs 2400" in finding
    assert first in finding
    assert second in finding


def test_what_moved_no_money_may_be_on_one_side(ledgers: Ledgers, provider: Provider) -> None:
    """Payments that wait, or were declined, and intents without a charge are no findings."""
    ledgers.add_payment(payment_id(1), None, status="pending", charged_at=None)
    ledgers.add_payment(payment_id(2), None, status="declined", charged_at=None)
    ledgers.charge(payment_id(3), confirm=False)
    provider.arm(decline=1)
    from stripe import CardError

    with pytest.raises(CardError) as declined:
        ledgers.charge(payment_id(4))
    assert declined.value.error is not None
    assert declined.value.error.payment_intent is not None
    ledgers.add_payment(payment_id(4), declined.value.error.payment_intent.id, status="declined")
    charged = ledgers.charge(payment_id(4))
    ledgers.add_payment(payment_id(4), charged)

    verdicts = ledgers.run()

    assert verdicts["payments"].startswith(AGREED.format(n=1))


def test_a_scheduled_run_leaves_out_what_is_under_way(ledgers: Ledgers) -> None:
    """A run that is due now compares nothing of the last hour; one that is due after it does."""
    ledgers.charge(payment_id(1))
    ledgers.add_payment(payment_id(2), "pi_gone")

    due = datetime.now(tz=UTC)
    now = ledgers.run(time=due.isoformat(), **{"detail-type": "Scheduled Event"})
    later = ledgers.run(time=(due + timedelta(seconds=SETTLING_S + 60)).isoformat())

    assert now["window"] == str(Window.of(Request(time=due), now_ms=0))
    assert now["payments"].startswith(AGREED.format(n=0))
    assert later["payments"].startswith("DIFFERENT: 2 compared")


@pytest.mark.requirement("C19")
def test_a_run_without_time_is_no_success(
    ledgers: Ledgers, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Where the time is over it fails, says so, and gives no counts that could be believed.

    Red when a comparison that was cut short is reported as one that found nothing.
    """
    ledgers.charge(payment_id(1))
    ledgers.context.remaining_ms = RESERVE_MS - 1

    with (
        caplog.at_level(logging.INFO),
        pytest.raises(ComparisonIncomplete, match="payments, refunds"),
    ):
        ledgers.run()

    assert metrics_in(capsys.readouterr().out) == {
        "payments": {"LedgerIncomplete": 1},
        "refunds": {"LedgerIncomplete": 1},
    }
    reports = ledgers.reports()
    assert set(reports) == {"payments-incomplete.txt", "refunds-incomplete.txt"}
    assert "INCOMPLETE (OutOfTime)" in reports["payments-incomplete.txt"]
    assert "INCOMPLETE (OutOfTime)" in caplog.text


def test_time_that_runs_out_keeps_what_was_found(
    ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found before the time was over is in the report, which says that it is not all."""
    for number in range(4):
        ledgers.add_payment(payment_id(number), "pi_gone")
    # Two pages are read, one of each side; then rows are compared.
    left = iter([900_000] * 4 + [0] * 10)
    monkeypatch.setattr(ledgers.context, "get_remaining_time_in_millis", lambda: next(left))

    with pytest.raises(ComparisonIncomplete):
        ledgers.run()

    report = ledgers.reports()["payments-incomplete.txt"]
    assert "INCOMPLETE" in report
    assert 0 < report.count("only ours ") < 4


def test_one_ledger_that_fails_does_not_hide_the_other(ledgers: Ledgers) -> None:
    """Where one table is gone, the other ledger is compared; the run fails all the same."""
    ledgers.charge(payment_id(1))
    ledgers.tables.drop("refunds")

    with pytest.raises(ComparisonIncomplete, match="^refunds$"):
        ledgers.run()

    assert "DIFFERENT: 1 compared" in ledgers.reports()["payments.txt"]


def test_a_provider_that_is_down_is_no_empty_ledger(
    ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A provider that refuses ends the run as incomplete, and its key is nowhere in the log."""
    monkeypatch.setenv("PROVIDER_API_KEY", "sk_live_secret")

    with pytest.raises(ComparisonIncomplete):
        ledgers.run()

    assert "INCOMPLETE (AuthenticationError)" in ledgers.reports()["payments-incomplete.txt"]
    assert "sk_live" not in caplog.text


def test_two_rows_of_one_id_are_told(ledgers: Ledgers) -> None:
    """Rows of ours that share an id end the comparison, and the report says which."""
    ledgers.add_payment(payment_id(1), "pi_1")
    ledgers.add_payment(payment_id(1), "pi_1", tenant="tenant-2")

    with pytest.raises(ComparisonIncomplete):
        ledgers.run()

    report = ledgers.reports()["payments-incomplete.txt"]
    assert f"row 2 of ours has the id '{payment_id(1)}', and so has the row before it" in report


def test_a_report_that_is_not_kept_fails_the_run(
    ledgers: Ledgers, caplog: pytest.LogCaptureFixture
) -> None:
    """Findings without a report are logged and counted, and the run is tried again."""
    ledgers.charge(payment_id(1))
    ledgers.objects.delete_bucket(Bucket=BUCKET)

    with pytest.raises(ComparisonIncomplete, match="payments, refunds"):
        ledgers.run()

    (said,) = [one for one in caplog.records if getattr(one, "ledger", "") == "payments"]
    assert vars(said)["report"] == "not kept (NoSuchBucket)"
    assert "DIFFERENT: 1 compared" in said.getMessage()


def test_the_log_has_a_few_examples(ledgers: Ledgers, caplog: pytest.LogCaptureFixture) -> None:
    """However many findings there are, the log names some, and the report all, a line each."""
    for number in range(EXAMPLES_MAX + 5):
        ledgers.add_payment(payment_id(number), "pi_gone")
    ledgers.charge("pay_1\nonly ours    forged: amount 1")

    ledgers.run()

    (said,) = [one for one in caplog.records if getattr(one, "ledger", "") == "payments"]
    assert len(vars(said)["examples"]) == EXAMPLES_MAX
    findings = ledgers.reports()["payments.txt"].partition("\n\n")[2].splitlines()
    assert len(findings) == EXAMPLES_MAX + 6
    assert not any("forged" in each and each.startswith("only ours") for each in findings)


def test_a_row_that_somebody_broke_is_a_finding(
    ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row without an amount, or with one that is none, differs and ends nothing."""
    monkeypatch.setattr(sources, "_ROWS_OF_A_PAGE", 1)
    for number, amount in ((1, None), (2, "twelve")):
        ledgers.add_payment(payment_id(number), ledgers.charge(payment_id(number)), amount=amount)

    ledgers.run()

    findings = ledgers.reports()["payments.txt"].partition("\n\n")[2].splitlines()
    assert findings == [
        f"different    {payment_id(number)}: amount ours None theirs 1200" for number in (1, 2)
    ]


@pytest.mark.parametrize(
    "event",
    [
        {"start": "2026-11-28T00:00:00Z"},
        {"start": "2026-11-28T00:00:00Z", "end": "2026-11-28T00:00:00Z"},
        {"start": "2026-11-28T00:00:00", "end": "2026-11-29T00:00:00"},
        {"time": "yesterday"},
    ],
)
def test_a_window_that_is_none_is_refused(ledgers: Ledgers, event: dict[str, str]) -> None:
    """Half a window, an empty one, or times without a zone are an error; nothing is read."""
    with pytest.raises(ValidationError):
        ledgers.run(**event)

    assert ledgers.reports() == {}


@pytest.mark.parametrize("settling_s", ["-1", "1h", "1.5"])
def test_a_settling_time_that_is_none_is_refused(
    ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch, settling_s: str
) -> None:
    """A settling time is a number of seconds, and anything else is an error by its name."""
    monkeypatch.setenv("LEDGER_SETTLING_S", settling_s)

    with pytest.raises(NotConfigured, match="LEDGER_SETTLING_S must be a whole number of seconds"):
        ledgers.run()
