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
class Contestant:
    """One contender in one case: its handler, and the calls that it makes."""

    handler: Handler
    calls: Sequence[Call]


def contest(case: Case, tapes: Tapes, source: Source) -> dict[str, Contestant]:
    """Each contender of `case`, by name.

    Raises:
        AssertionError: one of them does not answer as it should, or sends fewer requests than when
            it was recorded.
    """
    ours = tapes[case.name, "oncekey"]
    sent = {case.key(call.event): call.requests for call in ours}
    made = {
        "oncekey": Contestant(contenders.oncekey(case), ours),
        "powertools": Contestant(contenders.powertools(case), tapes[case.name, "powertools"]),
        "bare": Contestant(contenders.bare(case, sent), ours),
    }
    for name, contestant in made.items():
        for call in contestant.calls:
            source.load(call.replies)
            answer = contestant.handler(call.event, Context())
            assert case.is_answered_by(answer), (case.name, name, answer)
            assert source.is_used_up(), (case.name, name)
    return made
