"""The checker of linearizability, on histories with known verdicts."""

from __future__ import annotations

import pytest

from oncekey.record.outcome import Ran, Reason, Refusal, Replayed
from tests.simulation.checkers_of_order import a_key_is_linearizable
from tests.simulation.histories import (
    AT_MS,
    COMPLETED,
    EXPIRES_AT_S,
    RESERVE,
    RUNNING,
    history,
    wrote,
)
from tests.simulation.history import Answer, Asked, Died, Event, Swept, Told
from tests.support.replacing import replace

A, B = "a", "b"
FIRST, OTHER = "op/1/A", "op/2/B"
FORGOTTEN = Swept(at_ms=AT_MS, actor="", record=COMPLETED)
TAKEN = wrote("A", RESERVE, None, RUNNING)
ANEW = wrote("C", RESERVE, COMPLETED, RUNNING)


def asks(actor: str, body: str = A) -> Asked:
    """A call begins."""
    return Asked(at_ms=AT_MS, actor=actor, fingerprint=f"f1:{body}")


def ends(actor: str, outcome: object, body: str = A) -> Told:
    """A call ends."""
    return Told(at_ms=AT_MS, actor=actor, fingerprint=f"f1:{body}", outcome=outcome)  # type: ignore[arg-type]


def gets(actor: str, text: str = FIRST, body: str = A) -> Told:
    """It ends with the answer on record."""
    return ends(actor, Replayed(COMPLETED, text), body)


def ran(actor: str, *, is_kept: bool = True) -> Told:
    """It ends with the answer of its own run."""
    value = Answer(operation_id="op", attempt=1, by="A")
    until_s = EXPIRES_AT_S if is_kept else None
    return ends(actor, Ran(value=value, record=RUNNING, expires_at_s=until_s))


def refused(actor: str, reason: Reason, body: str = A) -> Told:
    """It ends with a refusal."""
    return ends(actor, Refusal(reason=reason), body)


GOOD: dict[str, tuple[Event, ...]] = {
    "nothing": (),
    "one answer for all": (asks("A"), ran("A"), asks("B"), gets("B"), asks("C"), gets("C")),
    "refused while another runs": (
        asks("A"),
        asks("B"),
        refused("B", Reason.RUNNING),
        ran("A"),
        asks("C"),
        gets("C"),
    ),
    "the key is taken before the answer is there": (
        asks("A"),
        asks("B", B),
        refused("B", Reason.KEY_REUSED, B),
        asks("C"),
        refused("C", Reason.RUNNING),
        ran("A"),
    ),
    "who died has taken the key": (
        asks("A"),
        Died(at_ms=AT_MS, actor="A"),
        asks("B", B),
        refused("B", Reason.KEY_REUSED, B),
    ),
    "an answer that nothing keeps": (
        asks("A"),
        ran("A", is_kept=False),
        asks("B"),
        gets("B", OTHER),
    ),
    "calls that overlap, in the order that fits": (
        asks("A"),
        asks("B"),
        gets("B"),
        refused("A", Reason.RUNNING),
    ),
    "another life after the broom": (
        asks("A"),
        ran("A"),
        FORGOTTEN,
        asks("B", B),
        gets("B", OTHER, B),
    ),
    "another life over what has expired": (asks("A"), ran("A"), asks("C"), ANEW, gets("C", OTHER)),
    # Found by seed 16688.
    "a call that outlives the retention, and meets another request": (
        asks("A", B),
        TAKEN,
        asks("B"),
        refused("B", Reason.KEY_REUSED),
        asks("C"),
        ANEW,
        refused("A", Reason.KEY_REUSED, B),
        gets("C", OTHER),
    ),
    # Found by seeds 228280 and 234384.
    "a call that arrives after its end, and takes a key that was deleted since": (
        asks("A"),
        ran("A"),
        FORGOTTEN,
        replace(TAKEN, late=True),
        asks("B", B),
        refused("B", Reason.KEY_REUSED, B),
    ),
    # Found by seed 8347568.
    "a call that takes the key, and again once it was forgotten, and never ends": (
        asks("A"),
        TAKEN,
        asks("B", B),
        refused("B", Reason.KEY_REUSED, B),
        replace(ANEW, actor="A"),
        asks("C", B),
        refused("C", Reason.KEY_REUSED, B),
    ),
}

BAD: dict[str, tuple[Event, ...]] = {
    "two answers": (asks("A"), ran("A"), asks("B"), gets("B", OTHER)),
    "two answers at once": (asks("A"), asks("B"), ran("A"), gets("B", OTHER)),
    "an answer that is gone again": (asks("A"), ran("A"), asks("B"), refused("B", Reason.RUNNING)),
    "an answer that is in doubt again": (
        asks("A"),
        ran("A"),
        asks("B"),
        refused("B", Reason.OUTCOME_UNKNOWN),
    ),
    "the answer of another request": (asks("A"), ran("A"), asks("B", B), gets("B", FIRST, B)),
    "another's key that nobody has taken": (asks("B", B), refused("B", Reason.KEY_REUSED, B)),
    "a key that its owner loses to nobody": (
        asks("A", B),
        TAKEN,
        refused("A", Reason.KEY_REUSED, B),
    ),
    "a key that its owner loses to another": (
        asks("A"),
        ran("A"),
        asks("B"),
        refused("B", Reason.KEY_REUSED),
    ),
    "another's key that a refused late call has not taken": (
        asks("A"),
        ran("A"),
        FORGOTTEN,
        replace(TAKEN, late=True, permitted=False),
        asks("B", B),
        refused("B", Reason.KEY_REUSED, B),
    ),
    "the former answer in a new life": (
        asks("A"),
        ran("A"),
        FORGOTTEN,
        asks("B"),
        gets("B", OTHER),
        asks("C"),
        gets("C", FIRST),
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_an_atomic_register_would_say_is_linearizable(name: str) -> None:
    """Some order of the calls explains what each was told."""
    assert [str(found) for found in a_key_is_linearizable(history(*GOOD[name]))] == []


@pytest.mark.parametrize("name", BAD)
def test_what_no_atomic_register_would_say_is_found_with_its_calls(name: str) -> None:
    """No order explains it, and the story has the calls that do not fit."""
    events = BAD[name]

    (found,) = a_key_is_linearizable(history(*events))

    assert found.story
    assert set(found.story) <= set(events)


def test_what_a_sandbox_remembers_may_be_older_than_what_is_stored() -> None:
    """Nothing is said of the order where sandboxes remember answers for a stated time."""
    assert list(a_key_is_linearizable(history(*BAD["two answers"], remembers=True))) == []
