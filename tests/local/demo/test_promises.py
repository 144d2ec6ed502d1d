"""The checks by themselves: each is satisfied by a good log, and each can fail."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from oncekey_local.demo.log import Charge, Exchange, Order, SceneLog
from oncekey_local.demo.promises import (
    ALWAYS,
    NOT_SEEN,
    Promise,
    another_payment,
    answered,
    answered_in_all,
    broken_promises,
    called_provider,
    charged,
    charged_behind_the_scenes,
    replays,
    tells_how_long_it_is_kept,
    tells_when_to_retry,
)
from oncekey_local.demo.scenes import SCENES

ORDER = Order(key="7f1c52b8-6f0e-4a53-8f0b-6f3a1f6f7a11", amount=1200)
NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)
RUNNING = "request-in-progress"


def answer(step: str, status: int, payment_id: str | None = "pay_1", **headers: str) -> Exchange:
    """An answer that shows a payment."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = b"" if payment_id is None else json.dumps({"payment_id": payment_id}).encode()
    return Exchange(step=step, tenant="acme", order=ORDER, status=status, headers=named, body=body)


def problem(step: str, status: int, code: str, **headers: str) -> Exchange:
    """An answer that reports a problem."""
    body = json.dumps({"type": f"urn:oncekey:problem:{code}"}).encode()
    return replace(answer(step, status, **headers), body=body)


def replayed(step: str, status: int, payment_id: str = "pay_1") -> Exchange:
    """An answer out of the record."""
    return answer(step, status, payment_id, idempotent_replayed="true")


def log(*exchanges: Exchange, charges: tuple[Charge, ...] = (), calls: int = 0) -> SceneLog:
    """A scene in which this was seen."""
    return SceneLog(exchanges=exchanges, charges=charges, provider_calls=calls)


def charge(number: int, status: str = "succeeded", *, operation: str = "") -> Charge:
    """A charge of the payment `pay_<number>`."""
    return Charge(
        id=f"pi_{number}",
        operation_id=operation or f"operation {number}",
        payment_id=f"pay_{number}",
        amount=1200,
        status=status,
    )


MADE = answered("call", 201, says="")
REFUSED = answered("call", 409, RUNNING, says="")
RACE = answered_in_all("call", {201: 1, 409: 2}, says="")
RETRY_AFTER = tells_when_to_retry("call", 409, RUNNING, says="")
EXPIRES = tells_how_long_it_is_kept("call", now=lambda: NOON)
REPLAYS = replays("retry", "call", status=201, says="")
ANOTHER = another_payment("other", "call", says="")
ONE_CHARGE = charged(1, says="")
ONE_CALL = called_provider(1, says="")
PLAYED, STRUCK, CHARGED, ONCE = ALWAYS


