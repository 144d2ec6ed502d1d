"""The contenders of a case, each shown to answer as it should before it is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.benchmarks import contenders
from tests.benchmarks.cases import Context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.cases import Case
    from tests.benchmarks.contenders import Handler
    from tests.benchmarks.recording import Call, Tapes
    from tests.benchmarks.transport import Source

NAMES = ("oncekey", "powertools", "bare")


@dataclass(frozen=True)
class Bout:
    """One contender in one case: its handler, and the calls that it plays."""

    handler: Handler
    calls: Sequence[Call]


def bouts(case: Case, tapes: Tapes, source: Source) -> dict[str, Bout]:
    """Each contender of `case`, by name.

    Raises:
        AssertionError: one of them does not answer as it should, or sends fewer requests than when
            it was recorded.
    """
    ours = tapes[case.name, "oncekey"]
    sent = {case.key(call.event): call.requests for call in ours}
    made = {
        "oncekey": Bout(contenders.oncekey(case), ours),
        "powertools": Bout(contenders.powertools(case), tapes[case.name, "powertools"]),
        "bare": Bout(contenders.bare(case, sent), ours),
    }
    for name, bout in made.items():
        for call in bout.calls:
            source.put_in(call.replies)
            answer = bout.handler(call.event, Context())
            assert case.is_answered_by(answer), (case.name, name, answer)
            assert source.is_played(), (case.name, name)
    return made
