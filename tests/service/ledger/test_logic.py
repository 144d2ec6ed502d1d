"""What counts as one entry, in which order both sides are read, and where a window ends."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from functions.ledger import logic
from functions.ledger.models import Entry, Window
from functions.ledger.sources import PAYMENTS, Ledger
from functions.ledger.time_budget import TimeBudget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.service.ledger.conftest import Ledgers


def entry(payment_id: str, provider_id: str, amount: int = 5, status: str = "succeeded") -> Entry:
    """What the provider has of a payment."""
    return Entry(
        id=payment_id,
        provider_id=provider_id,
        amount=amount,
        currency="eur",
        status=status,
        moves_money=status == "succeeded",
    )


CHARGED, CHARGED_AGAIN = entry("pay_1", "pi_1", 5), entry("pay_1", "pi_2", 7)
DECLINED = entry("pay_1", "pi_3", 9, "declined")
OTHER = entry("pay_2", "pi_4")


@pytest.mark.parametrize("order", list(itertools.permutations((CHARGED, CHARGED_AGAIN, DECLINED))))
def test_charges_of_one_payment_are_summed(order: tuple[Entry, ...]) -> None:
    """Whatever the order, what was charged is added up, and what was declined is not in it."""
    summed, other = logic.summed([*order, OTHER])

    assert (summed.id, summed.amount, summed.status) == ("pay_1", 12, "succeeded")
    assert set((summed.provider_id or "").split()) == {"pi_1", "pi_2"}
    assert other == OTHER


@pytest.mark.parametrize("order", list(itertools.permutations((CHARGED, DECLINED))))
def test_a_declined_attempt_does_not_hide_the_charge(order: tuple[Entry, ...]) -> None:
    """Of a charge and a declined attempt at it, in either order, the charge is what counts."""
    assert list(logic.summed(order)) == [CHARGED]


def test_the_provider_is_read_to_its_end_first() -> None:
    """What is settled while a run reads is not reported: our side is the one that is read last."""
    read: list[str] = []

    def side(name: str) -> Iterator[Entry]:
        read.append(f"{name} begins")
        yield CHARGED
        read.append(f"{name} ends")

    ledger = Ledger(
        name="payments",
        fields=PAYMENTS.fields,
        ours=lambda *_: side("ours"),
        theirs=lambda *_: side("theirs"),
    )

    class Endless:
        def get_remaining_time_in_millis(self) -> int:
            return 900_000

    budget = TimeBudget(Endless())  # type: ignore[arg-type]
    with logic.compare(ledger, Window(start_s=1, end_s=2), budget) as findings:
        assert list(findings) == []

    assert read == ["theirs begins", "theirs ends", "ours begins", "ours ends"]
    assert findings.totals.equal == 1


def test_a_window_has_its_first_second_and_not_its_last(ledgers: Ledgers) -> None:
    """Rows of our table are taken from the start of a window on, and before its end."""
    start, end = 1_796_000_000, 1_796_000_100
    for number, charged_at in enumerate((start - 1, start, end - 1, end)):
        ledgers.add_payment(f"pay_{number:032x}", f"pi_{number}", charged_at=charged_at)

    window = Window(start_s=start, end_s=end)
    found = PAYMENTS.ours(window, TimeBudget(ledgers.context))  # type: ignore[arg-type]

    assert {one.provider_id for one in found} == {"pi_1", "pi_2"}
