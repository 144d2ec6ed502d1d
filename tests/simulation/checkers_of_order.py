"""Linearizability of one key: what its callers were told is what an atomic register would say.

The register holds a request's fingerprint and at most one answer. It is empty at first, and again
after an expiry or a deletion on purpose. The search is that of Wing and Gong, "Testing and
verifying concurrent objects" (1993), with Lowe's memory of what has been tried, as in Porcupine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from oncekey.record.outcome import Ran, Reason, Refusal, Replayed
from oncekey.record.transitions import Reserve
from tests.simulation.history import Answer, Asked, Swept, Told, Wrote
from tests.simulation.story import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.history import Event, History

_FOREVER = 1 << 62


class Register(NamedTuple):
    """The state of a key: whose request it belongs to, and what the answer is."""

    fingerprint: str = ""
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a key, from the event at which it begins to the one at which it ends.

    `answer` is what it was told; empty if it was refused, for `reason`.
    """

    begins: int
    ends: int
    fingerprint: str
    answer: str = ""
    reason: Reason | None = None
    empties: bool = False

    def applied(self, register: Register) -> tuple[Register, ...]:
        """What the register may be after the call; empty if no call is told this then."""
        if self.empties:
            return (Register(),)
        is_mine = register.fingerprint in {"", self.fingerprint}
        if self.answer:
            fits = is_mine and register.answer in {"", self.answer}
            return (Register(self.fingerprint, self.answer),) if fits else ()
        if self.reason is Reason.KEY_REUSED:
            return () if is_mine else (register,)
        if self.reason in {Reason.RUNNING, Reason.OUTCOME_UNKNOWN}:
            # Its own request has the key, and there is no answer yet.
            fits = is_mine and not register.answer
            return (Register(self.fingerprint),) if fits else ()
        # Whoever was told nothing of the key may have taken it, or not.
        taken = Register(self.fingerprint, register.answer)
        return (register, taken) if is_mine else (register,)


def calls_in(history: History) -> list[tuple[Call, tuple[Event, ...]]]:
    """The calls whose end was told, and the moments at which the key may be forgotten."""
    found: list[tuple[Call, tuple[Event, ...]]] = []
    asked: dict[str, tuple[int, Asked]] = {}
    took: set[str] = set()
    for number, event in enumerate(history.events):
        match event:
            case Asked():
                # Of whoever never got an end nobody knows when it had its effect.
                asked[event.actor] = number, event
                took.discard(event.actor)
            case Told() if event.actor in asked:
                begins, asking = asked.pop(event.actor)
                answer, reason = _said(event)
                call = Call(begins, number, event.fingerprint, answer, reason)
                found.append((call, (asking, event)))
                if reason is not Reason.KEY_REUSED or event.actor in took:
                    # It may have taken the key some time before it got its answer. If the call
                    # outlives the retention, another request may have the key by then.
                    taking = Call(begins, number, event.fingerprint)
                    found.append((taking, (asking,)))
            case Swept():
                found.append((Call(number, number, "", empties=True), (event,)))
            case Wrote(permitted=True, transition=Reserve(record=record), before=before):
                takes_again = event.actor in took
                took.add(event.actor)
                if before is not None:
                    found.append((Call(number, number, "", empties=True), (event,)))
                if takes_again or (event.late and event.actor not in asked):
                    # Its call has taken the key before, or has ended. The key was forgotten since.
                    found.append((Call(number, number, record.fingerprint), (event,)))
    for begins, asking in asked.values():
        found.append((Call(begins, _FOREVER, asking.fingerprint), (asking,)))
    return found


def _said(told: Told) -> tuple[str, Reason | None]:
    match told.outcome:
        case Ran(value=Answer() as answer, expires_at_s=int()):
            return answer.stored, None
        case Replayed(record=record, stored=text):
            return text or str(record.response), None
        case Refusal(reason=reason):
            return "", reason
    # Whoever was told of a failure, or got an answer that nothing keeps, knows nothing of the key.
    return "", Reason.STORE_UNAVAILABLE


def a_key_is_linearizable(history: History) -> Iterator[Violation]:
    """Some order of the calls, in which each lies between its begin and its end, explains them."""
    if history.circumstances.remembers:
        # What a sandbox remembers may be older than what is stored, for a stated time.
        return
    calls = calls_in(history)
    failed = _unexplained([call for call, _ in calls])
    if failed:
        story = tuple(event for number in sorted(failed) for event in calls[number][1])
        yield Violation("no order of the calls of a key explains what was told", story)


def _unexplained(calls: list[Call]) -> set[int]:
    """Empty if the calls are linearizable; else the calls that the longest order leaves out."""
    whole = (1 << len(calls)) - 1
    stack: list[tuple[int, Register]] = [(0, Register())]
    tried = {stack[0]}
    furthest = 0
    while stack:
        done, register = stack.pop()
        if done == whole:
            return set()
        if done.bit_count() > furthest.bit_count():
            furthest = done
        left = [number for number in range(len(calls)) if not done >> number & 1]
        # Whatever comes next must have begun before any of the others has ended.
        first_end = min(calls[number].ends for number in left)
        for number in left:
            call = calls[number]
            for after in call.applied(register) if call.begins <= first_end else ():
                state = (done | 1 << number, after)
                if state not in tried:
                    tried.add(state)
                    stack.append(state)
    return {number for number in range(len(calls)) if not furthest >> number & 1}
