"""The promises of a scene, as pure checks of its log.

A promise is kept if its check returns None. Otherwise the check returns what was seen instead. If
the request that a promise is about never happened, the promise is broken.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from oncekey_local.demo.log import PENDING, REFUND
from oncekey_local.demo.words import counted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from oncekey_local.demo.log import Exchange, SceneLog

NOT_SEEN = "no such request was answered"


@dataclass(frozen=True, kw_only=True)
class Promise:
    """One thing that must hold. `check` returns None, or what was seen instead."""

    expected: str
    check: Callable[[SceneLog], str | None]


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A promise that was not kept."""

    expected: str
    seen: str


def broken_promises(log: SceneLog, promises: Iterable[Promise]) -> list[Broken]:
    """The promises that are broken in this log."""
    return [
        Broken(expected=promise.expected, seen=seen)
        for promise in promises
        if (seen := promise.check(log)) is not None
    ]


def answered(step: str, status: int, problem: str | None = None, *, says: str) -> Promise:
    """Every request of the step got this status and, with one, this problem."""

    def fault(each: Exchange) -> str | None:
        right = (each.status, each.problem) == (status, problem or each.problem)
        return None if right else shown(each)

    return Promise(expected=says, check=lambda log: _each(log.step(step), fault))


def answered_in_all(step: str, statuses: Mapping[int, int], *, says: str) -> Promise:
    """The requests of the step got these statuses, each with the given number of times."""

    def check(log: SceneLog) -> str | None:
        seen = Counter(each.status for each in log.step(step))
        return None if seen == statuses else (counted(log.step(step)) or NOT_SEEN)

    return Promise(expected=says, check=check)


def tells_when_to_retry(step: str, status: int, problem: str, *, says: str) -> Promise:
    """The answers with this status have the problem's code and a `Retry-After` in seconds."""

    def fault(each: Exchange) -> str | None:
        retry_after = each.headers.get("retry-after", "")
        if each.problem != problem:
            return shown(each)
        if not retry_after.isdecimal() or int(retry_after) < 1:
            return f"Retry-After: {retry_after or 'none'}"
        return None

    def check(log: SceneLog) -> str | None:
        refused = [each for each in log.step(step) if each.status == status]
        return _each(refused, fault) if refused else f"nobody was answered with {status}"

    return Promise(expected=says, check=check)


def tells_how_long_it_is_kept(step: str, *, now: Callable[[], datetime] | None = None) -> Promise:
    """The answer has an `Idempotency-Expires` with a date in the future."""

    def fault(each: Exchange) -> str | None:
        expires = each.headers.get("idempotency-expires")
        if expires is None:
            return "no Idempotency-Expires"
        try:
            ahead = parsedate_to_datetime(expires) > (now() if now else datetime.now(tz=UTC))
        except (ValueError, TypeError):
            ahead = False
        return None if ahead else f"Idempotency-Expires: {expires}"

    return Promise(
        expected="the answer says until when it is kept (Idempotency-Expires)",
        check=lambda log: _each(log.step(step), fault),
    )


def replays(step: str, of: str, *, status: int, says: str) -> Promise:
    """Every answer of the step repeats, byte for byte, the one of step `of` with this status."""

    def check(log: SceneLog) -> str | None:
        originals = [each for each in log.step(of) if each.status == status and not each.replayed]
        if not originals:
            return f"no {status} to repeat"

        def fault(each: Exchange) -> str | None:
            if (each.status, each.body) != (status, originals[0].body):
                return f"another answer: {shown(each)}"
            if each.location != originals[0].location:
                return f"another Location: {each.location}"
            return None if each.replayed else "an answer without Idempotent-Replayed: true"

        return _each(log.step(step), fault)

    return Promise(expected=says, check=check)


def tells_of_what_was_made(step: str, *, says: str) -> Promise:
    """Every answer of the step is a replay that shows a refund made before the scene."""

    def check(log: SceneLog) -> str | None:
        made = {each.concerns for each in log.made_before if each.kind == REFUND}

        def fault(each: Exchange) -> str | None:
            if each.status != 201:
                return shown(each)
            if not each.replayed:
                return "an answer without Idempotent-Replayed: true"
            return None if each.refund_id in made else f"no such refund: {shown(each)}"

        return _each(log.step(step), fault)

    return Promise(expected=says, check=check)


def another_payment(step: str, than: str, *, says: str) -> Promise:
    """The step's payment is not the one of step `than`, and not a replay either."""

    def check(log: SceneLog) -> str | None:
        others = {each.payment_id for each in log.step(than)}

        def fault(each: Exchange) -> str | None:
            if each.replayed:
                return "a replay of somebody's answer"
            return f"the same payment {each.payment_id}" if each.payment_id in others else None

        return _each(log.step(step), fault)

    return Promise(expected=says, check=check)


def accepted(step: str, *, says: str) -> Promise:
    """Every request of the step got a 202 with a pending payment and its Location."""

    def fault(each: Exchange) -> str | None:
        if (each.status, each.state) != (202, PENDING):
            return shown(each)
        right = each.location == f"/payments/{each.payment_id}"
        return None if right else f"Location: {each.location or 'none'}"

    return Promise(expected=says, check=lambda log: _each(log.step(step), fault))


def ends(step: str, state: str, *, says: str) -> Promise:
    """Every payment in the step's answers has reached this state."""

    def check(log: SceneLog) -> str | None:
        def fault(each: Exchange) -> str | None:
            seen = log.states.get(each.payment_id or "")
            if each.payment_id is None:
                return shown(each)
            return None if seen == state else f"the payment is {seen or 'not to be seen'}"

        return _each(log.step(step), fault)

    return Promise(expected=says, check=check)


def _each(exchanges: list[Exchange], fault: Callable[[Exchange], str | None]) -> str | None:
    if not exchanges:
        return NOT_SEEN
    faults = [seen for each in exchanges if (seen := fault(each)) is not None]
    if not faults:
        return None
    several = f" ({len(faults)} of {len(exchanges)} answers)" if len(exchanges) > 1 else ""
    return f"{faults[0]}{several}"
