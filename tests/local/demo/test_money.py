"""The checks of money by themselves: what the provider has is held against what is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncekey_local.demo.log import SceneLog
from oncekey_local.demo.money import (
    ALWAYS,
    NOTHING_LATE,
    called_provider,
    charged,
    moved_behind_the_scenes,
    refunded,
)
from tests.support.demo_logs import (
    accepted_answer,
    charge,
    given_back,
    log,
    problem,
    refund,
    replayed,
)
from tests.support.replacing import replace

if TYPE_CHECKING:
    from oncekey_local.demo.log import Movement
    from oncekey_local.demo.promises import Promise

ONE_CHARGE = charged(1, says="")
ONE_REFUND = refunded(1, says="")
ONE_CALL = called_provider(1, says="")
PLAYED, STRUCK, CHARGED, GIVEN_BACK, ONCE = ALWAYS
SUCCEEDED, DECLINED, PENDING = ({"pay_1": state} for state in ("succeeded", "declined", "pending"))
FAILED = "requires_payment_method"


@pytest.mark.parametrize(
    ("promise", "good"),
    [
        (ONE_CHARGE, log(movements=(charge(1), charge(2, FAILED), refund(1), refund(2)))),
        (ONE_REFUND, log(movements=(refund(1), charge(1), charge(2)))),
        (ONE_CALL, log(calls=1)),
        (PLAYED, log()),
        (STRUCK, log()),
        (CHARGED, log(accepted_answer("call"), movements=(charge(1),), states=SUCCEEDED)),
        (CHARGED, log(accepted_answer("call"), movements=(charge(1, FAILED),), states=DECLINED)),
        (CHARGED, log(replayed(accepted_answer("call")), problem("call", 409, "x"))),
        (GIVEN_BACK, log(given_back("call"), movements=(refund(1),))),
        (GIVEN_BACK, log(replayed(given_back("call")), problem("call", 409, "x"))),
        (ONCE, log(movements=(charge(1), charge(2), refund(1), refund(2)))),
        (ONCE, log(movements=(charge(1), charge(2, "canceled", operation="operation 1")))),
        (ONCE, log(movements=(charge(1), refund(2, operation="operation 1")))),
    ],
)
def test_kept(promise: Promise, good: SceneLog) -> None:
    """A log in which money moved as it was due breaks nothing."""
    assert promise.check(good) is None


@pytest.mark.parametrize(
    ("promise", "bad", "seen"),
    [
        (ONE_CHARGE, log(movements=(refund(1),)), "0 charges at the provider, 1 due"),
        (
            ONE_CHARGE,
            log(movements=(charge(1), charge(2))),
            "a double charge: 2 charges at the provider, 1 due",
        ),
        (
            charged(0, surplus="a surprise", says=""),
            log(movements=(charge(1),)),
            "a surprise: 1 charge at the provider, 0 due",
        ),
        (ONE_REFUND, log(movements=(charge(1),)), "0 refunds at the provider, 1 due"),
        (
            ONE_REFUND,
            log(movements=(refund(1), refund(2))),
            "a double refund: 2 refunds at the provider, 1 due",
        ),
        (ONE_CALL, log(), "0 calls reached the provider"),
        (ONE_CALL, log(calls=2), "2 calls reached the provider"),
        (PLAYED, SceneLog(trouble="nobody to kill"), "nobody to kill"),
        (
            STRUCK,
            SceneLog(faults_left=("decline", "fail")),
            "decline never struck, fail never struck",
        ),
        (
            ONCE,
            log(movements=(charge(1), charge(2, operation="operation 1"))),
            "a double charge: operation operation 1 2 times",
        ),
        (
            ONCE,
            log(movements=(charge(1), replace(charge(1), operation_id="another"))),
            "a double charge: payment pay_1 2 times",
        ),
        (
            ONCE,
            log(movements=(refund(1), refund(2, operation="operation 1"))),
            "a double refund: operation operation 1 2 times",
        ),
        (
            ONCE,
            log(movements=(refund(1), replace(refund(1), operation_id="another"))),
            "a double refund: refund ref_1 2 times",
        ),
    ],
)
def test_broken(promise: Promise, bad: SceneLog, seen: str) -> None:
    """A log in which money moved otherwise is told, with what was seen instead."""
    assert promise.check(bad) == seen


@pytest.mark.parametrize(
    ("states", "movements", "seen"),
    [
        ({}, (charge(1),), "is not to be seen, and has 1 charge"),
        (PENDING, (charge(1),), "is pending, and has 1 charge"),
        (PENDING, (), "is pending, and has 0 charges"),
        (SUCCEEDED, (), "is succeeded, and has 0 charges"),
        (SUCCEEDED, (charge(1, FAILED),), "is succeeded, and has 0 charges"),
        (SUCCEEDED, (charge(1), replace(charge(1), id="2")), "is succeeded, and has 2 charges"),
        (DECLINED, (charge(1),), "is declined, and has 1 charge"),
    ],
)
def test_payment_that_does_not_end_well(
    states: dict[str, str], movements: tuple[Movement, ...], seen: str
) -> None:
    """An accepted payment ends as succeeded with one charge or as declined with none."""
    scene = log(accepted_answer("call"), states=states, movements=movements)
    assert CHARGED.check(scene) == f"payment pay_1 was answered with 202, {seen}"


@pytest.mark.parametrize(
    ("movements", "seen"),
    [
        ((), "0 refunds"),
        ((charge(1),), "0 refunds"),
        ((refund(1), replace(refund(1), id="re_2")), "2 refunds"),
    ],
)
def test_refund_that_was_not_made_once(movements: tuple[Movement, ...], seen: str) -> None:
    """A refund that was answered with 201 is one refund at the provider."""
    scene = log(given_back("call"), movements=movements)
    assert GIVEN_BACK.check(scene) == f"refund ref_1 was answered with 201, and has {seen}"


def test_money_behind_the_scenes() -> None:
    """Money moved after its scene is found; what was seen in a scene, or was declined, is not."""
    seen = [log(movements=(charge(1),)), log(movements=(refund(2),))]
    assert moved_behind_the_scenes(seen, [charge(1), refund(2), charge(4, FAILED)]) == []
    (broken,) = moved_behind_the_scenes(seen, [charge(1), charge(3), refund(2), refund(5)])
    assert broken.expected == NOTHING_LATE
    assert broken.seen == "late: charge 12.00 EUR pi_3, refund 12.00 EUR re_5"
