"""The time that a worker expects its messages to take, and what it does without an answer."""

from __future__ import annotations

import pytest

from oncekey.errors import StoreError
from tests.outbox.test_worker import Turns


@pytest.mark.fault("K4.5")
def test_a_slow_message_makes_the_next_ones_expected_slow() -> None:
    """After one that took 25 seconds, none is begun with 18 seconds left.

    Red when the time that messages take is not noted.
    """
    turns = Turns(timeout_ms=70_000)
    turns.takes_ms = dict.fromkeys("abc", 25_000)

    assert turns.play(*map(turns.record, "abc")) == ["c"]


def test_the_last_two_seconds_are_for_giving_messages_back() -> None:
    """A message that would end in the last two seconds is not begun."""
    turns = Turns(timeout_ms=20_000)
    turns.takes_ms = dict.fromkeys("abcd", 5_500)

    assert turns.play(*map(turns.record, "abcd")) == ["d"]


def test_a_large_batch_in_a_short_invocation_is_done_to_its_end() -> None:
    """Each message is expected to take its share of the time, until one has taken longer."""
    turns = Turns(timeout_ms=8_000)
    turns.takes_ms = dict.fromkeys("abcdefghij", 500)

    assert turns.play(*map(turns.record, "abcdefghij")) == []


@pytest.mark.parametrize(("takes_ms", "again"), [(4_000, ["a"]), (4_001, ["a", "b"])])
def test_of_a_small_batch_each_message_is_expected_to_take_a_quarter(
    takes_ms: int, again: list[str]
) -> None:
    """Of the invocation; one that failed says nothing of how long the others take."""
    turns = Turns(timeout_ms=8_000)
    turns.takes_ms = {"a": takes_ms}
    turns.raises = {"a": [ValueError("no")]}

    assert turns.play(*map(turns.record, "ab")) == again


def test_where_the_queue_does_not_tell_its_timeout_six_of_the_function_are_the_most() -> None:
    """AWS recommends that visibility timeout: what has failed waits for no longer."""
    turns = Turns()

    def unanswered() -> int:
        raise StoreError("AccessDenied", transient=False)

    turns.line.visibility_timeout_s = unanswered  # type: ignore[method-assign]  # that is the fault
    turns.raises = {"a": [ValueError("no")]}

    turns.play(turns.record("a", receives=12, tried_for_s=10_000))

    assert turns.delays == {"a": 6 * 60}


def test_an_event_without_messages_fails_none() -> None:
    """Lambda reads the list that it is answered."""
    assert Turns().worker({"Records": []}, None) == {"batchItemFailures": []}