@pytest.mark.parametrize(
    ("promise", "good"),
    [
        (MADE, log(answer("call", 201), problem("other", 500, "x"))),
        (MADE, log(answer("call", 201), answer("call", 201))),
        (REFUSED, log(problem("call", 409, RUNNING))),
        (RACE, log(answer("call", 409), answer("call", 201), answer("call", 409))),
        (RETRY_AFTER, log(problem("call", 409, RUNNING, retry_after="5"), answer("call", 201))),
        (EXPIRES, log(answer("call", 201, idempotency_expires="Thu, 01 May 2031 12:00:01 GMT"))),
        (REPLAYS, log(answer("call", 201), replayed("retry", 201))),
        (REPLAYS, log(problem("call", 409, RUNNING), answer("call", 201), replayed("retry", 201))),
        (REPLAYS, SceneLog(exchanges=(replayed("retry", 201),), earlier=(answer("call", 201),))),
        (ANOTHER, log(answer("call", 201), answer("other", 201, "pay_2"))),
        (ONE_CHARGE, log(charges=(charge(1), charge(2, "requires_payment_method")))),
        (ONE_CALL, log(calls=1)),
        (PLAYED, log()),
        (STRUCK, log()),
        (CHARGED, log(answer("call", 201), charges=(charge(1),))),
        (CHARGED, log(replayed("call", 201), problem("call", 409, RUNNING))),
        (ONCE, log(charges=(charge(1), charge(2)))),
        (ONCE, log(charges=(charge(1), charge(2, "canceled", operation="operation 1")))),
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
        (REPLAYS, log(answer("call", 201)), NOT_SEEN),
        (REPLAYS, log(replayed("retry", 201)), "no 201 to repeat"),
        (REPLAYS, log(replayed("call", 201), replayed("retry", 201)), "no 201 to repeat"),
        (
            REPLAYS,
            log(answer("call", 201), answer("retry", 201)),
            "an answer without Idempotent-Replayed: true",
        ),
        (
            REPLAYS,
            log(answer("call", 201), replayed("retry", 201, "pay_2")),
            "another answer: 201 payment pay_2…",
        ),
        (
            REPLAYS,
            log(answer("call", 201), replayed("retry", 200)),
            "another answer: 200 payment pay_1…",
        ),
        (ANOTHER, log(answer("call", 201)), NOT_SEEN),
        (ANOTHER, log(answer("call", 201), answer("other", 201)), "the same payment pay_1"),
        (
            ANOTHER,
            log(answer("call", 201), replayed("other", 201, "pay_2")),
            "a replay of somebody's answer",
        ),
        (ONE_CHARGE, log(), "0 charges at the provider, 1 due"),
        (
            ONE_CHARGE,
            log(charges=(charge(1), charge(2))),
            "a double charge: 2 charges at the provider, 1 due",
        ),
        (
            charged(0, surplus="a surprise", says=""),
            log(charges=(charge(1),)),
            "a surprise: 1 charge at the provider, 0 due",
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
            CHARGED,
            log(answer("call", 201)),
            "payment pay_1 was answered with 201, and has 0 charges",
        ),
        (
            CHARGED,
            log(answer("call", 201), charges=(charge(1, "requires_payment_method"),)),
            "payment pay_1 was answered with 201, and has 0 charges",
        ),
        (
            CHARGED,
            log(answer("call", 201), charges=(charge(1), replace(charge(1), id="pi_2"))),
            "payment pay_1 was answered with 201, and has 2 charges",
        ),
        (
            ONCE,
            log(charges=(charge(1), charge(2, operation="operation 1"))),
            "a double charge: operation operation 1 2 times",
        ),
    ],
)
def test_broken(promise: Promise, bad: SceneLog, seen: str) -> None:
    """A log that does not show what was promised is told, with what was seen instead."""
    assert promise.check(bad) == seen


def test_every_broken_promise_is_found() -> None:
    """One broken promise does not hide the next."""
    promises = [answered("call", 201, says="first"), charged(1, says="second"), PLAYED]
    broken = broken_promises(log(answer("call", 500, None)), promises)
    assert [(each.expected, each.seen) for each in broken] == [
        ("first", "500"),
        ("second", "0 charges at the provider, 1 due"),
    ]


def test_charges_behind_the_scenes() -> None:
    """A charge that came after its scene is found; one seen in a scene, or declined, is not."""
    seen = [log(charges=(charge(1),)), log(charges=(charge(2),))]
    declined = charge(4, "requires_payment_method")
    assert charged_behind_the_scenes(seen, [charge(1), charge(2), declined]) == []
    (broken,) = charged_behind_the_scenes(seen, [charge(1), charge(2), charge(3)])
    assert broken.seen == "late: 12.00 EUR pi_3"


@pytest.mark.parametrize("number", range(1, len(SCENES) + 1))
def test_nothing_holds_for_want_of_evidence(number: int) -> None:
    """A scene in which nothing was sent breaks every promise about an answer or a charge due."""
    scene = SCENES[number - 1]
    broken = {each.expected for each in broken_promises(log(), scene.promises)}
    kept = [promise.expected for promise in scene.promises if promise.expected not in broken]
    assert kept == ([] if scene.due else [scene.promises[-1].expected])


def test_answer_that_is_no_json_object() -> None:
    """An answer that is no JSON object shows no payment and no problem."""
    for body in (b"\xff", b"[]", b"null", b""):
        each = replace(answer("call", 200), body=body)
        assert (each.payment_id, each.problem) == (None, None)
