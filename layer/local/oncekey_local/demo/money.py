"""The promises about money: which charges and refunds the provider may have made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from oncekey_local.demo.log import CHARGE, DECLINED, REFUND, SUCCEEDED
from oncekey_local.demo.promises import Broken, Promise
from oncekey_local.demo.words import euros, times

if TYPE_CHECKING:
    from collections.abc import Iterable

    from oncekey_local.demo.log import Movement, SceneLog

NOTHING_LATE = "no charge or refund after the end of its scene"
_DOUBLE = "a double "
_SUBJECTS = {CHARGE: "payment", REFUND: "refund"}


def charged(due: int, *, surplus: str | None = None, says: str) -> Promise:
    """The provider charged exactly `due` times in this scene; `surplus` names a further charge."""
    return _moved(CHARGE, due, surplus, says)


def refunded(due: int, *, says: str) -> Promise:
    """The provider refunded money exactly `due` times in this scene."""
    return _moved(REFUND, due, None, says)


def _moved(kind: str, due: int, surplus: str | None, says: str) -> Promise:
    def check(log: SceneLog) -> str | None:
        made = len(log.moved_by(kind))
        if made == due:
            return None
        seen = f"{times(made, kind)} at the provider, {due} due"
        return f"{surplus or _DOUBLE + kind}: {seen}" if made > due else seen

    return Promise(expected=says, check=check)


def called_provider(due: int, *, says: str) -> Promise:
    """Exactly `due` calls reached the provider in this scene."""

    def check(log: SceneLog) -> str | None:
        made = log.provider_calls
        return None if made == due else f"{times(made, 'call')} reached the provider"

    return Promise(expected=says, check=check)


def _every_payment_is_charged(log: SceneLog) -> str | None:
    charges = Counter(charge.concerns for charge in log.moved_by(CHARGE))
    for each in log.exchanges:
        if not each.accepts:
            continue
        state, made = log.states.get(each.payment_id or ""), charges[each.payment_id or ""]
        if (state, made) not in {(SUCCEEDED, 1), (DECLINED, 0)}:
            seen = f"is {state or 'not to be seen'}, and has {times(made, CHARGE)}"
            return f"payment {each.payment_id} was answered with 202, {seen}"
    return None


def _every_refund_is_made(log: SceneLog) -> str | None:
    refunds = Counter(refund.concerns for refund in log.moved_by(REFUND))
    for each in log.exchanges:
        if each.status == 201 and not each.replayed and refunds[each.refund_id or ""] != 1:
            made = times(refunds[each.refund_id or ""], REFUND)
            return f"refund {each.refund_id} was answered with 201, and has {made}"
    return None


def _nothing_moves_twice(log: SceneLog) -> str | None:
    for kind in (CHARGE, REFUND):
        moved = log.moved_by(kind)
        for what, named in (
            ("operation", Counter(each.operation_id for each in moved)),
            (_SUBJECTS[kind], Counter(each.concerns for each in moved)),
        ):
            twice = [f"{name} {count} times" for name, count in named.items() if count > 1]
            if twice:
                return f"{_DOUBLE}{kind}: {what} {', '.join(twice)}"
    return None


# The promises of every scene.
ALWAYS = (
    Promise(expected="the scene can be played to its end", check=lambda log: log.trouble),
    Promise(
        expected="every planned fault happened",
        check=lambda log: ", ".join(f"{name} never struck" for name in log.faults_left) or None,
    ),
    Promise(
        expected="a payment answered with 202 ends with one charge, or declined with none",
        check=_every_payment_is_charged,
    ),
    Promise(
        expected="a refund answered with 201 has one refund at the provider",
        check=_every_refund_is_made,
    ),
    Promise(
        expected="the provider has no second charge or refund for one operation",
        check=_nothing_moves_twice,
    ),
)


def moved_behind_the_scenes(
    logs: Iterable[SceneLog], in_the_end: Iterable[Movement]
) -> list[Broken]:
    """The provider's charges and refunds after the end of their scenes."""
    known = {movement.id for log in logs for movement in log.moved}
    late = [each for each in in_the_end if each.status == SUCCEEDED and each.id not in known]
    if not late:
        return []
    told = ", ".join(f"{each.kind} {euros(each.amount)} {each.id}" for each in late)
    return [Broken(expected=NOTHING_LATE, seen=f"late: {told}")]
