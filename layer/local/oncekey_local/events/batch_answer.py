"""Which records of a batch have failed, according to the function's end and its answer.

The rules are those of Lambda's pollers:
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey_local.functions.runtime_api import OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncekey_local.functions.runtime_api import Outcome

_FAILURES, _ITEM = "batchItemFailures", "itemIdentifier"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The ids that have failed, in the order of the batch, and the reason if all have."""

    failed: tuple[str, ...]
    reason: str = ""


def judge(outcome: Outcome, ids: Sequence[str], *, partial_answers: bool) -> Verdict:
    """Which of the records with these ids have failed.

    A malformed answer fails the whole batch, because a second run is better than none.
    """
    if outcome.kind is not OutcomeKind.RESULT:
        return Verdict(failed=tuple(ids), reason=outcome.kind.value)
    if not partial_answers:
        return Verdict(failed=())
    try:
        failed = _named(outcome.payload)
    except _Misunderstood as error:
        return Verdict(failed=tuple(ids), reason=str(error))
    if unknown := failed - set(ids):
        return Verdict(failed=tuple(ids), reason=f"names {min(unknown)!r}, not of this batch")
    return Verdict(failed=tuple(item for item in ids if item in failed))


class _Misunderstood(Exception):  # noqa: N818 - it says what happened
    """The answer does not have the form that Lambda requires."""


def _named(payload: bytes) -> set[str]:
    try:
        answer: Any = json.loads(payload or b"null")
    except (ValueError, RecursionError):
        raise _Misunderstood("answered with invalid JSON") from None
    if answer is None:
        return set()
    if not isinstance(answer, dict):
        raise _Misunderstood("answered with something else than an object")
    items = answer.get(_FAILURES)
    if items is None:
        return set()
    if not isinstance(items, list):
        raise _Misunderstood(f"answered with {_FAILURES} that are no list")
    named: list[Any] = [item.get(_ITEM) if isinstance(item, dict) else None for item in items]
    if not all(isinstance(name, str) and name for name in named):
        raise _Misunderstood(f"answered with a failure without an {_ITEM}")
    return set(named)
