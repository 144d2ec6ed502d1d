"""The checks of answers by themselves: each is satisfied by a good log, and each can fail."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from oncekey_local.demo.log import SceneLog
from oncekey_local.demo.money import charged
from oncekey_local.demo.promises import (
    NOT_SEEN,
    Promise,
    accepted,
    another_payment,
    answered,
    answered_in_all,
    broken_promises,
    ends,
    replays,
    tells_how_long_it_is_kept,
    tells_of_what_was_made,
    tells_when_to_retry,
)
from oncekey_local.demo.scenes import SCENES
from tests.support.demo_logs import (
    accepted_answer,
    answer,
    charge,
    given_back,
    log,
    problem,
    refund,
    replayed,
)
from tests.support.replacing import replace

NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)
RUNNING = "request-in-progress"

MADE = answered("call", 201, says="")
REFUSED = answered("call", 409, RUNNING, says="")
RACE = answered_in_all("call", {201: 1, 409: 2}, says="")
RETRY_AFTER = tells_when_to_retry("call", 409, RUNNING, says="")
EXPIRES = tells_how_long_it_is_kept("call", now=lambda: NOON)
REPLAYS = replays("retry", "call", status=202, says="")
ANOTHER = another_payment("other", "call", says="")
ACCEPTED = accepted("call", says="")
TELLS = tells_of_what_was_made("call", says="")
ENDS = ends("call", "succeeded", says="")


@pytest.mark.parametrize(
    ("promise", "good"),
    [
        (MADE, log(answer("call", 201), problem("other", 500, "x"))),
        (MADE, log(answer("call", 201), answer("call", 201))),
        (REFUSED, log(problem("call", 409, RUNNING))),
        (RACE, log(answer("call", 409), answer("call", 201), answer("call", 409))),
        (RETRY_AFTER, log(problem("call", 409, RUNNING, retry_after="5"), answer("call", 201))),
        (EXPIRES, log(answer("call", 201, idempotency_expires="Thu, 01 May 2031 12:00:01 GMT"))),
        (REPLAYS, log(accepted_answer("call"), replayed(accepted_answer("retry")))),
        (
            REPLAYS,
            log(
                problem("call", 409, RUNNING),
                accepted_answer("call"),
                replayed(accepted_answer("retry")),
            ),
        ),
        (
            REPLAYS,
            SceneLog(
                exchanges=(replayed(accepted_answer("retry")),), earlier=(accepted_answer("call"),)
            ),
        ),
        (ANOTHER, log(accepted_answer("call"), accepted_answer("other", "pay_2"))),
        (
            ACCEPTED,
            log(
                accepted_answer("call"),
                accepted_answer("call", "pay_2"),
                problem("other", 500, "x"),
            ),
        ),
        (ENDS, log(accepted_answer("call"), states={"pay_1": "succeeded", "pay_2": "pending"})),
        (TELLS, log(replayed(given_back("call")), made_before=(charge(1), refund(1)))),
    ],
)
def test_kept(promise: Promise, good: SceneLog) -> None:
    """A log that shows what was promised breaks nothing."""
    assert promise.check(good) is None


@pytest.mark.parametrize(
    ("promise", "bad", "seen"),
    [
        (MADE, log(), NOT_SEEN),
        (MADE, log(answer("call", 200)), "200 payment pay_1…"),
        (MADE, log(answer("call", 0, None)), "no answer"),
        (MADE, log(answer("call", 201), answer("call", 500, None)), "500 (1 of 2 answers)"),
        (REFUSED, log(problem("call", 409, "outcome-unknown")), "409 outcome-unknown"),
        (REFUSED, log(answer("call", 409, None)), "409"),
        (RACE, log(), NOT_SEEN),
        (RACE, log(answer("call", 201), answer("call", 201), answer("call", 409)), "201 x2, 409"),
        (RETRY_AFTER, log(answer("call", 201)), "nobody was answered with 409"),
        (RETRY_AFTER, log(problem("call", 409, RUNNING)), "Retry-After: none"),
        (RETRY_AFTER, log(problem("call", 409, RUNNING, retry_after="0")), "Retry-After: 0"),
        (RETRY_AFTER, log(problem("call", 409, RUNNING, retry_after="soon")), "Retry-After: soon"),
        (RETRY_AFTER, log(problem("call", 409, "key-reused", retry_after="1")), "409 key-reused"),
        (EXPIRES, log(answer("call", 201)), "no Idempotency-Expires"),
        (
            EXPIRES,
            log(answer("call", 201, idempotency_expires="Thu, 01 May 2031 12:00:00 GMT")),
            "Idempotency-Expires: Thu, 01 May 2031 12:00:00 GMT",
        ),
        (
            EXPIRES,
            log(answer("call", 201, idempotency_expires="later")),
            "Idempotency-Expires: later",
        ),
        (REPLAYS, log(accepted_answer("call")), NOT_SEEN),
        (REPLAYS, log(replayed(accepted_answer("retry"))), "no 202 to repeat"),
        (
            REPLAYS,
            log(replayed(accepted_answer("call")), replayed(accepted_answer("retry"))),
            "no 202 to repeat",
        ),
        (
            REPLAYS,
            log(accepted_answer("call"), accepted_answer("retry")),
            "an answer without Idempotent-Replayed: true",
        ),
        (
            REPLAYS,
            log(accepted_answer("call"), replayed(accepted_answer("retry", "pay_2"))),
            "another answer: 202 payment pay_2… pending",
        ),
        (
            REPLAYS,
            log(
                accepted_answer("call"),
                replayed(accepted_answer("retry", location="/payments/pay_2")),
            ),
            "another Location: /payments/pay_2",
        ),
        (
            REPLAYS,
            log(accepted_answer("call"), replayed(replace(accepted_answer("retry"), status=200))),
            "another answer: 200 payment pay_1… pending",
        ),
        (ANOTHER, log(accepted_answer("call")), NOT_SEEN),
        (ANOTHER, log(accepted_answer("call"), accepted_answer("other")), "the same payment pay_1"),
        (
            ANOTHER,
            log(accepted_answer("call"), replayed(accepted_answer("other", "pay_2"))),
            "a replay of somebody's answer",
        ),
        (ACCEPTED, log(), NOT_SEEN),
        (ACCEPTED, log(replace(accepted_answer("call"), status=201)), "201 payment pay_1… pending"),
        (ACCEPTED, log(answer("call", 202)), "202 payment pay_1…"),
        (ACCEPTED, log(accepted_answer("call", location="/payments")), "Location: /payments"),
        (ACCEPTED, log(replace(accepted_answer("call"), headers={})), "Location: none"),
        (TELLS, log(made_before=(refund(1),)), NOT_SEEN),
        (
            TELLS,
            log(given_back("call"), made_before=(refund(1),)),
            "an answer without Idempotent-Replayed: true",
        ),
        (
            TELLS,
            log(replayed(given_back("call")), made_before=(refund(2),), movements=(refund(1),)),
            "no such refund: 201 refund ref_1… succeeded",
        ),
        (TELLS, log(problem("call", 409, "outcome-unknown")), "409 outcome-unknown"),
        (ENDS, log(states={"pay_1": "succeeded"}), NOT_SEEN),
        (ENDS, log(accepted_answer("call")), "the payment is not to be seen"),
        (
            ENDS,
            log(accepted_answer("call"), states={"pay_1": "declined"}),
            "the payment is declined",
        ),
        (ENDS, log(answer("call", 500, None), states={"pay_1": "succeeded"}), "500"),
        (
            ENDS,
            log(
                accepted_answer("call"),
                accepted_answer("call", "pay_2"),
                states={"pay_2": "succeeded"},
            ),
            "the payment is not to be seen (1 of 2 answers)",
        ),
    ],
)
def test_broken(promise: Promise, bad: SceneLog, seen: str) -> None:
    """A log that does not show what was promised is told, with what was seen instead."""
    assert promise.check(bad) == seen


def test_every_broken_promise_is_found() -> None:
    """One broken promise does not hide the next."""
    played = Promise(expected="third", check=lambda log: log.trouble)
    promises = [answered("call", 201, says="first"), charged(1, says="second"), played]
    broken = broken_promises(log(answer("call", 500, None)), promises)
    assert [(each.expected, each.seen) for each in broken] == [
        ("first", "500"),
        ("second", "0 charges at the provider, 1 due"),
    ]


@pytest.mark.parametrize("number", range(1, len(SCENES) + 1))
def test_nothing_holds_for_want_of_evidence(number: int) -> None:
    """A scene in which nothing was sent breaks every promise about an answer or money due."""
    scene = SCENES[number - 1]
    broken = {each.expected for each in broken_promises(log(), scene.promises)}
    kept = [promise.expected for promise in scene.promises if promise.expected not in broken]
    assert kept == ([] if scene.due else [scene.promises[-1].expected])


def test_answer_that_is_no_json_object() -> None:
    """An answer that is no JSON object shows no payment, no refund, no state and no problem."""
    for body in (b"\xff", b"[]", b"null", b""):
        each = replace(answer("call", 200), body=body)
        assert (each.payment_id, each.refund_id, each.state, each.problem) == (None,) * 4


def test_state_of_a_problem() -> None:
    """The number that a problem has for its status is no state of a payment."""
    assert problem("call", 409, RUNNING).state is None
    assert given_back("call").state == "succeeded"


def test_only_a_first_202_takes_a_payment_on() -> None:
    """A replayed 202 takes nothing on, and neither does another status."""
    assert accepted_answer("call").accepts
    assert not replayed(accepted_answer("call")).accepts
    assert not given_back("call").accepts
