"""An outage of what the reconciler depends on: ten minutes, and hundreds that wait for it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.outages import DAY_MS, Dependency, Service
from tests.support.steps import noise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WAIT, NEED_IT_NOT, MAY_BE_TOLD = 300, 30, 10
# Longer than any answer that a record holds, and larger than any item may be in these tests.
LARGE = base64.b64encode(noise(6_000)).decode()
# After the outage: each minute for an hour, and then less often, until what a queue may have got
# before it did not answer is sent again.
HOUR, REST = 60, 120

pytestmark = pytest.mark.usefixtures("no_resolvers")


@dataclass(frozen=True, slots=True)
class Outage:
    """What is out, what waits for it, and what does not need it."""

    of: Callable[[Service], Dependency]
    waits: Callable[[Service], Callable[[], int]]
    others: Callable[[Service], Callable[[], int]]


def orders(service: Service) -> Callable[[], int]:
    """Operations whose resolver needs nobody."""
    keys = service.unknown("POST /orders", NEED_IT_NOT)
    service.knows("POST /orders")
    return lambda: service.settled(keys)


def payments(service: Service) -> Callable[[], int]:
    """Operations whose resolver asks the provider."""
    keys = service.unknown("POST /payments", WAIT)
    service.answers("POST /payments")
    return lambda: service.settled(keys)


def reports(service: Service) -> Callable[[], int]:
    """Operations whose answer only the bucket holds."""
    keys = service.unknown("POST /reports", WAIT)
    service.answers("POST /reports", body=LARGE)
    return lambda: service.settled(keys)


def transfers(service: Service) -> Callable[[], int]:
    """Operations that only a person can settle."""
    keys = service.unknown("POST /transfers", WAIT)
    return lambda: service.escalated(keys)


def messages(number: int) -> Callable[[Service], Callable[[], int]]:
    """Messages that the relay has left behind."""

    def made(service: Service) -> Callable[[], int]:
        ids = service.publishes(number)
        return lambda: service.sent(ids)

    return made


OUTAGES = {
    "store": Outage(lambda service: service.table, payments, messages(NEED_IT_NOT)),
    "queue": Outage(lambda service: service.queue, messages(WAIT), orders),
    "escalation queue": Outage(lambda service: service.escalations, transfers, orders),
    "provider": Outage(lambda service: service.provider, payments, orders),
    "bucket": Outage(lambda service: service.bucket, reports, orders),
}
# How long a call takes, and whether it fails then.
HOW = {
    "dead": {"takes_ms": 1, "fails": True},
    "hangs for 7 s": {"takes_ms": 7_000, "fails": True},
    "hangs for 10 s": {"takes_ms": 10_000, "fails": True},
    "slow": {"takes_ms": 8_000, "fails": False},
}


FIRST = ("those that wait", "the others")
_TWO_WAYS = ("dead", "hangs for 10 s")


def _cases() -> Iterator[Any]:
    """Every outage in two ways, with one or the other due first in turn; the rest is a proof."""
    for number, (out, how) in enumerate(product(OUTAGES, HOW)):
        turn = (number + number // len(HOW)) % len(FIRST)
        marks = [] if how in _TWO_WAYS else [pytest.mark.proof]
        yield pytest.param(out, how, FIRST[turn], marks=marks)
        yield pytest.param(out, how, FIRST[1 - turn], marks=pytest.mark.proof)


@pytest.mark.fault("K4.3")
@pytest.mark.fault("K4.4")
@pytest.mark.parametrize(("out", "how", "first"), list(_cases()))
def test_an_outage_keeps_those_waiting_that_need_what_is_out(
    out: str, how: str, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an outage of ten minutes of anything that the reconciler depends on, with 300 that wait
    for it, the 30 that do not need it are done within two runs, whichever are due first; an hour
    afterwards the others are, but for the few whom a queue without an answer may have told, and
    these in a day; nobody is told twice a day, and a run that could do nothing has failed.

    Red when the escalation queue's lane is not closed by a failure, or a lane that is slow goes
    before one that is not.
    """
    monkeypatch.setattr("oncekey.record.stored_answer.LARGEST_COMPANION_BYTES", 3_000)
    service, outage = Service(), OUTAGES[out]
    made = {"those that wait": outage.waits, "the others": outage.others}
    earlier = made.pop(first)
    counted = {first: earlier(service)}
    service.clock.advance(1_000)
    ((later, make),) = made.items()
    counted[later] = make(service)
    service.is_due()
    waits, others = counted["those that wait"], counted["the others"]
    dependency = outage.of(service)
    dependency.takes_ms, dependency.fails = int(HOW[how]["takes_ms"]), bool(HOW[how]["fails"])

    service.runs(2)
    assert others() == NEED_IT_NOT
    service.runs(8)

    assert service.runs_in_vain() == []
    dependency.recovers()
    service.runs(HOUR)
    # But for those whom a queue that did not answer may have told.
    assert waits() >= WAIT - MAY_BE_TOLD
    service.runs(REST, every_ms=2 * DAY_MS // REST)
    assert waits() == WAIT
    assert service.told_twice_a_day() == []
    assert all(service.reports[-REST:])
